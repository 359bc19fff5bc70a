"""What a hostile Proxy does with sessions and joins that pass it (rules R3 and R5).

Between client and Connector, and between joiner and Authority, there is TLS
that ends at neither of the Proxy's sides: it can carry, delay and cut.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol
from twisted.internet.threads import deferToThread

from svc.client.sessions import SessionIntent
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcCall
from svc.messages.control import Ask
from svc.messages.relay import Lane, encode_relay_open
from svc.messages.session import (
    OPEN_METHOD,
    decode_grant,
    decode_request,
    encode_grant,
    encode_open,
    encode_opened,
    encode_request,
)
from svc.model.cluster.token import parse_token
from svc.model.principal import Role
from svc.model.signing import Purpose, Signed
from svc.pki.identity import TransportIdentity
from svc.pki.tls import ClientCertificates, client_context, server_context
from svc.rpc.frames import open_frame
from svc.rpc.tls import Begin
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Ran
from svc.testing.gateway.settings import POLICY, PROXY
from svc.tunnel.tls import SessionTls
from tests.support.proof import proves
from tests.system.hostile import notice, speak
from tests.system.hostile_case import HostileCase, Listener, dialer, listening
from tests.system.stage import BANNER, EVIL, eventually, kinds, within

E2E = (b"svc-e2e",)
LATER_FIELD = b"\x80\xfa\x01\x07"
"""Field 4000 of a protobuf message, a number: 7."""


def inner_tls(begin: Begin, inner: Protocol) -> SessionTls:
    """One side of TLS inside a stream, of whoever is not expected there."""
    tls = SessionTls(begin, inner)
    tls.secured.addErrback(lambda refused: None)
    return tls


class Eager(Listener):
    """Speaks as soon as it can."""

    def connectionMade(self) -> None:
        self.transport.write(b"let me in")


class SessionCase(HostileCase):
    async def setUp(self) -> None:  # type: ignore[override]
        await super().setUp()
        self.door = self.stage.doors["tcp"]

    async def open(self, resource: str = "db1", kind: str = "tcp") -> Listener:
        """A session of a real client through EVIL."""
        tool, factory = listening()
        client = await self.dialer()
        await client.endpoint(SessionIntent(resource, kinds()[kind])).connect(factory)
        return tool

    async def not_opened(self) -> SvcError:
        """Why a real client's session did not open."""
        return await self.refusal(self.open())

    def instead(self, answer: Callable[[IRpcCall, Ask, Signed], Awaitable[None]]) -> None:
        """What EVIL does, with a genuine grant in hand, instead of carrying."""

        async def on_open(call: IRpcCall, ask: Ask) -> None:
            _, grant = await self.evil.granted(ask)
            await answer(call, ask, grant)

        self.evil.on_open = on_open

    async def opened(self, call: IRpcCall, grant: Signed) -> None:
        """Tell the client that its session stands."""
        await call.send(open_frame(encode_opened(grant, self.evil.grants[-1].decision_id)))


