"""What a Proxy does not open for another one, and what one does not believe of another."""

from __future__ import annotations

from typing import Any

from svc.messages.peer import (
    PEER_END_METHOD,
    PEER_OPEN_METHOD,
    PeerEnd,
    PeerOpen,
    encode_peer_open,
    peer_end_message,
)
from svc.messages.session import encode_request
from svc.messages.tunnel import OpenNotice
from svc.model.principal import Role
from svc.model.signing import Purpose
from svc.pki.identity import TransportIdentity
from svc.proto.gate.v1 import peer_pb2 as pb
from svc.proxy.peers import service
from svc.rpc.frames import open_frame
from tests.pki.support import World
from tests.proxy.peers.pieces import PeersTests, peer_wire, shown
from tests.proxy.pieces import Talk, data
from tests.support.proof import proves


class EgressTests(PeersTests):
    """A Proxy that speaks for itself on the private listener, as one that was taken over might."""

    def asked(self, caller: TransportIdentity | None, message: bytes = b"") -> Talk:
        """What the caller is answered."""
        talk = Talk(peer_wire(self.far, caller).channel.stream(PEER_OPEN_METHOD))
        if talk.error is None and message:
            talk.say(message)
        self.turn()
        return talk

    def message(
        self,
        *,
        signer: TransportIdentity | None = None,
        chain: tuple[bytes, ...] = (),
        request: bytes = b"",
        world: World | None = None,
        **grant: Any,
    ) -> bytes:
        """A good first frame from the near Proxy to the far one, but for what is changed."""
        cluster = self.near.cluster
        requested = encode_request(cluster.request(session_uid=self.near.uid()))
        form = {"session_uid": f"{self.near._numbers:032x}", "egress_proxy_id": self.far_id}
        signed = (signer or cluster.person).sign(Purpose.SESSION_REQUEST, requested)
        opened = PeerOpen(
            grant=cluster.sign_grant(cluster.grant(requested, **{**form, **grant}), world),
            request=request or requested,
            signature=signed.signature,
            person_chain=chain or cluster.person.chain,
        )
        return open_frame(encode_peer_open(opened))

    @property
    def far_id(self) -> str:
        return self.far.cluster.proxy_id

    @proves("G-ROLE-13", "G-MET-47")
    def test_who_is_no_proxy(self) -> None:
        """Everybody but an active Proxy is refused before a frame is read, and nothing counts."""
        node, world = self.far.node(), self.near.cluster.world
        strangers = [
            None,
            *(world.identity(role) for role in (Role.CONNECTOR, Role.AUTHORITY, Role.USER)),
        ]
        for caller in strangers:
            talk = self.asked(caller, self.message())
            self.assertNotEqual(talk.reason, "")
        self.assertEqual(self.asked(self.far.cluster.proxy).reason, "peer_is_itself")
        self.far.authority.beat(self.near.cluster.proxy.facts.principal.uri)
        self.turn()
        self.assertEqual(self.asked(self.near.cluster.proxy, self.message()).reason, "revoked")
        self.assertEqual(self.outcomes, {})
        self.assertEqual([one for one in node.said if isinstance(one, OpenNotice)], [])

    def test_expired_certificate(self) -> None:
        """An open connection starts nothing past the end of the certificate that it began with."""
        brief = self.near.cluster.world.identity(Role.PROXY, lifetime=60.0)
        wire = peer_wire(self.far, brief)
        self.turn()
        self.near.pass_time(61.0)
        talk = Talk(wire.channel.stream(PEER_OPEN_METHOD))
        self.turn()
        self.assertEqual(talk.reason, "certificate_expired")

    def test_what_has_no_grant(self) -> None:
        """Only a grant for this person, from this Proxy to that one, now, opens anything."""
        node, cluster = self.far.node(), self.near.cluster
        another = cluster.world.identity(Role.USER, id="q" * 26)
        third = cluster.world.identity(Role.PROXY)
        good, refused = self.message, "peer_grant_refused"
        cases = [
            ("no egress", good(egress_proxy_id=""), refused),
            ("another egress", good(egress_proxy_id=third.facts.principal.id), refused),
            ("another ingress", good(proxy_id=third.facts.principal.id), refused),
            ("another request", good(request=b"x"), refused),
            ("expired", good(open_before_ms=int(cluster.world.now() * 1000) - 1), refused),
            ("ended", good(end_before_ms=int(cluster.world.now() * 1000) - 1), refused),
            ("another person", good(chain=another.chain), refused),
            ("another Connector", good(connector_id="c" * 26), "assignment_changed"),
            ("no such resource", good(resource="db9"), "unknown"),
            ("another cluster", good(world=World("other.example")), None),
            ("nothing", open_frame(b""), None),
        ]
        for label, message, reason in cases:
            talk = self.asked(cluster.proxy, message)
            self.assertNotEqual(talk.reason, "", label)
            if reason is not None:
                self.assertEqual(talk.reason, reason, label)
        self.assertEqual(self.outcomes, {"egress rejected": len(cases)})
        self.assertEqual(self.far.counts[("miss", "peer", "unknown")], 1)
        self.assertEqual([one for one in node.said if isinstance(one, OpenNotice)], [])
        self.assertEqual(self.asked(third, good()).reason, refused)

    def test_good_without_its_proxy(self) -> None:
        """The same message, unchanged, opens: what is refused above is refused for its change."""
        node = self.far.node()
        talk = self.asked(self.near.cluster.proxy, self.message())
        node.carry(node.last(OpenNotice))
        self.turn()
        self.assertEqual((talk.error, self.far.gauges[("relayed",)]), (None, 1))

    def test_only_its_own_tunnels(self) -> None:
        """A Proxy that has no tunnel itself asks no third one: there is one hop."""
        self.far.authority.relays_to = self.near.cluster.proxy_id
        talk = self.asked(self.near.cluster.proxy, self.message())
        self.assertEqual(talk.reason, "unknown")
        self.assertEqual(self.far.authority.asked, [])

    def test_twice(self) -> None:
        """A session that is open is not opened again."""
        node, message = self.far.node(), self.message()
        self.asked(self.near.cluster.proxy, message)
        node.carry(node.last(OpenNotice))
        self.turn()
        self.assertEqual(self.asked(self.near.cluster.proxy, message).reason, "request_replayed")

    def test_another_proxys_session(self) -> None:
        """Only the Proxy that opened a session ends it."""
        _, client, _ = self.carried()
        [uid] = self.near.sessions._open
        third = self.near.cluster.world.identity(Role.PROXY)
        for caller, is_over in ((third, False), (self.near.cluster.proxy, True)):
            wire = peer_wire(self.far, caller)
            said = peer_end_message(PeerEnd(uid, "policy_changed"))
            stream = Talk(wire.channel.stream(PEER_END_METHOD))
            stream.say(said.SerializeToString())
            stream.stream.end()
            self.turn()
            self.assertEqual(stream.heard, [pb.PeerEndResponse().SerializeToString()])
            self.assertEqual(client.is_over, is_over)
        self.assertEqual(client.reason, "peer_proxy_lost", "which has said nothing of it itself")

    def test_too_many(self) -> None:
        """A Proxy opens as many sessions as it may, over one connection, and is told why no more.

        The connection of these tests would hold three calls if it were anybody else's.
        """
        self.patch(service, "MAX_PER_PROXY", 4)
        self.far.node()
        wire = peer_wire(self.far, self.near.cluster.proxy)
        talks = [Talk(wire.channel.stream(PEER_OPEN_METHOD)) for _ in range(5)]
        self.turn()
        for talk in talks[:4]:
            talk.say(self.message())
            self.turn()
        self.assertEqual([one.reason for one in talks], [""] * 4 + ["too_many_relayed"])
        self.assertEqual(self.far.peers.open_sessions, 4)

    def test_too_often(self) -> None:
        """A Proxy that asks without end is refused by its budget, and another one is not."""
        for _ in range(100):
            self.far.peers.admit(PEER_OPEN_METHOD, shown(self.near.cluster.proxy))
        self.assertEqual(
            self.asked(self.near.cluster.proxy, self.message()).reason, "too_many_requests"
        )
        third = self.near.cluster.world.identity(Role.PROXY)
        self.assertEqual(self.asked(third, self.message()).reason, "peer_grant_refused")
        self.assertEqual(self.far.counts[("budget", "peers")], 1)


