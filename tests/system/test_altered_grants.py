"""What a hostile Proxy brings to a Connector: the Connector checks all of it by itself (rule R2).

Each refusal is told by the Connector's own word, and the targets count who
comes: nothing that was altered, replayed or meant for others dials one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from attrs import evolve, fields
from twisted.internet.defer import Deferred, DeferredQueue

from svc.client.sessions import SessionIntent
from svc.compose.node import tls_endpoint
from svc.config import Address
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel, IRpcStream
from svc.messages.control import Ask
from svc.messages.session import decode_grant, decode_request, encode_grant
from svc.messages.tunnel import (
    CARRY_METHOD,
    REGISTER_METHOD,
    SECRET_BYTES,
    Down,
    Hello,
    Nonce,
    OpenNotice,
    decode_down,
    encode_carry_open,
    encode_registration,
    encode_up,
)
from svc.model.cluster.registration import AcceptedRegistration, DeclaredResource, Registration
from svc.model.ids import random_id
from svc.model.principal import Role
from svc.model.session.grant import Grant
from svc.model.signing import Purpose, Signed, sign
from svc.pki.end_to_end import ConnectorEnd
from svc.pki.identity import TransportIdentity
from svc.pki.root import make_cluster
from svc.rpc.client.channel import dial
from svc.rpc.frames import data_head, open_frame
from svc.testing.gateway.settings import POLICY
from svc.tunnel.tls import SessionTls
from tests.system.hostile import notice, speak
from tests.system.hostile_case import HostileCase, Listener, dialer, listening
from tests.system.stage import OTHER, address_of, eventually, kinds, reactor, within

RUN_BY = "make fault"

SECOND, DAY = 1000, 86_400_000

ALTERATIONS: dict[str, Callable[[Grant], Any]] = {
    "cluster": lambda grant: "other.example",
    "session_uid": lambda grant: "e" * 32,
    "request_sha256": lambda grant: os.urandom(32),
    "person_id": lambda grant: "b" * 26,
    "person_certificate_sha256": lambda grant: os.urandom(32),
    "resource": lambda grant: "host1",
    "resource_revision": lambda grant: grant.resource_revision + 1,
    "kind": lambda grant: "ssh",
    "connector_id": lambda grant: "a" * 26,
    "proxy_id": lambda grant: "a" * 26,
    "egress_proxy_id": lambda grant: "a" * 26,
    "ceiling": lambda grant: {"db_role": "owner"},
    "is_gated": lambda grant: True,
    "operations": lambda grant: frozenset({"GET"}),
    "policy_version": lambda grant: grant.policy_version + 1,
    "audit_hash": lambda grant: os.urandom(32),
    "issued_at_ms": lambda grant: grant.issued_at_ms + SECOND,
    "open_before_ms": lambda grant: grant.open_before_ms + SECOND,
    "end_before_ms": lambda grant: grant.end_before_ms - SECOND,
    "resource_identity": lambda grant: "another",
    "assignment_revision": lambda grant: grant.assignment_revision + 1,
    "decision_id": lambda grant: "d" * 32,
    "recording_key": lambda grant: os.urandom(32),
    "onward_certificate": lambda grant: b"a certificate",
}
"""Every field of a grant, and another value for it."""

Signer = Callable[[bytes], Signed]

_MINE = b"bytes of a strange Connector"


def _altered(data: bytes) -> bytes:
    """A certificate with one bit of its signature flipped."""
    return data[:-1] + bytes([data[-1] ^ 1])


class GrantCase(HostileCase):
    async def setUp(self) -> None:  # type: ignore[override]
        """A genuine grant, not used yet, and its notice."""
        await super().setUp()
        self.held = await self.evil.tunnel()
        self.asked, self.signed = await self.granted()
        self.grant = decode_grant(self.signed.payload)
        self.notice = notice(self.asked, self.signed)
        self.dialed = await self.connections()

    async def granted(self, **requested: Any) -> tuple[Ask, Signed]:
        """A request of ada's and Authority's grant for it."""
        ask = self.ask(self.requested(**requested))
        return ask, (await self.evil.granted(ask))[1]

    async def connections(self) -> int:
        """How often a target was dialed."""
        return sum([await door.callers() for door in self.stage.doors.values()])

    def counted(self) -> int:
        """As far as it is counted; :meth:`assertOpens`, which ends each test, counts all."""
        return sum(door.counted for door in self.stage.doors.values())

    async def assertRefused(self, changed: OpenNotice, *words: str) -> None:
        """By one of these words, and no target was dialed."""
        self.assertIn(await self.held.refusal(changed), words)
        self.assertEqual(self.counted(), self.dialed)

    async def assertOpens(self, sent: OpenNotice) -> None:
        """The control: it dials the target once, and a carry stream comes."""
        (await self.held.opened(sent)).end()
        self.assertEqual(await self.connections(), self.dialed + 1)
        self.dialed += 1


class SignatureTests(GrantCase):
    def signers(self) -> dict[str, Signer]:
        """Who else could have signed a grant."""
        keys, proxy = self.stage.keys(), self.evil.identity
        other = make_cluster(keys.cluster, time.time, os.urandom)
        snapshot = keys.purposes["snapshot"]
        genuine = self.signed

        def of_snapshot_key(data: bytes) -> Signed:
            chain = snapshot.sign(Purpose.SNAPSHOT, data).chain
            return Signed(data, sign(snapshot.key, Purpose.GRANT, data), chain)

        def of_another_purpose(data: bytes) -> Signed:
            key = keys.purposes["grant"].key
            return Signed(data, sign(key, Purpose.SNAPSHOT, data), genuine.chain)

        def of_proxy_key(data: bytes) -> Signed:
            return evolve(proxy.sign(Purpose.GRANT, data), chain=genuine.chain)

        def of_another_root(data: bytes) -> Signed:
            return other.signer(Purpose.GRANT)(data)

        return {
            "the signature it had": lambda data: evolve(genuine, payload=data),
            "no signature": lambda data: Signed(data, bytes(70), genuine.chain),
            "the Proxy": lambda data: proxy.sign(Purpose.GRANT, data),
            "the Proxy, under the grant key's chain": of_proxy_key,
            "another root": of_another_root,
            "another root, under our chain": lambda data: evolve(
                of_another_root(data), chain=genuine.chain
            ),
            "another purpose's key": of_snapshot_key,
            "the grant key for another purpose": of_another_purpose,
            "the person": lambda data: self.stage.people["ada"].sign(Purpose.GRANT, data),
        }

    async def test_each_field_under_each_signature(self) -> None:
        """No field of a grant can be changed, whoever but Authority's grant key signs it again."""
        self.assertEqual(set(ALTERATIONS), {field.name for field in fields(Grant)})
        payloads = [
            encode_grant(evolve(self.grant, **{name: value(self.grant)}))
            for name, value in ALTERATIONS.items()
        ]
        count = 0
        for who, signer in self.signers().items():
            untouched = [] if who == "the signature it had" else [self.signed.payload]
            for payload in payloads + untouched:
                with self.subTest(who):
                    changed = evolve(self.notice, grant=signer(payload))
                    await self.assertRefused(changed, "grant_refused")
                count += 1
        self.assertGreaterEqual(count, 30)
        await self.assertOpens(self.notice)

    async def test_rightly_signed(self) -> None:
        """What Authority signed for anything but this session, here and now, opens nothing."""
        now = int(time.time() * SECOND)
        end = int(self.stage.people["ada"].facts.not_after * SECOND)
        table: list[tuple[str, dict[str, Any]]] = [
            ("grant_cluster", {"cluster": "other.example"}),
            ("grant_session", {"session_uid": "e" * 32}),
            ("grant_not_for_us", {"connector_id": "a" * 26}),
            ("grant_other_proxy", {"proxy_id": self.stage.proxies[OTHER].principal.id}),
            ("grant_other_proxy", {"egress_proxy_id": self.stage.proxies[OTHER].principal.id}),
            ("grant_too_old", {"issued_at_ms": now - 32_000, "open_before_ms": now - 2_000}),
            ("grant_before_start", {"issued_at_ms": now - 10 * DAY}),
            ("grant_times", {"issued_at_ms": now + 40_000, "open_before_ms": now + 60_000}),
            ("grant_times", {"open_before_ms": self.grant.issued_at_ms + 30_001}),
            ("grant_times", {"end_before_ms": now - 1}),
            ("grant_times", {"end_before_ms": end + DAY}),
            ("request_mismatch", {"request_sha256": os.urandom(32)}),
            ("request_mismatch", {"resource": "host1", "kind": "ssh"}),
            ("request_mismatch", {"kind": "ssh"}),
            ("ceiling_unenforced", {"ceiling": {"db_role": "owner"}}),
            ("person_mismatch", {"person_id": "b" * 26}),
            ("person_mismatch", {"person_certificate_sha256": os.urandom(32)}),
        ]
        signer = self.stage.keys().signer(Purpose.GRANT)
        for word, changed in table:
            with self.subTest(word, changed=changed):
                signed = signer(encode_grant(evolve(self.grant, **changed)))
                await self.assertRefused(evolve(self.notice, grant=signed), word)
        # Of a session of its own: the grant of a gated one is spent where it is refused.
        asked, granted = await self.granted()
        gated = signer(encode_grant(evolve(decode_grant(granted.payload), is_gated=True)))
        await self.assertRefused(evolve(notice(asked, granted), grant=gated), "kind_mismatch")
        for word, requested in (
            ("resource_not_here", {"resource": "nowhere"}),
            ("kind_mismatch", {"resource": "host1"}),
        ):
            with self.subTest(word):
                await self.assertRefused(self.agreed(**requested), word)
        await self.assertOpens(self.notice)

    def agreed(self, **requested: Any) -> OpenNotice:
        """What person and Authority agree on, and this Connector does not have."""
        ask = self.ask(self.requested(**requested))
        request = decode_request(ask.request)
        grant = evolve(
            self.grant,
            session_uid=request.session_uid,
            request_sha256=sha256(ask.request).digest(),
            resource=request.resource,
        )
        return notice(ask, self.stage.keys().signer(Purpose.GRANT)(encode_grant(grant)))

    async def test_beside_the_grant(self) -> None:
        """A genuine grant opens nothing with another request, signature or person beside it."""
        mine, other = self.asked, self.ask(self.requested())
        ada, bob = self.stage.people["ada"], self.stage.people["bob"]
        by_bob = bob.sign(Purpose.SESSION_REQUEST, mine.request).signature
        for word, changed in (
            ("grant_session", {"session_uid": "e" * 32}),
            ("request_mismatch", {"request": other.request, "signature": other.signature}),
            ("request_refused", {"signature": other.signature}),
            ("request_refused", {"signature": by_bob}),
            ("person_mismatch", {"signature": by_bob, "person_chain": bob.chain}),
            ("person_refused", {"person_chain": self.evil.identity.chain}),
            ("person_refused", {"person_chain": (_altered(ada.chain[0]), *ada.chain[1:])}),
            ("person_refused", {"person_chain": (os.urandom(300),)}),
        ):
            with self.subTest(word, changed=list(changed)):
                await self.assertRefused(evolve(self.notice, **changed), word)
        await self.assertOpens(self.notice)


