"""Sessions that go through two Proxies, as Authority grants, records and prolongs them."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.registry.routes import Registered
from svc.errors import SvcError
from svc.messages.control import AuthorizeAnswer
from svc.messages.gated import CheckpointAnswer, CheckpointAsk, encode_checkpoint
from svc.messages.session import decode_grant, decode_request
from svc.model.cluster.node import Node
from svc.model.principal import Role
from svc.model.session.checkpoint import SessionCheckpoint
from svc.model.session.grant import Grant
from svc.model.session.ranges import RequestRange, first_head, next_head
from svc.model.signing import Purpose, Signed, sign
from tests.authority.house import KINDS, House, value_of
from tests.authority.sessions.test_checkpoints import recorded
from tests.pki.support import CLUSTER
from tests.support.proof import proves

NEAR, FAR = "10.0.5.11:7405", "10.0.5.12:7405"
ONE = RequestRange(n=1, offset=0, size=9, tags=bytes(32))


class Case(SynchronousTestCase):
    """Two Proxies; the Connector is at the second one only."""

    def setUp(self) -> None:
        self.house = House()
        others = [self.house.node(Role.PROXY, name) for name in ("p2", "p3")]
        self.house.refresh()
        self.near, self.far, self.third = map(self.house.row, (self.house.proxy, *others))
        self.issuance = self.house.issuance()
        self.peers = self.issuance.peers
        self.served = self.house.serve("db1")
        self.house.registrations.remove(self.served)
        self.at(self.far)

    def at(self, proxy: Node) -> Registered:
        """Register the Connector through this Proxy."""
        moved = evolve(self.served, proxy_id=proxy.id, since=self.house.clock.seconds())
        self.house.registrations.add(moved)
        return moved

    def both_relay(self) -> None:
        self.peers.greeted(self.near.id, NEAR)
        self.peers.greeted(self.far.id, FAR)

    def answer(self, **fields: Any) -> AuthorizeAnswer:
        self.asked = self.house.ask(self.house.ada, **fields)
        answer = value_of(self.issuance.authorize(self.asked, self.near))
        assert isinstance(answer, AuthorizeAnswer)
        return answer

    def granted(self, **fields: Any) -> tuple[AuthorizeAnswer, Grant]:
        answer = self.answer(**fields)
        assert answer.grant is not None
        return answer, decode_grant(answer.grant.payload)


class WayTests(Case):
    def test_nobody_relays(self) -> None:
        """Without an address of both, a Connector elsewhere serves nobody here."""
        for greeted in ((), (self.near,), (self.far,)):
            for one in greeted:
                self.peers.greeted(one.id, NEAR)
            self.assertIsNone(self.answer().grant, greeted)
            for one in greeted:
                self.peers.greeted(one.id, "")

    @proves("G-SES-12")
    def test_grant_names_both(self) -> None:
        """The grant, the record and the answer say which Proxy has the tunnel; the row does not."""
        self.both_relay()
        answer, grant = self.granted()
        self.assertEqual((grant.proxy_id, grant.egress_proxy_id), (self.near.id, self.far.id))
        self.assertEqual(answer.peer_address, FAR)
        (record,) = self.house.records("session.start")
        details = record["details"]
        named = (details["proxy_id"], details["egress_proxy_id"], record["node_id"])
        self.assertEqual(named, (self.near.id, self.far.id, self.near.id))
        row = self.house.run(lambda tx: tx.sessions.get(grant.session_uid))
        self.assertEqual(row.proxy_id, self.near.id)

    def test_own_tunnel_comes_first(self) -> None:
        """What this Proxy can reach by itself is not relayed, however new the other way is."""
        self.both_relay()
        self.at(self.near)
        self.house.clock.advance(5)
        self.at(self.far)
        answer, grant = self.granted()
        self.assertEqual((grant.egress_proxy_id, answer.peer_address), ("", ""))
        self.assertNotIn("egress_proxy_id", self.house.records("session.start")[0]["details"])

    def test_newest_of_others(self) -> None:
        """Among others that relay, the newest registration; one that does not relay is left out."""
        self.both_relay()
        self.house.clock.advance(5)
        self.at(self.third)
        self.assertEqual(self.granted()[1].egress_proxy_id, self.far.id)
        self.peers.greeted(self.third.id, "10.0.5.13:7405")
        self.assertEqual(self.granted()[1].egress_proxy_id, self.third.id)
        self.peers.greeted(self.third.id, "")
        self.assertEqual(self.granted()[1].egress_proxy_id, self.far.id)

    def test_what_is_reachable(self) -> None:
        """What others serve and this one does not; each change gives another version."""
        versions = [self.peers.version]
        self.assertEqual(self.peers.reachable(self.near.id), frozenset())
        self.both_relay()
        versions.append(self.peers.version)
        self.assertEqual(self.peers.reachable(self.near.id), {"db1"})
        self.assertEqual(self.peers.reachable(self.far.id), frozenset())
        self.assertEqual(self.peers.reachable(self.third.id), frozenset())
        here = self.at(self.near)
        versions.append(self.peers.version)
        self.assertEqual(self.peers.reachable(self.near.id), frozenset())
        self.house.registrations.remove(here)
        versions.append(self.peers.version)
        self.assertEqual(self.peers.reachable(self.near.id), {"db1"})
        self.assertEqual(len(set(versions)), len(versions))
        self.peers.greeted(self.near.id, NEAR)
        self.assertEqual(self.peers.version, versions[-1])


class GatedTests(Case):
    """A gated session from the one to the other."""

    def setUp(self) -> None:
        super().setUp()
        self.both_relay()
        kinds = {**KINDS, "tcp": evolve(KINDS["tcp"], opaque=False)}
        self.gated = self.issuance.gated
        self.issuance.kinds = self.gated.kinds = kinds
        answer, grant = self.granted(half=bytes(32))
        assert answer.grant is not None
        self.grant, self.uid = answer.grant, grant.session_uid

    def said(self, by: Node, *ranges: RequestRange, is_last: bool = False) -> CheckpointAnswer:
        """What this Proxy is answered, which brings the Connector's checkpoint."""
        head = first_head(self.uid)
        for each in ranges:
            head = next_head(head, each, allowed=True)
        one = SessionCheckpoint(
            cluster=CLUSTER,
            session_uid=self.uid,
            connector_id=self.house.connector.id,
            n=1,
            decisions=len(ranges),
            head=head,
            is_last=is_last,
        )
        data, holder = encode_checkpoint(one), self.house.connector
        ask = CheckpointAsk(
            checkpoint=Signed(
                data, sign(holder.key, Purpose.SESSION_CHECKPOINT, data), holder.chain
            ),
            grant=self.grant,
            request=self.asked.request,
            person_chain=self.asked.person_chain,
            source_address="192.0.2.7",
        )
        return value_of(self.gated.checkpoint(ask, by))  # type: ignore[no-any-return]

    def assertNotTaken(self, by: Node) -> None:
        with self.assertRaises(SvcError) as caught:
            self.said(by)
        self.assertEqual(caught.exception.reason, "checkpoint_refused")

    def test_prolonged_where_the_tunnel_is(self) -> None:
        """The Proxy with the tunnel brings checkpoints, and gets the extension; no other does."""
        for stranger in (self.near, self.third):
            self.assertNotTaken(stranger)
        self.assertIsNotNone(self.said(self.far).extension)
        self.assertEqual(self.said(self.third, is_last=True), CheckpointAnswer())

    def test_another_authority_granted_it(self) -> None:
        """After a change of the leader the grant says who brings the checkpoints."""
        self.gated._sessions.clear()
        self.assertNotTaken(self.near)
        self.assertIsNotNone(self.said(self.far).extension)
        tracked = self.gated._sessions[self.uid]
        named = (tracked.proxy_id, tracked.egress_proxy_id)
        self.assertEqual(named, (self.near.id, self.far.id))

    def test_both_are_distrusted(self) -> None:
        """Where records and checkpoint differ, nobody can tell which of the two altered it."""
        value_of(self.gated.recorded([recorded(self.uid, ONE, allowed=False)]))
        answer = self.said(self.far, ONE)
        self.assertEqual(answer.reason, "session_mismatch")
        for one in (self.near, self.far):
            with self.assertRaises(SvcError) as caught:
                self.gated.trust.require_trusted(one.id)
            self.assertEqual(caught.exception.reason, "proxy_distrusted")
        self.gated.trust.require_trusted(self.third.id)
        (mismatch,) = self.house.records("session.mismatch")
        self.assertNames(mismatch, self.near.id, self.far.id)

    def assertNames(self, record: Any, *proxy_ids: str) -> None:
        """It names the Proxy that a session entered, and the one that it was relayed to."""
        told = record["details"]
        self.assertEqual((told["proxy_id"], told["egress_proxy_id"]), proxy_ids)

    def test_left_unconfirmed(self) -> None:
        """A session without a last checkpoint is told of with both Proxies, too."""
        self.gated.trust.unconfirmed(
            self.uid, self.near.id, "no_last_checkpoint", 1000.0, self.far.id
        )
        value_of(self.gated.sweep())
        (unconfirmed,) = self.house.records("session.unconfirmed")
        self.assertNames(unconfirmed, self.near.id, self.far.id)

    def test_not_through_a_distrusted_one(self) -> None:
        """A Proxy that opens no gated session relays none either."""
        self.gated.trust.mismatched("f" * 32, self.far.id, "different")
        with self.assertRaises(SvcError) as caught:
            self.answer(half=bytes(32))
        self.assertEqual(caught.exception.reason, "proxy_distrusted")
        self.assertIn(self.far.id, caught.exception.text)
        self.assertEqual(decode_request(self.asked.request).proxy_id, self.near.id)

    def test_another_way_than_a_distrusted_one(self) -> None:
        """An older way through a Proxy that is trusted comes before a newer one."""
        self.peers.greeted(self.third.id, "10.0.5.13:7405")
        self.house.registrations.remove(self.served)
        self.at(self.third)
        self.house.clock.advance(5)
        self.at(self.far)
        self.assertEqual(self.granted(half=bytes(32))[1].egress_proxy_id, self.far.id)
        self.gated.trust.mismatched("f" * 32, self.far.id, "different")
        self.assertEqual(self.granted(half=bytes(32))[1].egress_proxy_id, self.third.id)
        self.issuance.kinds = KINDS
        self.assertEqual(self.granted()[1].egress_proxy_id, self.far.id)