class IngressTests(PeersTests):
    """What the Proxy that a session entered makes of the other one."""

    def test_not_reached(self) -> None:
        """The person hears that the other Proxy was not reached, in our words."""
        self.near.is_reached = False
        client = self.near.open()
        self.assertEqual(client.reason, "peer_proxy_unreachable")
        assert client.error is not None
        self.assertNotIn("refused", client.error.text)
        self.assertEqual(self.outcomes, {"ingress rejected": 1})
        [ended] = self.near.authority.ended
        self.assertEqual(ended.reason, "peer_proxy_unreachable")

    def test_somebody_else_is_there(self) -> None:
        """A Proxy other than the one that the grant names is told nothing."""
        node = self.far.node()
        self.near.answers_as = self.near.cluster.world.identity(Role.PROXY)
        client = self.near.open()
        self.assertEqual(client.reason, "peer_proxy_refused")
        self.assertEqual(self.far.counts[("egress", "rejected")], 0)
        self.assertEqual([one for one in node.said if isinstance(one, OpenNotice)], [])

    def test_revoked_before_it_opens(self) -> None:
        """No session goes to a Proxy that is known to be revoked."""
        self.near.authority.beat(self.far.cluster.proxy.facts.principal.uri)
        self.turn()
        client = self.near.open()
        self.assertEqual((client.reason, self.near.peer_wires), ("peer_proxy_revoked", []))

    def test_never_answers(self) -> None:
        """A Connector that does not open in time is the Connector's, not the other Proxy's."""
        _, client = self.opening()
        self.near.pass_time(16.0)
        self.assertEqual((client.reason, self.active), ("open_deadline", (0, 0)))

    def test_waits_for_one_dial(self) -> None:
        """Sessions that come at once wait for one connection; one that leaves ends it for none."""
        node = self.far.node()
        wire = self.near.connect(self.near.cluster.person)
        first, second = self.near.open(wire), self.near.open(wire)
        first.stream.cancel()
        self.turn()
        self.assertEqual(len(self.near.peer_wires), 1)
        carry = node.carry(node.last(OpenNotice))
        second.say(data(b"hi"))
        self.turn()
        self.assertEqual(carry.data, b"hi")

    def test_relays_nothing(self) -> None:
        """A Proxy without the key refuses a grant that names another one."""
        self.far.authority.relays_to = self.near.cluster.proxy_id
        client = self.far.open()
        self.assertEqual(client.reason, "peer_proxy_refused")