class ClientTests(SessionCase):
    async def setUp(self) -> None:  # type: ignore[override]
        await super().setUp()
        await self.evil.tunnel()

    def as_server(self, identity: TransportIdentity, ended: list[Listener]) -> Protocol:
        """The Connector's side of the inner TLS, played by somebody else."""
        tls = server_context(identity, ClientCertificates.OPTIONAL, alpn=E2E)
        ended.append(Listener())
        return inner_tls(tls.begin, ended[-1])

    async def test_another_certificate(self) -> None:
        """A client speaks to the grant's Connector: not to the Proxy, not to another node."""
        stranger = await self.stage.join("stranger", Role.CONNECTOR)
        heard: list[Listener] = []
        for identity in (self.evil.identity, stranger, self.stage.people["bob"]):

            async def answer(
                call: IRpcCall, ask: Ask, grant: Signed, identity: TransportIdentity = identity
            ) -> None:
                await self.opened(call, grant)
                await speak(call, self.as_server(identity, heard))

            self.instead(answer)
            refusal = await self.not_opened()
            self.assertEqual(refusal.reason, "handshake_failed")
        self.assertEqual([bytes(one.heard) for one in heard], [b""] * 3)
        self.assertEqual([one.transport for one in heard], [None] * 3)
        # What it did not pass on, it had been granted: that is on record, and whose Proxy it was.
        for granted in self.evil.grants[-3:]:
            [start, *_] = self.stage.records("decision_id", granted.decision_id)
            self.assertEqual(start["event"], "session.start")
            self.assertEqual(start["details"]["proxy_id"], self.evil.id)

    async def test_no_tls(self) -> None:
        """A client gives nothing to whoever speaks no TLS inside the session."""
        lines: list[Listener] = []

        async def answer(call: IRpcCall, ask: Ask, grant: Signed) -> None:
            await self.opened(call, grant)
            lines.append(Eager())
            await speak(call, lines[-1])

        self.instead(answer)
        self.assertEqual((await self.not_opened()).reason, "handshake_failed")
        self.assertEqual(len(lines), 1)

    async def test_another_grant(self) -> None:
        """A client takes the grant of its own request alone, from Authority's grant key alone."""
        kept: list[Signed] = []
        proxy = self.evil.identity
        elsewhere = await self.stage.join("elsewhere", Role.CONNECTOR)

        def led_elsewhere(grant: Signed) -> bytes:
            return encode_grant(
                evolve(decode_grant(grant.payload), connector_id=elsewhere.principal.id)
            )

        snapshots = self.stage.keys().signer(Purpose.SNAPSHOT)
        table: list[tuple[str, Callable[[Signed], Signed]]] = [
            ("bad_signature", lambda one: evolve(one, payload=led_elsewhere(one))),
            ("certificate_role", lambda one: proxy.sign(Purpose.SESSION_REQUEST, one.payload)),
            ("certificate_role", lambda one: proxy.sign(Purpose.GRANT, led_elsewhere(one))),
            ("certificate_role", lambda one: snapshots(led_elsewhere(one))),
            ("grant_session", lambda one: kept[0]),
        ]
        for expected, change in table:

            async def answer(call: IRpcCall, ask: Ask, grant: Signed, change: Any = change) -> None:
                kept.append(grant)
                await self.opened(call, change(grant))

            self.instead(answer)
            with self.subTest(expected):
                self.assertEqual((await self.not_opened()).reason, expected)


class TamperingTests(SessionCase):
    async def running(self) -> Listener:
        """A session that has passed bytes both ways."""
        await self.evil.tunnel()
        tool = await self.open()
        tool.transport.write(b"before")
        self.assertEqual(await tool.until(6), b"before")
        return tool

    async def assertBroken(self, tool: Listener) -> None:
        """The tool is told of a break: not of an end in order."""
        lost = await eventually("the session's end", lambda: tool.lost)
        assert lost is not None
        self.assertIsNone(lost.check(ConnectionDone))
        self.assertEqual(bytes(tool.heard), b"before")

    async def test_altered_bytes(self) -> None:
        """A byte that a Proxy changed reaches neither target nor tool, and ends the session."""
        tool = await self.running()
        before = len(self.door.heard)
        self.evil.alter = lambda data: data[:-1] + bytes([data[-1] ^ 1])
        tool.transport.write(b"after")
        await self.assertBroken(tool)
        self.assertEqual(len(self.door.heard), before)

    async def test_cut_short(self) -> None:
        """A Proxy that ends a session as if in order is found out: it can cut, not pretend."""
        tool = await self.running()
        up, _ = self.evil.carried
        assert up.transport is not None
        up.transport.loseConnection()
        await self.assertBroken(tool)

    async def test_cut_after_half_close(self) -> None:
        """Nor does it pass for the target's end where the tool had ended its own writing."""
        hung_up: Deferred[None] = Deferred()

        async def carry(call: IRpcCall, ask: Ask) -> None:
            carrying = Deferred.fromCoroutine(self.evil.carry(call, ask))
            carrying.addErrback(lambda cancelled: None)
            await hung_up
            carrying.cancel()

        self.evil.on_open = carry
        tool = await self.running()
        tool.transport.loseWriteConnection()
        hung_up.callback(None)
        await self.assertBroken(tool)