class ReplayTests(GrantCase):
    async def test_the_same_notice(self) -> None:
        """A grant opens one session; after a restart of the Connector none that was before it."""
        await self.assertOpens(self.notice)
        await self.assertRefused(self.notice, "session_replayed")
        again = evolve(self.notice, secret=os.urandom(SECRET_BYTES))
        await self.assertRefused(again, "session_replayed")
        unused, signed = await self.granted()
        child = self.stage.connector
        child.kill()
        await eventually("the tunnel's end", lambda: not self.evil.tunnels)
        child.start()
        self.held = await self.evil.tunnel()
        await self.assertRefused(self.notice, "grant_before_start")
        await self.assertRefused(notice(unused, signed), "grant_before_start")
        fresh, signed = await self.granted()
        await self.assertOpens(notice(fresh, signed))

    async def test_over_another_proxys_tunnel(self) -> None:
        """A grant for one Proxy is refused when another Proxy brings it."""
        other = await self.proxy(OTHER)
        held, self.held = self.held, await other.tunnel()
        self.assertEqual(self.held.node_id, held.node_id)
        await self.assertRefused(self.notice, "grant_other_proxy")
        self.held = held
        await self.assertOpens(self.notice)


class StrangeConnector:
    """A Connector under control at a real Proxy: registered, and free in what it carries."""

    def __init__(self, identity: TransportIdentity, resource: str, cluster: str) -> None:
        self.identity = identity
        self.heard: DeferredQueue[Down] = DeferredQueue()
        self.channel: IRpcChannel
        self._resource, self._cluster = resource, cluster

    async def dial(self, address: Address) -> IRpcChannel:
        """Another connection to the Proxy."""
        endpoint = tls_endpoint(reactor, self.identity, address, frozenset({Role.PROXY}))
        return await dial(endpoint, reactor, authority="proxy")

    async def register(self, address: Address) -> None:
        """As a Connector does."""
        self.channel = await self.dial(address)
        stream = self.channel.stream(REGISTER_METHOD)
        instance = random_id(os.urandom)
        await stream.send(encode_up(Hello(instance, "0.11.0")))
        said = decode_down(await stream.receive() or b"")
        assert isinstance(said, Nonce), said
        verifier = self.identity.verifier
        proxy = verifier.verify(self.channel.peer.chain, {Role.PROXY}).principal.id
        registration = Registration(
            cluster=self._cluster,
            node_id=self.identity.principal.id,
            proxy_id=proxy,
            nonce=said.nonce,
            resources=(DeclaredResource(self._resource, "tcp"),),
            instance_id=instance,
            generation=1,
            version="0.11.0",
        )
        signed = self.identity.sign(Purpose.REGISTRATION, encode_registration(registration))
        await stream.send(encode_up(signed))
        said = decode_down(await stream.receive() or b"")
        assert isinstance(said, AcceptedRegistration), said
        reading = Deferred.fromCoroutine(self._read(stream))
        reading.addErrback(lambda ended: ended.trap(SvcError))

    async def _read(self, stream: IRpcStream) -> None:
        while (data := await stream.receive()) is not None:
            self.heard.put(decode_down(data))

    def close(self) -> Deferred[None]:
        """End the connection."""
        return Deferred.fromCoroutine(self.channel.close())

    async def notice(self) -> OpenNotice:
        """The next open notice."""
        said = await within(self.heard.get())
        assert isinstance(said, OpenNotice), said
        return said


