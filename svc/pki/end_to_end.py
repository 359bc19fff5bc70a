"""TLS between client and Connector inside a session (rule R3).

Each side accepts one peer only: the client the Connector its grant names, the
Connector the person's certificate its grant names, by SHA-256.  Both are
chain-checked too.  Nothing here can be turned off by a setting.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from svc.model.certificate import CertificateRefused
from svc.model.principal import CALLERS, Role
from svc.pki.handshake import Contexts, PeerVerifier, Refused, log_refusal
from svc.pki.identity import TransportIdentity
from svc.pki.tls import ClientTLS, ServerTLS
from svc.pki.verify import ChainVerifier, Shown

E2E = (b"svc-e2e",)
_CONNECTORS = frozenset({Role.CONNECTOR})


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
        check = OnePerson(self._verifier, person_certificate_sha256)
        return ServerTLS(
            self._contexts, PeerVerifier(check=check, required=True, alpn=E2E, refused=refused)
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

    def prepare(self) -> None:
        """Make the keys of the next session's handshake now, while there is time."""
        self._contexts.prepare()

    def begun(self, connector_id: Callable[[], str], refused: Refused = log_refusal) -> ClientTLS:
        """The same for a handshake that starts before there is a grant.

        Args:
            connector_id: Gives the grant's word when the peer shows its certificate;
                raises SvcError where there is no grant, and so refuses the peer.
        """
        check = OneConnector(self._verifier, connector_id)
        return ClientTLS(
            self._contexts, PeerVerifier(check=check, required=True, alpn=E2E, refused=refused)
        )


@frozen
class OnePerson:
    """Accepts one certificate of a person or agent, by the SHA-256 of its DER."""

    verifier: ChainVerifier
    sha256: bytes

    def accept(self, chain: Shown) -> None:
        """See PeerCheck."""
        if self.verifier.verify(chain, CALLERS).sha256 != self.sha256:
            raise CertificateRefused(
                "the peer presented a different certificate from the expected one",
                reason="certificate_name",
            )

    def trusts(self, root: bytes) -> bool:
        """See PeerCheck."""
        return root == self.verifier.root


@frozen
class OneConnector:
    """Accepts the Connector of this id, which is known once its certificate comes."""

    verifier: ChainVerifier
    connector_id: Callable[[], str]

    def accept(self, chain: Shown) -> None:
        """See PeerCheck."""
        peer = self.verifier.verify(chain, _CONNECTORS).principal
        # Its role and cluster are what the verifier has just checked.
        if peer.id != self.connector_id():
            raise CertificateRefused(
                "the peer's certificate is for a different identity from the expected one",
                reason="certificate_name",
            )

    def trusts(self, root: bytes) -> bool:
        """See PeerCheck."""
        return root == self.verifier.root