class ConnectorTests(SessionCase):
    async def test_not_the_person(self) -> None:
        """A Connector passes no byte between its target and anybody but the grant's person."""
        held, uids = await self.evil.tunnel(), list[str]()
        # Refusals at db1 of the same reason, of another test, may have been told this minute.
        wanted = {"resource": "host1", "kind": "ssh", "action": "sshConnect"}
        door = self.stage.doors["ssh"]
        for identity in (self.evil.identity, self.stage.people["bob"], None):
            _, grant = await self.evil.granted(ask := self.ask(self.requested(**wanted)))
            before = len(door.heard)
            carry = await held.opened(notice(ask, grant))
            thief = Eager()
            protocol: Protocol = thief
            if identity is not None:
                tls = client_context(identity.verifier, identity, roles={Role.CONNECTOR}, alpn=E2E)
                protocol = inner_tls(tls.begin, thief)
            await self.refusal(speak(carry.call, protocol))
            carry.end()
            self.assertEqual(bytes(door.heard[before:]), b"")
            if identity is not None:
                self.assertEqual(bytes(thief.heard), b"")
            uids.append(decode_request(ask.request).session_uid)
        await self._refused_by_connector(uids)

    async def _refused_by_connector(self, uids: list[str]) -> None:
        """It says so, of refusals that repeat once a minute."""

        def told() -> bool:
            events = self.stage.connector.events("session not opened")
            return not {one.get("session") for one in events}.isdisjoint(uids)

        await eventually("the Connector's refusal", told)


class RecordedTests(SessionCase):
    async def test_sessions(self) -> None:
        """Of tcp and ssh sessions a Proxy sees who, when and how much, and no byte of theirs."""
        await self.evil.tunnel()
        secret = b"swordfish-" + os.urandom(12).hex().encode()
        for resource, kind, greeting in (("db1", "tcp", b""), ("host1", "ssh", BANNER)):
            tool = await self.open(resource, kind)
            tool.transport.write(secret * 40)
            heard = await tool.until(len(greeting) + 40 * len(secret))
            self.assertEqual(heard, greeting + 40 * secret)
            self.assertIn(secret, self.stage.doors[kind].heard)
            tool.transport.loseConnection()
        seen = self.evil.seen
        self.assertGreater(seen.size("session"), 4 * 40 * len(secret))
        self.assertFalse(seen.holds(secret))
        self.assertFalse(seen.holds(secret[:12]))
        self.assertFalse(seen.holds(BANNER.strip()))
        # What it may see is there: the record can find things.
        for ask in self.evil.asked:
            self.assertTrue(seen.holds(ask.request))
        self.assertTrue(seen.holds(b"host1"))

    async def test_signing(self) -> None:
        """What passes of a signed request is the request and its signature: never the key."""
        await self.evil.tunnel()
        await self.open()
        key = self.stage.people["ada"].material.key.private_numbers().private_value
        self.assertFalse(self.evil.seen.holds(key.to_bytes(32, "big")))
        [ask] = self.evil.asked
        self.assertTrue(self.evil.seen.holds(ask.signature))


class LaterFieldsTests(HostileCase):
    @proves("X-44")
    async def test_a_field_of_a_later_build(self) -> None:
        """A request with a field that this build does not know reaches Authority as it was signed.

        A Proxy that wrote the request anew would lose the field, and with it the signature.
        Authority, which would have to heed it, says that it does not know it (rule R27).
        """
        stage = self.stage
        stage.real_proxy()
        connector = await stage.add_connector("c7", through=PROXY, db7="tcp")
        self.addCleanup(connector.end)
        await stage.add_resource("db7", "tcp", "c7")
        await stage.set_policy(POLICY + "\n// with a later client\n")
        person = stage.people["ada"]
        client, channel = await dialer(person, stage.public(PROXY))
        self.addCleanup(lambda: Deferred.fromCoroutine(channel.close()))
        request = client.request(SessionIntent("db7", kinds()["tcp"]), client.proxy_id(channel))
        data = encode_request(request) + LATER_FIELD
        signature = person.sign(Purpose.SESSION_REQUEST, data).signature

        async def answer(said: bytes) -> bytes:
            stream = channel.stream(OPEN_METHOD)
            self.addCleanup(stream.cancel)
            await stream.send(open_frame(encode_open(said, signature)))
            received: Deferred[bytes | None] = Deferred.fromCoroutine(stream.receive())
            return await within(received) or b""

        refused = await self.refusal(answer(data.removesuffix(LATER_FIELD)))
        self.assertEqual(refused.reason, "bad_signature")
        unknown = await self.refusal(answer(data))
        self.assertEqual(unknown.reason, "unknown_format")
        [recorded] = stage.records("decision_id", unknown.details["decision_id"])
        self.assertEqual(
            (recorded["event"], recorded["reason"]), ("session.refused", "unknown_format")
        )
        self.assertEqual(recorded["details"]["request_sha256"], sha256(data).hexdigest())


