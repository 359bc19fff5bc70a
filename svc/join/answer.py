"""Authority's answer to a joiner, kept until the identity that it gives is in place.

A token is good once.  Whoever is stopped after the answer and before the identity is complete, by
a full disk or a machine that goes down, could not join again by the same token.  So the answer is
on the disk before anything else is written, and the same command takes it from there.  It is
checked as one that has just come.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import suppress

from attrs import frozen
from cryptography.hazmat.primitives.asymmetric import ec

from svc.errors import ConfigError, SvcError
from svc.messages.forms import parse
from svc.model.certificate import CertificateRefused
from svc.model.cluster.token import JoinToken
from svc.model.principal import Principal, Role, parse_principal
from svc.pki.files import MAX_FILE_BYTES
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.join import adopt_identity
from svc.pki.verify import ca_pin, root_cluster
from svc.proto.gate.v1 import bootstrap_pb2 as pb

_MAX_NAME = 253


@frozen
class Enrolled:
    """What Authority answered; not yet checked against the key and the pin.

    Attributes:
        chain: DER: leaf, issuing CA.
        root: DER.
        name: The registry's name of the joiner.
    """

    cluster: str
    principal: Principal
    chain: tuple[bytes, ...]
    root: bytes
    name: str

    @classmethod
    def of(cls, answer: pb.EnrollResponse) -> Enrolled:
        """As it came.  Raises CertificateRefused for a principal that is none."""
        return cls(
            cluster=answer.cluster,
            principal=parse_principal(answer.principal),
            chain=tuple(answer.chain),
            root=answer.root,
            name=answer.name[:_MAX_NAME],
        )


@frozen
class KeptAnswer:
    """The answer to one token, or to a key that joins without; blocks for the disk."""

    store: IdentityStore
    token: JoinToken | None

    def read(self) -> Enrolled | None:
        """None where nothing was kept, or the answer to another token."""
        kept = self.store.kept_answer()
        if kept is None or not kept.startswith(self._head):
            return None
        with suppress(SvcError):
            data = kept.removeprefix(self._head)
            return Enrolled.of(parse(pb.EnrollResponse, data, MAX_FILE_BYTES, "the kept answer"))
        return None

    def write(self, answer: Enrolled) -> None:
        """Keep it, in place of any other."""
        kept = pb.EnrollResponse(
            cluster=answer.cluster,
            principal=answer.principal.uri,
            chain=answer.chain,
            root=answer.root,
            name=answer.name,
        )
        self.store.keep_answer(self._head + kept.SerializeToString())

    def adopt(
        self,
        answer: Enrolled,
        *,
        cluster: str,
        pin: str,
        roles: Set[Role],
        now: Callable[[], float],
    ) -> TransportIdentity:
        """Put the identity that was answered in place; the answer is kept on.

        Args:
            cluster: As configured; empty: the one that the pinned root names.

        Raises:
            CertificateRefused: as :func:`adopt_identity`; the answer is forgotten.
        """
        try:
            if ca_pin(answer.root) != pin.lower():
                raise CertificateRefused("the answer contains a different root from the pinned one")
            return adopt_identity(
                self.store,
                self._key(answer),
                cluster=cluster or root_cluster(answer.root),
                pin=pin,
                root=answer.root,
                chain=answer.chain,
                roles=roles,
                now=now,
            )
        except CertificateRefused:
            self.store.forget_answer()
            raise

    def _key(self, answer: Enrolled) -> ec.EllipticCurvePrivateKey:
        """The key that the answer is for: of the identity in force, where it is that already."""
        with suppress(ConfigError):
            found = self.store.load() if self.store.exists else None
            if found is not None and found.chain == answer.chain:
                return found.key
        return self.store.pending_key()

    @property
    def _head(self) -> bytes:
        return ("" if self.token is None else self.token.id).encode() + b"\n"
