"""Connectors register: who is let in, and how a registration ends."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.authority.registry.catalog import CatalogAdmin
from svc.authority.state.recorder import operator
from svc.errors import SvcError
from svc.messages.control import (
    AGAIN,
    Evict,
    RegistrationVerdict,
    TunnelSeen,
    decode_connector_down,
    decode_connector_up,
    encode_connector_up,
)
from svc.model.cluster.registration import Epoch, Inventory, Withheld
from svc.model.cluster.resource import Assigned, Resource
from svc.model.principal import Role
from svc.model.signing import Purpose, Signed, sign
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.ratelimit.limits import Rate
from tests.authority.discovery.support import catalog_admin
from tests.authority.house import GONE, KINDS, Holder, outcome, refusal_of, value_of
from tests.authority.registry.support import IntakeTestCase
from tests.support.logged import logged
from tests.support.proof import proves


class IntakeTests(IntakeTestCase):
    @proves("X-43")
    def test_registered_until_its_stream_ends(self) -> None:
        """An accepted Connector is served by until its stream ends; both are on record."""
        said = self.verdict(
            resources=self.declared(("db1", "tcp"), ("extra", "tcp"), ("host1", "tcp"))
        )
        self.assertEqual((said.accepted, said.served, said.lease_secs), (True, ("db1",), 90))
        self.assertEqual(
            said.withheld, (Withheld("extra", "not_in_catalog"), Withheld("host1", "kind_mismatch"))
        )
        self.assertTrue(self.house.registrations.is_served(self.db1))
        self.assertIsNotNone(self.house.state_cache.state.catalog["db1"].last_served_at)
        self.house.clock.advance(3)
        self.call.give(None)
        self.assertIsNone(self.successResultOf(self.serving))
        self.assertFalse(self.house.registrations.is_served(self.db1))
        self.assertEqual(self.house.registrations.connectors, 0)
        events = [one["event"] for one in self.house.records()]
        self.assertEqual(events, ["tunnel.registered", "tunnel.ended"])
        self.assertEqual(self.house.records()[-1]["details"]["duration_ms"], 3000)

    def test_told_what_it_is_meant_to_serve(self) -> None:
        """A verdict names each assignment and the inventory's generation; the record that too."""
        house = self.house
        said = self.verdict(resources=self.declared(("db1", "tcp"), ("extra", "tcp")))
        first = house.run(lambda tx: tx.inventories.generation(house.connector.id))
        self.assertEqual(said.inventory, Inventory(first, frozenset({self.db1})))
        self.assertEqual(house.registrations.inventory(house.connector.id), first)
        house.run(lambda tx: tx.catalog.assign("db1", None, 5.0))
        house.run(lambda tx: tx.catalog.assign("db1", house.connector.id, 6.0))
        house.refresh()
        again = self.verdict(inventory_generation=first)
        self.assertEqual(
            again.inventory, Inventory(first + 2, frozenset({Assigned("db1", "first.db1", 3)}))
        )
        told = [one["details"] for one in house.records("tunnel.registered")]
        self.assertEqual([each["inventory_generation"] for each in told], [first, first + 2])

    def test_inventory_without_its_count(self) -> None:
        """A Connector whose count somebody took out of the table is told its assignments still."""
        self.house.by_sql("DELETE FROM manual_inventory")
        said = self.verdict()
        self.assertEqual(said.inventory, Inventory(1, frozenset({self.db1})))
        self.assertFalse(said.inventory.holds(Assigned("db1", "first.db1", 9)))
        [record] = self.house.records("tunnel.registered")
        self.assertEqual(record["details"]["inventory_generation"], 1)

    @proves("G-ERR-11")
    def test_catalog_lists_what_is_withheld(self) -> None:
        """What the catalog does not hold is remembered as offered by this node."""
        self.verdict(resources=self.declared(("db1", "tcp"), ("extra", "tcp")))
        (offered,) = self.house.run(lambda tx: tx.catalog.undeclared())
        self.assertEqual((offered.id, offered.node_id), ("extra", self.house.connector.id))

    @proves("G-TUN-04")
    def test_unknown_node(self) -> None:
        """A node whose certificate is good but which is not in the registry is refused."""
        stranger = self.house.holder(Role.CONNECTOR)
        self.assertEqual(self.verdict(stranger).reason, "unknown_node")
        self.assertEqual(self.house.records()[0]["reason"], "unknown_node")

    @proves("G-TUN-05")
    def test_revoked_node(self) -> None:
        """A revoked node is refused although its certificate is in date."""
        self.house.run(lambda tx: tx.nodes.revoke(self.house.connector.id, 5.0))
        self.assertEqual(self.verdict().reason, "revoked_node")  # not known to the facts yet
        self.house.refresh()
        self.assertEqual(self.verdict().reason, "revoked_node")
        self.assertEqual(self.house.registrations.connectors, 0)

    @proves("G-TUN-07")
    def test_malformed_registrations(self) -> None:
        """What answers another challenge or Proxy, or is malformed, is malformed."""
        twice = self.declared(("db1", "tcp"), ("db1", "tcp"))
        proxy, connector = self.house.proxy.id, self.house.connector.id
        # Of what answers another challenge, the node may have said it at any time, to anybody.
        for by, fields in (
            (proxy, {"nonce": bytes(32)}),
            (proxy, {"proxy_id": "z" * 26}),
            (proxy, {"cluster": "c2.test"}),
            (connector, {"node_id": self.house.proxy.id}),
            (proxy, {"node_id": ""}),  # of no form: its nonce is not even read
            (connector, {"resources": twice}),
            (connector, {"resources": self.declared(("Not a name", "tcp"))}),
        ):
            self.assertTrue(self.verdict().accepted)
            self.assertEqual(self.verdict(**fields).reason, "malformed_registration", fields)
            self.assertEqual(self.house.records("tunnel.refused")[-1]["actor"]["id"], by, fields)
        for garbage in (b"\xff\xff", b"", encode_connector_up(TunnelSeen("t", "a" * 26))):
            call, _, _ = self.begin()
            call.give(garbage)
            said = decode_connector_down(call.sent[1])
            assert isinstance(said, RegistrationVerdict)
            self.assertEqual(said.reason, "malformed_registration")

    @proves("G-LOG-08", "G-TUN-08")
    def test_owned_by_another(self) -> None:
        """A node that declares another's resource is refused, and the other is untouched."""
        self.assertTrue(self.verdict().accepted)
        other = self.house.node(Role.CONNECTOR, "conn2")
        self.house.refresh()
        events = logged(self)
        said = self.verdict(other)
        self.assertEqual(said.reason, "resource_owned_by_peer")
        # A Connector is told of its own resource, and not of other nodes.
        self.assertIn("db1 is assigned to another node", said.text)
        self.assertNotIn(self.house.connector.id, said.text)
        [refused] = [one for one in events if one["log_format"] == "registration refused"]
        self.assertEqual(
            (refused["node"], refused["node_name"], refused["owned"]),
            (other.id, "conn2", [f"db1 by conn1 ({self.house.connector.id}, active)"]),
        )
        serving = self.house.registrations.serving(self.db1, self.house.proxy.id)
        assert serving is not None
        self.assertEqual(serving.node_id, self.house.connector.id)

    def test_owned_by_a_revoked_node(self) -> None:
        """The log says that the owner was revoked, and which command moves what it owns."""
        self.house.run(lambda tx: tx.nodes.revoke(self.house.connector.id, 1.0))
        other = self.house.node(Role.CONNECTOR, "conn1")
        self.house.refresh()
        events = logged(self)
        self.assertEqual(self.verdict(other).reason, "resource_owned_by_peer")
        [refused] = [one for one in events if one["log_format"] == "registration refused"]
        self.assertEqual(refused["owned"], [f"db1 by conn1 ({self.house.connector.id}, revoked)"])
        self.assertEqual(
            refused["do"],
            f"svc authority resources move --from {self.house.connector.id} --to {other.id}",
        )

    @proves("G-TUN-09")
    def test_catalog_permits_none(self) -> None:
        """A node that declares only what it may not serve is refused."""
        said = self.verdict(resources=self.declared(("extra", "tcp")))
        self.assertEqual(said.reason, "catalog_permits_none")
        self.assertIn("nothing of what it declares: extra; correct the ids", said.text)
        self.assertEqual(
            self.house.registrations.refusal(self.house.connector.id), "catalog_permits_none"
        )

    def test_offered_in_vain(self) -> None:
        """Under which names a refused Connector offers something is known, and kept up."""

        def offered() -> list[str]:
            return [one.id for one in self.house.run(lambda tx: tx.catalog.undeclared())]

        for name in ("bd1", "bd1", "dd1"):
            self.verdict(resources=self.declared((name, "tcp")))
            self.assertEqual(offered(), [name])
        self.assertEqual(len(self.house.records("tunnel.refused")), 2)
        self.verdict()
        self.assertEqual(offered(), [])
        self.assertEqual(self.house.registrations.refusal(self.house.connector.id), "")

    @proves("G-TUN-10", "G-ERR-09", "X-41")
    def test_no_kinds(self) -> None:
        """One missing kind, or every one, refuses the whole registration."""
        for pairs in ((("db1", ""),), (("db1", "tcp"), ("host1", ""))):
            said = self.verdict(resources=self.declared(*pairs))
            self.assertEqual((said.accepted, said.reason), (False, "no_resource_kinds"))
            self.assertFalse(self.house.registrations.is_served(self.db1))

    def test_made_up_by_a_proxy(self) -> None:
        """A registration signed by nobody is refused and recorded as the Proxy's doing."""
        call, _, nonce = self.begin()
        other = self.house.node(Role.CONNECTOR, "conn2")
        forged = evolve_signature(self.signed(nonce), sign_by=other)
        call.give(forged)
        said = decode_connector_down(call.sent[1])
        assert isinstance(said, RegistrationVerdict)
        self.assertEqual(said.reason, "bad_signature")
        (record,) = self.house.records("tunnel.refused")
        self.assertEqual(record["actor"]["id"], self.house.proxy.id)

    def test_registration_over_anothers_tunnel(self) -> None:
        """A registration does not count over a tunnel of another node."""
        call, _, nonce = self.begin(self.house.node(Role.CONNECTOR, "conn2"))
        call.give(self.signed(nonce, self.house.connector))
        said = decode_connector_down(call.sent[1])
        assert isinstance(said, RegistrationVerdict)
        self.assertEqual(said.reason, "malformed_registration")

    def test_refusals_are_recorded_once_a_change(self) -> None:
        """A Connector that tries again and again leaves one record a reason."""
        for _ in range(5):
            self.verdict(resources=self.declared(("extra", "tcp")))
        self.verdict(resources=self.declared(("db1", "")))
        reasons = [one["reason"] for one in self.house.records("tunnel.refused")]
        self.assertEqual(reasons, ["catalog_permits_none", "no_resource_kinds"])

    def test_too_many(self) -> None:
        """A Connector that registers without end is refused before a record, and counted."""
        self.house.rates.registrations.buckets.rate = Rate(60, 2)
        for _ in range(2):
            self.verdict()
        before = len(self.house.records())
        call, serving, nonce = self.begin()
        call.give(self.signed(nonce))
        refusal = self.failureResultOf(serving).value
        self.assertEqual((refusal.reason, len(call.sent)), ("too_many_requests", 1))
        self.assertEqual(len(self.house.records()), before)
        self.house.clock.advance(60)
        value_of(self.house.refusals.summarise())
        [summary] = self.house.records("refusals.summary")
        self.assertEqual(summary["actor"]["id"], self.house.connector.id)
        self.verdict()

    def test_made_anew_costs_nothing(self) -> None:
        """What Authority itself asks for is no Connector's doing."""
        self.house.rates.registrations.buckets.rate = Rate(60, 2)
        for _ in range(10):
            self.assertTrue(self.verdict().accepted)
            self.house.registrations.ask_again(self.house.connector.id)

    def test_made_up_registrations_cost_the_connector_nothing(self) -> None:
        """A Proxy that makes up registrations uses up nothing of the Connector it names."""
        self.house.rates.registrations.buckets.rate = Rate(60, 1)
        for _ in range(10):
            call, _, nonce = self.begin()
            call.give(evolve_signature(self.signed(nonce), sign_by=self.house.proxy))
        self.assertTrue(self.verdict().accepted)

    def test_each_forger_is_recorded(self) -> None:
        """One Proxy's forgery hides neither another's nor what the Connector does itself."""
        second = self.house.node(Role.PROXY, "edge2")
        self.house.refresh()
        for proxy in (self.house.proxy, second, self.house.proxy, second):
            call, _, nonce = self.begin(proxy=proxy)
            call.give(evolve_signature(self.signed(nonce), sign_by=second))
        actors = [one["actor"]["id"] for one in self.house.records("tunnel.refused")]
        self.assertEqual(actors, [self.house.proxy.id, second.id])

    def test_invented_names_cannot_fill_the_log(self) -> None:
        """A Proxy that invents a node for each refusal gets its share of records and no more."""
        for count in range(70):
            name = "abcdefghij"[count % 10] * 25 + "abcdefg"[count // 10]
            call, _, nonce = self.begin(evolve(self.house.connector, id=name))
            call.give(self.signed(nonce, self.house.connector))
        self.assertEqual(len(self.house.records()), 60)

    def test_eviction_is_said_and_ends_the_stream(self) -> None:
        """A revoked Connector's stream is told why and ends at once."""
        self.verdict()
        self.assertEqual(self.revoke("conn1"), 1)
        self.assertEqual(decode_connector_down(self.call.sent[-1]), Evict("revoked_node"))
        self.assertIsNone(self.successResultOf(self.serving))
        self.assertEqual(len(self.house.records("tunnel.ended")), 1)

    def test_the_store_fails_as_it_ends(self) -> None:
        """The end of a tunnel is on record once the store takes it, as long as it then lasted."""
        self.verdict()
        self.house.clock.advance(3)
        self.house.store.mood = "down"
        self.call.give(None)
        self.house.clock.pump([1] * 20)
        self.assertEqual(self.ended(), [])
        self.house.store.mood = "well"
        self.house.clock.pump([1] * 20)
        [ended] = self.ended()
        self.assertEqual(ended["details"]["duration_ms"], 3000)

    def test_the_answer_to_its_end_is_lost(self) -> None:
        """An end that was recorded though the store did not say so is recorded once."""
        self.verdict()
        self.house.store.mood = "commits, then down"
        self.call.give(None)
        self.house.store.mood = "well"
        self.house.clock.pump([1] * 5)
        self.assertEqual((len(self.ended()), self.intake.ends.waiting), (1, 0))

    def test_stopped_before_its_end_is_recorded(self) -> None:
        """A stop tries once more; what is lost with the process is in its log."""
        self.verdict()
        self.house.store.mood = "down"
        self.call.give(None)
        self.successResultOf(self.intake.ends.stopService())
        self.assertEqual(self.ended(), [])
        self.house.store.mood = "well"
        self.successResultOf(self.intake.ends.stopService())
        self.assertEqual(len(self.ended()), 1)

    def test_revoked_proxy_loses_its_registrations(self) -> None:
        """What a revoked Proxy registered is not served through it any more."""
        self.verdict()
        self.assertEqual(self.revoke("edge1"), 1)
        self.assertFalse(self.house.registrations.is_served(self.db1))

    def revoke(self, name: str) -> int:
        admin = self.house.members()
        done = value_of(admin.revoke_node(pb.RevokeNodeRequest(node=name), operator(0)))
        assert isinstance(done, pb.RevokeNodeResponse)
        return done.tunnels_ended

    def test_a_call_that_is_cancelled_leaks_nothing(self) -> None:
        """A cancelled call takes its registration along and logs no failure."""
        self.verdict()
        self.serving.cancel()
        self.failureResultOf(self.serving)
        self.assertEqual(self.house.registrations.connectors, 0)
        self.assertEqual(len(self.house.records("tunnel.ended")), 1)
        self.assertEqual(self.house.clock.getDelayedCalls(), [])

    def test_a_stream_that_breaks_or_says_too_much(self) -> None:
        """A stream that breaks, or goes on talking, ends its registration."""
        for last in (GONE, b"more"):
            self.verdict()
            self.call.give(last)
            self.failureResultOf(self.serving, SvcError)
            self.assertEqual(self.house.registrations.connectors, 0)

    def test_silence_before_the_registration(self) -> None:
        """A stream without a registration ends after ten seconds."""
        _, serving, _ = self.begin()
        self.house.clock.advance(10)
        self.assertEqual(self.failureResultOf(serving, SvcError).value.reason, "deadline")

    def test_store_down_is_no_verdict(self) -> None:
        """While the store is away nobody is registered and nobody is told a refusal."""
        call, serving, nonce = self.begin()
        self.house.store.mood = "down"
        call.give(self.signed(nonce))
        self.failureResultOf(serving, SvcError)
        self.assertEqual((len(call.sent), self.house.registrations.connectors), (1, 0))

    def test_catalog_changed_meanwhile(self) -> None:
        """A registration judged by an older catalog is made again at once; its tunnel goes on."""
        call, serving, nonce = self.begin()
        add = Resource(id="extra", kind="tcp", labels={}, assigned_to=self.house.connector.id)
        plain = self.house.store.run

        async def run(desc: str, fn: Any) -> Any:
            result = await plain(desc, fn)
            if desc == "register a tunnel":
                self.house.run(lambda tx: tx.catalog.add(add, 2.0))
                self.house.refresh()
            return result

        self.intake.store = evolve_run(self.house.store, run)
        call.give(self.signed(nonce, resources=self.declared(("db1", "tcp"), ("extra", "tcp"))))
        self.successResultOf(serving)
        verdict, again = map(decode_connector_down, call.sent[-2:])
        self.assertTrue(isinstance(verdict, RegistrationVerdict) and verdict.accepted)
        self.assertEqual(again, Evict(AGAIN))
        self.assertIsNotNone(self.house.registrations.serving(self.db1, self.house.proxy.id))
        self.house.clock.advance(10)
        self.assertIsNone(self.house.registrations.serving(self.db1, self.house.proxy.id))

    def catalog(self) -> CatalogAdmin:
        house = self.house
        return catalog_admin(house.writer(), house.registrations, KINDS)

    def is_asked_again(self) -> bool:
        """Whether the last stream ended so that its Connector registers again."""
        return decode_connector_down(self.call.sent[-1]) == Evict(AGAIN)

    def test_assigned_with_unknown_outcome(self) -> None:
        """An assignment whose outcome was lost reaches its Connector when it is said again."""
        house = self.house
        self.verdict()
        house.store.mood = "commits, then down"
        request = pb.AssignResourceRequest(id="db1")
        refusal_of(self.catalog().assign(request, operator(0)))
        self.assertFalse(self.is_asked_again())
        house.store.mood = "well"
        answer: Any = value_of(self.catalog().assign(request, operator(0)))
        self.assertFalse(answer.changed)
        self.assertTrue(self.is_asked_again())

    def test_assigned_by_whomever(self) -> None:
        """Facts that assign otherwise ask each Connector again that they concern, and no other."""
        house = self.house
        other = house.node(Role.CONNECTOR, "conn2")
        house.refresh()
        for change, is_meant in (
            (lambda tx: tx.people.add_group("more", 2.0), False),
            (lambda tx: tx.catalog.assign("prod1", other.id, 3.0), True),  # not even declared
            (
                lambda tx: tx.catalog.add(
                    Resource(id="new1", kind="tcp", labels={}, assigned_to=other.id), 4.0
                ),
                False,
            ),
            (
                lambda tx: tx.catalog.add(
                    Resource(id="new2", kind="tcp", labels={}, assigned_to=house.connector.id), 5.0
                ),
                True,
            ),
            (lambda tx: tx.catalog.remove("db1", 6.0), True),
        ):
            self.assertTrue(self.verdict().accepted)
            house.run(change)
            value_of(house.state_cache.reload())
            self.assertEqual(self.is_asked_again(), is_meant)

    def test_assigned_and_revoked_at_once(self) -> None:
        """A Connector that is revoked with its assignment is told that it is revoked."""
        self.verdict()
        self.house.run(lambda tx: tx.catalog.assign("db1", None, 3.0))
        self.assertEqual(self.revoke("conn1"), 1)
        self.assertEqual(decode_connector_down(self.call.sent[-1]), Evict("revoked_node"))

    def test_newer_registration_of_a_node_replaces_the_older(self) -> None:
        """The end of a replaced registration takes nothing from the newer one."""
        self.verdict()
        older = self.call
        self.house.clock.advance(1)
        self.verdict()
        self.assertEqual(self.house.registrations.connectors, 1)
        older.give(None)
        self.assertTrue(self.house.registrations.is_served(self.db1))
        self.assertEqual(outcome(self.intake.refusals.summarise()), [None])


class _Running:
    def __init__(self, store: Any, run: Any) -> None:
        self.run, self.read = run, store.read


def evolve_run(store: Any, run: Any) -> Any:
    """The store with another ``run``."""
    return _Running(store, run)


def evolve_signature(message: bytes, sign_by: Holder) -> bytes:
    """The same registration signed by somebody else's key."""
    signed = decode_connector_up(message)
    assert isinstance(signed, Signed)
    forged = sign(sign_by.key, Purpose.REGISTRATION, signed.payload)
    return encode_connector_up(evolve(signed, signature=forged))


class GateTests(IntakeTestCase):
    """Connectors that are older than the SSH gate, and those that are not."""

    def setUp(self) -> None:
        super().setUp()
        host = Resource(id="gated1", kind="ssh", assigned_to=self.house.connector.id)
        self.house.run(lambda tx: tx.catalog.add(host, 5.0))
        self.house.refresh()

    def activate(self) -> None:
        epoch = Epoch(name="ssh_gate", epoch=1, activated_at=5.0, activated_by="local:0")
        self.house.run(lambda tx: tx.epochs.activate(epoch))
        self.house.refresh()

    def register(self, *names: tuple[str, str], **fields: Any) -> RegistrationVerdict:
        return self.verdict(resources=self.declared(*names), **fields)

    @proves("G-TUN-22", "U-FLT-05")
    def test_off(self) -> None:
        """While no epoch is in force a Connector that offers none keeps its SSH resources."""
        said = self.register(("gated1", "ssh"), ("db1", "tcp"))
        self.assertEqual((said.served, said.withheld), (("gated1", "db1"), ()))

    @proves("G-TUN-20", "G-ERR-10", "U-FLT-04", "X-42")
    def test_withheld(self) -> None:
        """An older Connector is not given SSH resources; the rest of its registration stands."""
        self.activate()
        for names, served in (([("db1", "tcp")], ("db1",)), ([], ())):
            said = self.register(("gated1", "ssh"), *names)
            self.assertEqual((said.accepted, said.served), (True, served))
            self.assertEqual(said.withheld, (Withheld("gated1", "gate_not_offered"),))
        self.assertEqual(self.house.records("tunnel.refused"), [])
        node = self.house.connector.id
        self.assertTrue(self.house.registrations.is_without_gate("gated1", node))

    @proves("G-TUN-21")
    def test_upgraded(self) -> None:
        """It has them again with the first registration in which it offers the epoch."""
        self.activate()
        self.register(("gated1", "ssh"))
        said = self.register(("gated1", "ssh"), gate_epoch=1)
        self.assertEqual((said.served, said.withheld), (("gated1",), ()))
        node = self.house.connector.id
        self.assertFalse(self.house.registrations.is_without_gate("gated1", node))
        offers = self.house.run(lambda tx: tx.epochs.offers("ssh_gate"))
        self.assertEqual(offers, {node: 1})

    def test_asked_again(self) -> None:
        """Activation has an older Connector that serves SSH register again at once."""
        for offered, reason in ((0, [Evict(AGAIN)]), (1, [])):
            self.register(("gated1", "ssh"), gate_epoch=offered)
            before = len(self.call.sent)
            if offered == 0:
                self.house.state_cache.on_change(self.house.registrations.follow)
                self.activate()
            else:
                self.house.registrations.follow(self.house.state_cache.state)
            told = [decode_connector_down(one) for one in self.call.sent[before:]]
            self.assertEqual(told, reason)