class JoiningTests(SessionCase):
    async def join(self, name: str, token: str) -> Ran:
        """``svc join`` of a person, as a process, through EVIL."""
        gateway = self.stage.gateway
        person = GatewayPerson(name, gateway.directory / f"home-{name}", gateway.files.cluster)
        person.home.mkdir(mode=0o700, exist_ok=True)
        words = ("join", "--proxy", str(self.stage.public(EVIL)), "--ca-pin")
        pin = self.stage.gateway.pin
        waiting: Deferred[Ran] = deferToThread(
            person.svc, *words, pin, stdin=token.encode(), seconds=15.0
        )
        return await within(waiting)

    @proves("G-IDN-10", "G-OPEN-07")
    async def test_person(self) -> None:
        """A person joins through a Proxy that sees neither the token nor the name it gave."""
        token = await self.stage.token("carol", Role.USER)
        self.assertEqual((await self.join("carol", token)).checked().status, 0)
        seen = self.evil.seen
        self.assertGreater(seen.size("join lane"), 1000)
        for secret in (token, token.split("_", 2)[2][:43], "carol"):
            self.assertFalse(seen.holds(secret.encode()))
        self.assertTrue(seen.holds(encode_relay_open(Lane.JOIN)))
        # What a thief of the token could do later, or of the store now.
        refused = len(self.stage.records("event", "enroll.refused"))
        self.assertNotEqual((await self.join("thief", token)).status, 0)
        self.assertEqual(len(self.stage.records("event", "enroll.refused")), refused + 1)
        made = parse_token(token)
        stores = [*self.stage.gateway.files.state("authority").glob("store.db*")]
        kept = b"".join(store.read_bytes() for store in stores)
        self.assertNotIn(token.split("_", 2)[2][:43].encode(), kept)
        self.assertNotIn(made.secret, kept)
        self.assertIn(made.secret_sha256, kept)  # what is looked for would be seen

    async def test_node(self) -> None:
        """A Connector joins through a Proxy that sees no token."""
        child = await self.stage.add_connector("c2", through=EVIL, db2="tcp")
        token = (self.stage.gateway.files.token("c2")).read_text("utf-8")
        await within(Deferred.fromCoroutine(self._until_dialed()))
        child.end()
        self.assertGreater(self.evil.seen.size("join lane"), 1000)
        self.assertFalse(self.evil.seen.holds(token.encode()))
        self.assertFalse(self.evil.seen.holds(token.split("_", 2)[2][:43].encode()))

    async def _until_dialed(self) -> None:
        await eventually("a tunnel", lambda: self.evil.tunnels)

    async def test_false_authority(self) -> None:
        """A Proxy that answers a joiner itself is refused before the token is said."""
        token = await self.stage.token("dora", Role.USER)
        heard: list[Listener] = []

        async def answer(call: IRpcCall) -> None:
            await call.receive()
            await call.send(open_frame(b""))
            tls = server_context(self.evil.identity, ClientCertificates.NONE, send_root=True)
            heard.append(Listener())
            await speak(call, inner_tls(tls.begin, heard[-1]))

        self.evil.on_lane = answer
        ran = await self.join("dora", token)
        self.assertNotEqual(ran.status, 0)
        self.assertIn("ca_pin", ran.stderr)
        self.assertEqual([bytes(one.heard) for one in heard], [b""])
        self.assertFalse(self.evil.seen.holds(token.split("_", 2)[2][:43].encode()))
        self.evil.on_lane = self.evil.relay
        self.assertEqual((await self.join("dora", token)).checked().status, 0)
