"""Issues the certificates by which Connectors log in at the targets of sessions (rule R6, ADR 82).

One for each session whose resource has the onward mode ``certificate``: for the key that the
Connector's process named in its signed registration, for the one account that was granted, and for
what the session's rights need.  What it will say is recorded with the session, and signed after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen
from twisted.logger import Logger

from svc.authority.sessions.request import IssuanceResult, VerifiedRequest
from svc.authority.state.recorder import Recorder, person
from svc.interfaces.store import ITransaction
from svc.model.audit.events import CREDENTIAL_ISSUE
from svc.model.audit.record import rfc3339
from svc.model.cluster.onward import OnwardAuth
from svc.model.session.onward import BACKDATE_SECS, LIFETIME_SECS, OnwardCertificate
from svc.pki.root import PurposeKey
from svc.pki.ssh_certificates import signed_user_certificate

PROFILE = "onward_ssh"
"""What records call the certificates."""

UNAVAILABLE: Final = "onward_unavailable"
"""The reason of a session that is not granted, for want of a certificate."""

_log = Logger(namespace="svc_authority")

_NO_KEY = (
    "this Authority has no good key onward-ssh; make it with `svc authority keys renew "
    "onward-ssh`, and start an Authority that had none again"
)
_NO_ONWARD_KEY = (
    "the Connector has registered no key for certificates; run the same version of svc there and "
    "here"
)


@frozen
class OnwardCertificates:
    """See the module.

    Attributes:
        key: Gives the newest signing key that this Authority has; None: it has none.
    """

    key: Callable[[], PurposeKey | None]
    now: Callable[[], float]

    def planned(self, verified: VerifiedRequest, outcome: IssuanceResult) -> IssuanceResult:
        """A granted outcome with the certificate that its session needs, or refused without one."""
        resource, connector, rights = verified.resource, outcome.connector, outcome.rights
        sign_on = verified.kind.terms.sign_on
        if (
            resource is None
            or resource.onward_auth is not OnwardAuth.CERTIFICATE
            or connector is None
            or rights is None
            or sign_on is None
        ):
            return outcome
        lack = _NO_ONWARD_KEY if not connector.onward_key else _NO_KEY if not self._good() else ""
        if lack:
            _log.error(
                "a session is not granted: there is no certificate for its target",
                resource=resource.id,
                connector=connector.node_id,
                reason=lack,
            )
            return evolve(
                outcome, word="not_served", reason=UNAVAILABLE, connector=None, rights=None
            )
        at, end = int(self.now()), int(verified.certificate.not_after)
        uid = verified.request.session_uid
        certificate = OnwardCertificate(
            login=sign_on(verified.asked.ceiling, rights.allowed),
            public_key=connector.onward_key,
            serial=int(outcome.decision_id[:16], 16),
            key_id=f"session={uid},person={verified.person.id}",
            begins_at=at - BACKDATE_SECS,
            ends_at=min(at + LIFETIME_SECS, end),
        )
        return evolve(outcome, onward=certificate)

    def _good(self) -> PurposeKey | None:
        key = self.key()
        return key if key is not None and key.begins_at <= self.now() < key.ends_at else None

    def record(
        self,
        tx: ITransaction,
        recorder: Recorder,
        verified: VerifiedRequest,
        outcome: IssuanceResult,
    ) -> None:
        """Write down what will be signed; nothing, of a session that has none."""
        planned, connector = outcome.onward, outcome.connector
        if planned is None or connector is None:
            return
        recorder.append(
            tx,
            CREDENTIAL_ISSUE,
            person(verified.person.id),
            node_id=connector.node_id,
            session_uid=verified.request.session_uid,
            resource_id=verified.request.resource,
            resource_kind=verified.kind.name,
            decision_id=outcome.decision_id,
            details={
                "profile": PROFILE,
                "serial": f"{planned.serial:016x}",
                "key_id": planned.key_id,
                "not_after": rfc3339(planned.ends_at),
                "person_id": verified.person.id,
                "connector_id": connector.node_id,
            },
        )

    def signed(self, outcome: IssuanceResult) -> bytes:
        """The certificate, once its record is durable; empty, of a session that has none."""
        key = self.key()
        if outcome.onward is None or key is None:
            return b""
        return signed_user_certificate(key, outcome.onward)


NO_CERTIFICATES = OnwardCertificates(key=lambda: None, now=lambda: 0.0)
"""Of an Authority that issues none."""
