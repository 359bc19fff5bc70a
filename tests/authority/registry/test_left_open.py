"""The next leader records the ends of tunnels that were left open, by what the log shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from attrs import frozen
from zope.interface import implementer

from svc.audit.log.record import MAX_RECORD
from svc.authority.registry import left_open
from svc.authority.registry.left_open import TunnelsLeftOpen
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.record import chain_hash
from svc.model.principal import Role
from svc.runtime.services import BackgroundTasks
from tests.authority.house import value_of
from tests.authority.registry.support import IntakeTestCase
from tests.support.logged import logged

DROPPED = "facts of open tunnels dropped"


@implementer(IStore)
@frozen
class RegistersFirst:
    """A store that lets something happen before it is written to."""

    store: Any
    happens: Callable[[], object]

    async def read(self, desc: str, fn: Callable[[ITransaction], Any]) -> Any:
        return await self.store.read(desc, fn)

    async def run(self, desc: str, fn: Callable[[ITransaction], Any]) -> Any:
        self.happens()
        return await self.store.run(desc, fn)

    async def close(self) -> None:
        await self.store.close()


class LeftOpenTests(IntakeTestCase):
    def test_the_leader_is_killed(self) -> None:
        """The next leader records the ends of the tunnels that the one before left, once."""
        self.verdict()
        self.assertEqual(self.next_leader(), 1)
        [ended] = self.ended()
        told = {"proxy_id": self.house.proxy.id, "connector_id": self.house.connector.id}
        self.assertEqual(ended["details"], told)
        self.assertEqual(ended["reason"], "leader_gone")
        self.assertEqual(self.next_leader(), 0)

    def test_the_leader_stopped_while_the_store_was_away(self) -> None:
        """An end that was lost with its process is recorded by the next leader."""
        self.verdict()
        self.house.store.mood = "down"
        self.call.give(None)
        self.successResultOf(self.intake.ends.stopService())
        self.house.store.mood = "well"
        self.assertEqual((self.next_leader(), len(self.ended())), (1, 1))

    def test_nothing_is_left_of_what_ended(self) -> None:
        """Whoever leads next records no end of a tunnel that ended, or was registered again."""
        self.verdict()
        self.house.registrations.ask_again(self.house.connector.id)
        self.verdict()
        self.house.clock.pump([1] * 11)
        self.call.give(None)
        self.assertEqual((self.next_leader(), len(self.ended())), (0, 1))

    def test_only_what_the_log_says_was_registered_has_an_end(self) -> None:
        """A fact that somebody put into the store is dropped, and records nothing."""
        self.verdict()
        self.call.give(None)

        def put(tx: ITransaction) -> None:
            for name in ("open_tunnel.x", "open_tunnel.99", "open_tunnel.2"):
                tx.schema.settle(name, "")

        self.house.run(put)
        self.assertEqual((self.next_leader(), len(self.ended())), (0, 1))
        self.assertEqual(self.facts(), ())

    def registered(self) -> list[int]:
        """Where the log has the registrations."""
        rows = self.house.run(lambda tx: tx.audit.rows(1, 1000))
        return [row.seq for row in rows if b'"event":"tunnel.registered"' in row.canonical]

    def put(self, *names: str) -> None:
        """Put facts into the store."""
        self.house.run(lambda tx: [tx.schema.settle(name, "") for name in names])

    def facts(self) -> tuple[str, ...]:
        """The facts of open tunnels that the store has."""
        store = self.house.store.store
        found = value_of(store.read("facts", lambda tx: tx.schema.facts("open_tunnel", 100_000)))
        assert isinstance(found, tuple)
        return found

    def test_a_fact_of_a_tunnel_that_ended(self) -> None:
        """A tunnel whose end is on record gets no other, however often a fact says it has none."""
        self.verdict()
        self.call.give(None)
        [seq] = self.registered()
        for _ in range(3):
            self.put(f"open_tunnel.{seq}")
            self.assertEqual((self.next_leader(), self.facts()), (0, ()))

    def test_a_fact_of_a_tunnel_that_a_leader_ended(self) -> None:
        """Nor does one whose end the next leader recorded."""
        self.verdict()
        [seq] = self.registered()
        self.assertEqual(self.next_leader(), 1)
        self.put(f"open_tunnel.{seq}")
        self.assertEqual((self.next_leader(), self.facts()), (0, ()))

    def test_other_names_of_a_registration(self) -> None:
        """A registration has one name; whatever else seems to name it is dropped, and said once."""
        self.verdict()
        [seq] = self.registered()
        others = [f"open_tunnel.0{seq}", f"open_tunnel.x.{seq}", f"open_tunnel.z.w.{seq}"]
        self.put(*others, "open_tunnel.", f"open_tunnel.{'9' * 400}", "open_tunnel.٣")
        events = logged(self)
        self.assertEqual((self.next_leader(), self.facts()), (1, ()))
        [said] = [one for one in events if one["log_format"].startswith(DROPPED)]
        self.assertEqual(said["facts"], 6)

    def test_other_names_alone(self) -> None:
        """Without its own name, an open registration is not ended by what seems to name it."""
        self.verdict()
        [seq] = self.registered()
        self.house.run(lambda tx: tx.schema.drop(f"open_tunnel.{seq}"))
        self.put(f"open_tunnel.0{seq}", f"open_tunnel.x.{seq}")
        self.assertEqual((self.next_leader(), self.facts()), (0, ()))

    def test_many_facts(self) -> None:
        """However many facts there are, one leader looks at so many, and the next at the others."""
        self.verdict()
        self.patch(left_open, "MAX_FACTS", 1200)
        self.put(*(f"open_tunnel.1{count:05}" for count in range(2000)))
        self.assertEqual((self.next_leader(), len(self.facts())), (0, 801))
        self.assertEqual((self.next_leader(), self.facts()), (1, ()))

    def test_a_fact_for_every_record(self) -> None:
        """Facts that name every record give one end, of the one tunnel that is open."""
        for _ in range(3):
            self.verdict()
            self.call.give(None)
            self.house.clock.advance(100)
        self.verdict()
        self.put(*(f"open_tunnel.{seq}" for seq in range(1, 100)))
        self.assertEqual((self.next_leader(), self.facts()), (1, ()))

    def altered(self, change: Callable[[dict[str, Any]], object], *, is_hashed: bool) -> None:
        """Alter the newest registration by SQL."""
        seq = self.registered()[-1]

        def alter(tx: ITransaction) -> None:
            [row] = tx.audit.rows(seq, 1)
            record = json.loads(row.canonical)
            change(record)
            text = json.dumps(record, sort_keys=True, separators=(",", ":"))
            link = chain_hash(seq, row.prev_hash, text.encode()) if is_hashed else row.hash
            tx.state._db.change(  # type: ignore[attr-defined]
                "UPDATE audit_log SET canonical = ?, hash = ? WHERE seq = ?", text, link, seq
            )

        value_of(self.house.store.store.run("sql", alter))

    def test_altered_registrations(self) -> None:
        """A registration that was altered has no end; nor has one that names no such nodes.

        The second holds although whoever altered the last record hashed it anew.
        """

        def renamed(member: str, name: str) -> Callable[[dict[str, Any]], object]:
            return lambda record: record["details"].update({member: name})

        proxy, connector = self.house.proxy.id, self.house.connector.id
        for change in (
            renamed("connector_id", "not-a-node-at-all"),
            renamed("connector_id", "x" * (2 * MAX_RECORD)),
            renamed("connector_id", proxy),
            renamed("proxy_id", connector),
            renamed("proxy_id", "z" * 26),
            lambda record: record["details"].update(connector_id=7),
            lambda record: record.update(details=[]),
            lambda record: record.update(time="yesterday"),
        ):
            for is_hashed in (False, True):
                self.verdict()
                self.altered(change, is_hashed=is_hashed)
                events = logged(self)
                self.assertEqual((self.next_leader(), self.facts()), (0, ()))
                self.assertTrue(any(one["log_format"].startswith(DROPPED) for one in events))

    def test_altered_after_it(self) -> None:
        """Where a later record was altered, it may have been the end: none is recorded."""
        self.verdict()
        [seq] = self.registered()
        self.assertFalse(self.verdict(self.house.holder(Role.CONNECTOR)).accepted)
        self.house.by_sql(
            "UPDATE audit_log SET canonical = replace(canonical, 'unknown_node', 'known_node')"
            f" WHERE seq = {seq + 1}"
        )
        self.assertEqual((self.next_leader(), self.facts()), (0, ()))

    def test_the_end_was_taken_out_of_the_log(self) -> None:
        """A registration whose end somebody deleted from the log gets no other."""
        self.verdict()
        self.call.give(None)
        [seq] = self.registered()
        self.house.add_group("more")
        self.house.by_sql(f"DELETE FROM audit_log WHERE seq = {seq + 1}")
        value_of(
            self.house.store.store.run("put", lambda tx: tx.schema.settle(f"open_tunnel.{seq}", ""))
        )
        self.assertEqual(self.next_leader(), 0)

    def test_altered_nodes(self) -> None:
        """Of a node whose row is not as it was signed nothing is recorded."""
        self.verdict()
        self.house.by_sql(f"UPDATE nodes SET name = 'x' WHERE id = '{self.house.proxy.id}'")
        self.assertEqual(self.next_leader(), 0)

    def test_a_revoked_node(self) -> None:
        """A node that was revoked since had a tunnel all the same."""
        self.verdict()
        self.house.run(lambda tx: tx.nodes.revoke(self.house.connector.id, 5.0))
        self.assertEqual(self.next_leader(), 1)

    def test_registered_again(self) -> None:
        """Of a tunnel that was registered again before the kill one end is recorded."""
        self.verdict()
        self.house.registrations.ask_again(self.house.connector.id)
        self.verdict()
        self.assertEqual(len(self.facts()), 2)
        events = logged(self)
        self.assertEqual((self.next_leader(), self.facts()), (1, ()))
        self.assertFalse(any(one["log_format"].startswith(DROPPED) for one in events))

    def test_the_end_of_the_one_before(self) -> None:
        """A tunnel that replaced another is open still when that one's end is recorded."""
        self.verdict()
        older = self.call
        self.house.clock.advance(100)
        self.verdict()
        older.give(None)
        self.assertEqual((self.next_leader(), self.facts()), (1, ()))

    def test_tunnels_over_several_proxies(self) -> None:
        """Each pair of a Connector and a Proxy has its own end."""
        second = self.house.node(Role.CONNECTOR, "conn2")
        resource = self.house.run(lambda tx: tx.catalog.assign("prod1", second.id, 3.0))
        self.assertEqual(resource.assigned_to, second.id)
        self.house.refresh()
        self.verdict()
        self.verdict(second, resources=self.declared(("prod1", "tcp")))
        self.assertEqual((self.next_leader(), self.facts()), (2, ()))

    def far_back(self) -> None:
        """A tunnel was left open so far back that no leader waits until the log is read."""
        self.verdict()
        for count in range(5):
            self.house.add_group(f"group{count}")
        self.patch(left_open, "BATCH", 2)
        self.patch(left_open, "_NEAR", 3)

    def test_a_long_way_back(self) -> None:
        """A leader serves while a long part of the log is read; the ends are the same."""
        self.far_back()
        tasks = BackgroundTasks()
        self.successResultOf(tasks.stopService())
        value_of(self.house.intake(tasks).ends.record_left())  # where no task may run
        self.assertEqual((len(self.ended()), len(self.facts())), (0, 1))
        self.assertEqual((self.next_leader(), self.facts()), (1, ()))

    def test_registered_again_meanwhile(self) -> None:
        """A tunnel that is registered with this leader while the log is read gets no end then."""
        self.far_back()
        left = TunnelsLeftOpen(self.house.store, self.house.recorder)
        facts = value_of(left.look())
        self.house.registrations.ask_again(self.house.connector.id)
        self.verdict()
        newest = self.registered()[-1]
        self.assertEqual(value_of(left.record_ends(facts)), 0)
        self.assertEqual((self.ended(), self.facts()), ([], (f"open_tunnel.{newest}",)))
        self.assertEqual((self.next_leader(), self.facts()), (1, ()))

    def test_registered_again_at_the_last_moment(self) -> None:
        """Nor where it is registered between the last look at the log and the end."""
        self.far_back()
        left = TunnelsLeftOpen(RegistersFirst(self.house.store, self.verdict), self.house.recorder)
        facts = value_of(left.look())
        self.assertEqual((value_of(left.record_ends(facts)), self.ended()), (0, []))

    def test_too_far_back(self) -> None:
        """A registration so far back that the log is not read to it gets no end."""
        self.far_back()
        self.patch(left_open, "MAX_RECORDS", 3)
        self.assertEqual((self.next_leader(), self.facts()), (0, ()))

    def test_the_store_fails_meanwhile(self) -> None:
        """Ends that were recorded though the store did not say so are recorded once."""
        self.far_back()
        self.house.store.mood = "commits, then down"
        events = logged(self)
        self.assertEqual(self.next_leader(), 1)
        self.assertTrue(any("next start" in one["log_format"] for one in events))
        self.house.store.mood = "well"
        self.assertEqual((self.next_leader(), len(self.ended())), (0, 1))
