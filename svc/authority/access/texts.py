"""The exact texts of requests for access: sealed until they are of no more use."""

from __future__ import annotations

from attrs import frozen
from twisted.logger import Logger

from svc.errors import Malformed
from svc.interfaces.kinds import ServedKind
from svc.model.policy.requested import AccessAsk, RequestedAccess, text_digest
from svc.pki.credentials import CredentialPlace, CredentialSeal, SealBroken

_log = Logger(namespace="svc_authority")


@frozen
class SealedTexts:
    """Seals and opens them; each is bound to its row and to the person who asks."""

    cluster: str
    seal: CredentialSeal

    def sealed(self, request_id: str, person_id: str, text: bytes) -> bytes:
        """What a row keeps of *text*; nothing of none."""
        return self.seal.seal(text, self._place(request_id, person_id)) if text else b""

    def opened(self, row: RequestedAccess) -> bytes:
        """The text of a row; empty where it has none, or none that opens to what it was."""
        if not row.sealed_text:
            return b""
        try:
            text = self.seal.open(row.sealed_text, self._place(row.id, row.person_id))
        except SealBroken as broken:
            _log.warn("the text of a request for access cannot be shown", text=broken.text)
            return b""
        return text if text_digest(text) == row.text_sha256 else b""

    def _place(self, request_id: str, person_id: str) -> CredentialPlace:
        return CredentialPlace(
            cluster=self.cluster,
            table="access_requests",
            row=request_id,
            person_id=person_id,
            provider="",
        )


def check_exact(ask: AccessAsk, kind: ServedKind) -> None:
    """Refuse a text that no request has, or in a session that it does not say which.

    All that sessions of the kind are told apart by is said, so that nothing is approved for
    another database or role.
    """
    if kind.opaque or not ask.action or ask.action == kind.terms.open_action:
        raise Malformed(
            f"an exact text is of a request inside a session, and {kind.name} has no such request "
            "of this action",
            reason="bad_request",
        )
    facts = {name for name, one in kind.terms.parameters.items() if one.fact}
    if set(ask.parameters) != facts:
        named = " ".join(f"--parameter {name}=VALUE" for name in sorted(facts))
        raise Malformed(
            f"say in which session the text is to pass: {named}"
            if facts
            else f"{kind.name} has no parameters",
            reason="bad_request",
        )
