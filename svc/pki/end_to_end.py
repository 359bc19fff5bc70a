"""TLS between client and Connector inside a session (rule R3).

Each side accepts one peer only: the client the Connector its grant names, the
Connector the person's certificate its grant names, by SHA-256.  Both are
chain-checked too.  Nothing here can be turned off by a setting.
"""

from __future__ import annotations

from collections.abc import Callable

from svc.model.certificate import CertificateFacts
from svc.model.principal import CALLERS, Principal, Role
from svc.pki.handshake import KnownRoot, Refused, exactly, log_refusal, this_certificate
from svc.pki.identity import TransportIdentity
from svc.pki.tls import ClientTLS, Contexts, ServerTLS

E2E = (b"svc-e2e",)


class ConnectorEnd:
    """The Connector's side; one an identity, so that its sessions share a context."""

    def __init__(self, identity: TransportIdentity) -> None:
        self._verifier = identity.verifier
        self._contexts = Contexts(identity, server=True, alpn=E2E)

    def session(
        self, person_certificate_sha256: bytes, refused: Refused = log_refusal
    ) -> ServerTLS:
        """The TLS context for one session's server.

        Args:
            person_certificate_sha256: The grant's word, 32 bytes.
        """
        expect = this_certificate(person_certificate_sha256)
        check = KnownRoot(self._verifier, CALLERS, expect)
        return ServerTLS(
            contexts=self._contexts, check=check, required=True, alpn=E2E, refused=refused
        )


class PersonEnd:
    """The client's side; one an identity."""

    def __init__(self, identity: TransportIdentity) -> None:
        self._verifier = identity.verifier
        self._contexts = Contexts(identity, server=False, alpn=E2E)

    def session(self, connector_id: str, refused: Refused = log_refusal) -> ClientTLS:
        """The TLS context for one session's client.

        Args:
            connector_id: The grant's word: a node id.
        """
        return self.begun(lambda: connector_id, refused)

    def begun(self, connector_id: Callable[[], str], refused: Refused = log_refusal) -> ClientTLS:
        """The same for a handshake that starts before there is a grant.

        Args:
            connector_id: Gives the grant's word when the peer shows its certificate;
                raises SvcError where there is no grant, and so refuses the peer.
        """

        def expect(facts: CertificateFacts) -> None:
            exactly(Principal(self._verifier.cluster, Role.CONNECTOR, connector_id()))(facts)

        check = KnownRoot(self._verifier, frozenset({Role.CONNECTOR}), expect)
        return ClientTLS(
            contexts=self._contexts, check=check, alpn=E2E, server_name=None, refused=refused
        )
