"""Buffers that take the place of those of a handshake."""

from __future__ import annotations

from OpenSSL import SSL, crypto
from twisted.trial.unittest import SynchronousTestCase

from svc.rpc.tls_buffers import release_buffers
from tests.rpc.certificates import TestCA


def flow(one: SSL.Connection, other: SSL.Connection) -> None:
    """Carry over what *one* has to send."""
    try:
        other.bio_write(one.bio_read(1 << 16))
    except SSL.WantReadError:
        pass


def pair() -> tuple[SSL.Connection, SSL.Connection]:
    """A client and a server whose handshake is done, and what it left is read."""
    leaf = TestCA("ca").leaf("svc://test")
    serving = SSL.Context(SSL.TLS_METHOD)
    serving.use_certificate(crypto.load_certificate(crypto.FILETYPE_PEM, leaf.certificate))
    serving.use_privatekey(crypto.load_privatekey(crypto.FILETYPE_PEM, leaf.key))
    client, server = SSL.Connection(SSL.Context(SSL.TLS_METHOD)), SSL.Connection(serving)
    client.set_connect_state()
    server.set_accept_state()
    for _ in range(3):
        for one, other in ((client, server), (server, client)):
            try:
                one.do_handshake()
            except SSL.WantReadError:
                pass
            flow(one, other)
    try:
        client.recv(1)
    except SSL.WantReadError:
        pass
    return client, server


class ReleaseTests(SynchronousTestCase):
    def test_goes_on(self) -> None:
        """Both directions, and the end of each, pass through the new buffers."""
        client, server = pair()
        self.assertTrue(release_buffers(client))
        self.assertTrue(release_buffers(server))
        for one, other in ((client, server), (server, client)):
            one.send(b"said")
            flow(one, other)
            self.assertEqual(other.recv(99), b"said")
            one.shutdown()
            flow(one, other)
            self.assertRaises(SSL.ZeroReturnError, other.recv, 1)

    def test_not_while_they_hold_anything(self) -> None:
        """What waits to be sent, or to be read, is never lost."""
        client, server = pair()
        client.send(b"waits")
        self.assertFalse(release_buffers(client))
        flow(client, server)
        self.assertFalse(release_buffers(server))
        self.assertEqual(server.recv(99), b"waits")
        self.assertTrue(release_buffers(client))
        self.assertTrue(release_buffers(server))
