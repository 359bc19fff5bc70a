"""A session that entered another Proxy: checked by its grant, and held to it."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from attrs import frozen

from svc.errors import Denied, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.transport import OpenOrder
from svc.messages.peer import PeerOpen
from svc.messages.session import decode_grant
from svc.model.certificate import CertificateFacts
from svc.model.principal import CALLERS, Principal
from svc.model.session.grant import Grant
from svc.model.signing import Purpose


@frozen
class RelayedSession:
    """One session that another Proxy may open here.

    Attributes:
        ingress: The Proxy that it entered.
        person: Whose it is, by the certificate that the grant names.
    """

    ingress: Principal
    opened: PeerOpen
    grant: Grant
    person: CertificateFacts

    @property
    def uid(self) -> str:
        """Of the session."""
        return self.grant.session_uid

    def order(self, traceparent: str, first_flight: bytes) -> OpenOrder:
        """What its Connector is told."""
        return OpenOrder(
            session_uid=self.uid,
            grant=self.opened.grant,
            request=self.opened.request,
            signature=self.opened.signature,
            person_chain=self.opened.person_chain,
            traceparent=traceparent,
            first_flight=first_flight,
        )


@frozen
class RelayAdmission:
    """Decides by the grant alone who may open a session here.

    A peer Proxy is another machine, and may be taken over: it opens nothing that the Authority did
    not grant to it, for this Proxy, for this person, now.  The Connector checks all that again.

    Attributes:
        proxy_id: Ours.
        now: Wall time in seconds.
    """

    proxy_id: str
    verifier: IChainVerifier
    now: Callable[[], float]

    def admit(self, opened: PeerOpen, ingress: Principal) -> RelayedSession:
        """The session, if its grant is good for it.

        Args:
            opened: As it came.
            ingress: The Proxy that calls, by its certificate.

        Raises:
            Denied: ``peer_grant_refused``.
            SvcError: the grant or the person's certificate is not good.
        """
        self.verifier.verify_signed(opened.grant, Purpose.GRANT)
        grant = decode_grant(opened.grant.payload)
        named = (grant.cluster, grant.proxy_id, grant.egress_proxy_id)
        if named != (self.verifier.cluster, ingress.id, self.proxy_id):
            raise _refused("the grant is not for a session from the calling Proxy to this one")
        if sha256(opened.request).digest() != grant.request_sha256:
            raise _refused("the grant is for another session request")
        if self.now() * 1000 > min(grant.open_before_ms, grant.end_before_ms):
            raise _refused("the grant has expired")
        person = self.verifier.verify(opened.person_chain, CALLERS)
        if (person.sha256, person.principal.id) != (
            grant.person_certificate_sha256,
            grant.person_id,
        ):
            raise _refused("the grant is for another person or certificate")
        return RelayedSession(ingress=ingress, opened=opened, grant=grant, person=person)


def _refused(text: str) -> SvcError:
    return Denied(text, reason="peer_grant_refused")
