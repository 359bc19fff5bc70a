"""Who the peer of a connection is, by the certificates that its TLS verified."""

from __future__ import annotations

from typing import Any

from OpenSSL import crypto
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import ISSLTransport
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import directlyProvides

from svc.model.principal import Role
from svc.rpc.server.server import RpcServerFactory
from tests.pki.support import World
from tests.support.nothing import nothing

_VERSION_3 = bytes.fromhex("a003020102")
_VERSION_2 = bytes.fromhex("a003020101")


class Encrypted(StringTransport):
    """A transport whose TLS has verified these certificates."""

    negotiatedProtocol = b"h2"
    is_aborted = False

    def __init__(self, *chain: bytes) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", "192.0.2.7", 4711))
        directlyProvides(self, ISSLTransport)
        self.chain = [crypto.load_certificate(crypto.FILETYPE_ASN1, one) for one in chain]

    def getPeerCertificate(self) -> crypto.X509:
        return self.chain[0]

    def getHandle(self) -> Encrypted:
        return self

    def get_verified_chain(self) -> list[crypto.X509]:
        return self.chain

    def abortConnection(self) -> None:
        self.is_aborted = True


class PeerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.chain = World().identity(Role.USER).chain
        self.told: list[tuple[str, str]] = []
        self.server: Any = RpcServerFactory(
            [], Clock(), admit=nothing, on_problem=lambda *what: self.told.append(what)
        ).buildProtocol(None)

    def meet(self, *chain: bytes) -> Encrypted:
        """A handshake with a peer of this chain, completed."""
        transport = Encrypted(*chain)
        self.server.makeConnection(transport)
        self.server.handshakeCompleted()
        return transport

    def test_chain(self) -> None:
        """It is kept as it was shown, byte for byte."""
        transport = self.meet(*self.chain)
        self.assertEqual(self.server.peer.chain, self.chain)
        self.assertEqual((self.server.peer.host, self.server.peer.tls), ("192.0.2.7", True))
        self.assertFalse(transport.is_aborted)
        self.assertNotIn(repr(self.chain[0]), repr(self.server.peer))

    def test_unreadable(self) -> None:
        """A certificate that OpenSSL reads and we do not ends the connection at its beginning."""
        leaf, *above = self.chain
        self.assertIn(_VERSION_3, leaf)
        transport = self.meet(leaf.replace(_VERSION_3, _VERSION_2, 1), *above)
        self.assertTrue(transport.is_aborted)
        self.assertEqual([what for what, _ in self.told], ["unreadable_peer"])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
