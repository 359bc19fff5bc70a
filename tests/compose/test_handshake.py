"""``limits.handshake_secs``: how long whoever says nothing is waited for, at both ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.listeners.rpc import rpc_listener, rpc_server
from svc.compose.node import tunnel_times
from svc.compose.person import PersonSide, load_person
from svc.compose.process import make_process
from svc.config import Address, RoleSettings, read_settings
from svc.join.enroll import join_node
from svc.model.cluster.token import make_token
from svc.model.principal import Role
from svc.pki.identity_store import IdentityStore
from svc.pki.root import new_key
from svc.pki.tls import ClientCertificates, ServerTLS, server_context
from svc.runtime.context import Runtime
from tests.compose.net import Net
from tests.pki.support import World
from tests.support.nothing import nothing

COMMON = """
cluster = "c1.example.test"
state_dir = "{state}"
limits.handshake_secs = {secs}
"""
ADDRESSES = {
    Role.CONNECTOR: 'endpoints.proxy = ["127.0.0.1:1"]\n',
    Role.PROXY: 'endpoints.public_listen = "127.0.0.1:2"\nendpoints.authority = ["127.0.0.1:3"]\n',
    Role.USER: 'endpoints.proxy = ["127.0.0.1:1"]\n',
}
SECS = (2.0, 25.0)
"""Shorter and longer than the default, and than what any dial as a whole is given by default."""


class HandshakeCase(SynchronousTestCase):
    """A machine in memory, in a cluster."""

    def setUp(self) -> None:
        self.world, self.net = World(), Net()
        self.runtime = Runtime(reactor=self.net, now=self.world.now, entropy=os.urandom, environ={})

    def settings(self, role: Role, secs: float, more: str = "") -> RoleSettings:
        """The configuration of a role in a new directory."""
        self.state = Path(self.mktemp()).absolute()
        self.state.mkdir(mode=0o700)
        text = COMMON.format(state=self.state, secs=secs) + ADDRESSES[role] + more
        return read_settings(text, "client" if role is Role.USER else role.value)

    def joined(self, role: Role, secs: float) -> RoleSettings:
        """Likewise, with an identity in it."""
        settings, store, key = self.settings(role, secs), IdentityStore(self.state), new_key()
        store.pin(self.world.keys.root_der)
        store.write(key, self.world.issued(role, key).chain)
        return settings

    def assertWaits(self, transport: StringTransport, secs: float) -> None:
        """Whoever is at the other end is let go after so many seconds, and not before."""
        self.net.advance(secs - 0.1)
        self.assertFalse(transport.disconnected, f"let go before {secs}")
        self.net.advance(0.2)
        self.assertTrue(transport.disconnected, f"still waited for after {secs}")


class ListenerTests(HandshakeCase):
    """Who is dialed."""

    def accepted(self, secs: float, tls: ServerTLS | None) -> StringTransport:
        settings = self.settings(Role.PROXY, secs)
        listener = rpc_listener(self.runtime, settings, "key", Address("127.0.0.1", 2))
        listener.late.serve(
            rpc_server(self.runtime, settings, [], plaintext=tls is None, admit=nothing), tls
        )
        peer = IPv4Address("TCP", "192.0.2.1", 4)
        transport = StringTransport(peerAddress=peer)
        listener.late.open()
        listener.late.buildProtocol(peer).makeConnection(transport)
        return transport

    def test_listeners(self) -> None:
        """A caller that never shakes hands is let go at the set time, with TLS or without."""
        certificates = ClientCertificates.OPTIONAL
        for secs in SECS:
            for tls in (server_context(self.world.identity(Role.PROXY), certificates), None):
                with self.subTest(secs=secs, tls=tls is not None):
                    self.assertWaits(self.accepted(secs, tls), secs)


class DialTests(HandshakeCase):
    """Who dials."""

    def process(self, role: Role, secs: float) -> Any:
        process: Any = make_process(self.runtime, self.joined(role, secs), self.fail)
        process.privilegedStartService()
        starting = process.startService()
        self.addCleanup(lambda: self.net.advance(60))
        self.addCleanup(process.stopService)
        self.successResultOf(starting)
        return process

    def test_nodes(self) -> None:
        """A Connector gives a silent Proxy that long, and a Proxy a silent Authority."""
        for role in (Role.CONNECTOR, Role.PROXY):
            for secs in SECS:
                with self.subTest(role=role, secs=secs):
                    self.net.tcpClients.clear()
                    self.process(role, secs)
                    self.assertWaits(self.net.answered(), secs)

    def test_person(self) -> None:
        """A person's side gives a silent Proxy that long, and a session's TLS as well."""
        for secs in SECS:
            with self.subTest(secs=secs):
                side = load_person(self.runtime, self.joined(Role.USER, secs))
                self.assertEqual(side.dialer(None).handshake_secs, secs)
                self.assertWaits(self.dialed(side), secs)

    def dialed(self, side: PersonSide) -> StringTransport:
        dialing = Deferred.fromCoroutine(side.dial(Address("127.0.0.1", 1)))
        dialing.addErrback(lambda _: None)
        return self.net.answered()

    def test_joiner(self) -> None:
        """Whoever joins waits that long too, for a Proxy as for Authority itself."""
        for more in ("", 'join.authority = "127.0.0.1:3"\n'):
            for secs in SECS:
                with self.subTest(more=more, secs=secs):
                    self.net.tcpClients.clear()
                    token = f'join.token_file = "TOKEN"\njoin.ca_pin = "{"0" * 64}"\n'
                    place = Path(self.mktemp()).absolute()
                    place.touch(mode=0o600)
                    place.write_text(make_token(os.urandom).text, "ascii")
                    token = token.replace("TOKEN", str(place))
                    settings = self.settings(Role.CONNECTOR, secs, more + token)
                    joining = Deferred.fromCoroutine(
                        join_node(self.runtime, settings, IdentityStore(self.state), Role.CONNECTOR)
                    )
                    joining.addErrback(lambda _: None)
                    self.assertWaits(self.net.answered(), secs)
                    joining.cancel()

    def test_sessions(self) -> None:
        """The Connector's TLS inside a session has the same time."""
        for secs in SECS:
            self.assertEqual(tunnel_times(self.settings(Role.CONNECTOR, secs)).handshake, secs)