async def carried(channel: IRpcChannel, uid: str, secret: bytes) -> IRpcStream:
    """A carry stream, which speaks at once."""
    stream = channel.stream(CARRY_METHOD)
    await stream.send(open_frame(encode_carry_open(uid, secret)))
    await stream.send(data_head(len(_MINE)) + _MINE)
    return stream


class CarryTests(HostileCase):
    async def connectors(self) -> tuple[StrangeConnector, StrangeConnector]:
        """Two Connectors at a real Proxy, each with one resource."""
        gateway = self.stage.gateway
        made = []
        for name, resource in (("left", "vault"), ("right", "attic")):
            identity = await self.stage.join(name, Role.CONNECTOR)
            await self.stage.add_resource(resource, "tcp", name)
            made.append(StrangeConnector(identity, resource, gateway.files.cluster))
        self.stage.real_proxy()
        # What is decided by from this version on knows both resources.
        await self.stage.set_policy(POLICY + "\n// with vault and attic\n")
        for each in made:
            await each.register(self.address)
            self.addCleanup(each.close)
        return made[0], made[1]

    @property
    def address(self) -> Address:
        return address_of(self.stage.gateway.public)

    async def test_another_tunnels_session(self) -> None:
        """A carry stream is joined on the notice's own connection, by its secret, once."""
        left, right = await self.connectors()
        client, channel = await dialer(self.stage.people["ada"], self.address)
        self.addCleanup(lambda: Deferred.fromCoroutine(channel.close()))
        tool, factory = listening()
        opening = client.endpoint(SessionIntent("vault", kinds()["tcp"])).connect(factory)
        sent = await left.notice()
        second = await left.dial(self.address)
        self.addCleanup(lambda: Deferred.fromCoroutine(second.close()))
        for channel_used, secret in (
            (right.channel, sent.secret),
            (right.channel, os.urandom(SECRET_BYTES)),
            (second, sent.secret),
            (left.channel, os.urandom(SECRET_BYTES)),
            (left.channel, bytes(SECRET_BYTES)),
        ):
            stream = await carried(channel_used, sent.session_uid, secret)
            refusal = await self.refusal(stream.receive())
            self.assertEqual(refusal.reason, "carry_refused")
            self.assertFalse(opening.called)
        genuine = left.channel.stream(CARRY_METHOD)
        await genuine.send(open_frame(encode_carry_open(sent.session_uid, sent.secret)))
        target = Listener()
        ada = self.stage.people["ada"].facts.sha256
        tls = ConnectorEnd(left.identity).session(ada).begin
        over = Deferred.fromCoroutine(speak(genuine, SessionTls(tls, target)))
        await within(opening)
        tool.transport.write(b"to the vault")
        self.assertEqual(await target.until(12), b"to the vault")
        again = await carried(left.channel, sent.session_uid, sent.secret)
        self.assertEqual((await self.refusal(again.receive())).reason, "carry_refused")
        target.transport.write(b"from the vault")
        self.assertEqual(await tool.until(14), b"from the vault")
        tool.transport.loseConnection()
        await within(over)
        self.assertEqual(
            (bytes(tool.heard), bytes(target.heard)), (b"from the vault", b"to the vault")
        )
