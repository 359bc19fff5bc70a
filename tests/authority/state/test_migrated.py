"""Whoever applied migrations, and however it ended then, the leader records each once."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.state.migrated import MigrationRecords
from svc.authority.state.recorder import node
from svc.model.audit.events import ROLE_START, STORE_MIGRATE
from tests.authority.house import AUTHORITY, House, value_of


class MigrationRecordTests(SynchronousTestCase):
    """A leader of a store, whose ledger and log a test writes."""

    def setUp(self) -> None:
        self.house = House()
        self.store = self.house.store.store
        applied = value_of(self.store.read("ledger", lambda tx: tx.schema.applied()))
        self.ids = [one.id for one in applied]
        self.version = applied[0].binary_version

    def lead(self) -> None:
        """What another leader does as it starts, in a process that has applied nothing."""
        records = MigrationRecords(self.store, self.house.recorder)
        earlier = value_of(records.earlier())
        value_of(self.store.run("role start", lambda tx: records.write(tx, earlier)))

    def recorded(self) -> list[tuple[str, list[str]]]:
        """What is on record: the version of each build, and what it applied."""
        return [
            (one["details"]["version"], one["details"]["migrations"])
            for one in self.house.records("store.migrate")
        ]

    def change(self, statement: str, *values: Any) -> None:
        """What is written past every record."""
        value_of(self.store.run("test", lambda tx: tx.audit._db.change(statement, *values)))

    def append(self, event: Any, details: dict[str, Any]) -> int:
        """A record of an earlier build; its number."""
        recorder, by = self.house.recorder, node(AUTHORITY)
        row = value_of(
            self.store.run("test", lambda tx: recorder.append(tx, event, by, details=details))
        )
        return int(row.seq)

    def test_died_before_it_led(self) -> None:
        """What was applied and never recorded is recorded by the next leader, and not again."""
        for _ in range(3):
            self.lead()
        self.assertEqual(self.recorded(), [(self.version, self.ids)])

    def test_of_several_builds(self) -> None:
        """Each record names the build that applied, whichever build the leader is."""
        self.change("UPDATE svc_migrations SET binary_version = ? WHERE id < ?", "0.10.3", "m0080")
        self.change("DELETE FROM svc_migrations WHERE id > ?", "m0084")
        self.lead()
        older = [id for id in self.ids if id < "m0080"]
        newer = [id for id in self.ids if "m0080" < id < "m0084"]
        self.assertEqual(self.recorded(), [("0.10.3", older), (self.version, newer)])
        self.change(
            "INSERT INTO svc_migrations VALUES (?, ?, ?, ?)", self.ids[-1], "", 1.0, "0.12.0"
        )
        self.lead()
        self.assertEqual(self.recorded()[2:], [("0.12.0", self.ids[-1:])])

    def test_recorded_by_an_earlier_build(self) -> None:
        """Records of a build that noted nowhere where they are count as well."""
        details = {"migrations": self.ids[:-2], "version": "0.10.3"}
        self.append(STORE_MIGRATE, details)
        for number in range(3):
            self.append(
                ROLE_START, {"role": "authority", "version": f"0.10.{number}", "plugins": []}
            )
        for _ in range(2):
            self.lead()
        wanted = [("0.10.3", self.ids[:-2]), (self.version, self.ids[-2:])]
        self.assertEqual(self.recorded(), wanted)

    def test_the_log_counts(self) -> None:
        """A fact of the store that leads to no such record hides nothing."""
        seq = self.append(ROLE_START, {"role": "authority", "version": "1", "plugins": []})
        for n, value in enumerate((str(seq), "999999", "no number", "\u0663", "9" * 30), 1):
            self.change("INSERT INTO store_facts VALUES (?, ?)", f"migrations_recorded.{n}", value)
        for _ in range(2):
            self.lead()
        self.assertEqual(self.recorded(), [(self.version, self.ids)])

    def test_an_altered_record(self) -> None:
        """A record that cannot be read counts for nothing, and keeps no leader from starting."""
        self.lead()
        statement = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
        triggers = value_of(
            self.store.read("test", lambda tx: tx.audit._db.all(statement, "audit_log"))
        )
        for (trigger,) in triggers:
            self.change(f'DROP TRIGGER "{trigger}"')
        self.change(
            "UPDATE audit_log SET canonical = replace(canonical, ?, ?)",
            '"migrations":[',
            '"migrations": [',
        )
        self.lead()
        self.assertEqual(self.recorded(), [(self.version, self.ids)] * 2)

    def test_text_of_anybody(self) -> None:
        """What the ledger says of a version keeps no leader from starting, and is not repeated."""
        self.change("UPDATE svc_migrations SET binary_version = ?", "0.10\x1b[2J" + "x" * 9000)
        self.lead()
        [(version, _)] = self.recorded()
        self.assertEqual(version, "unknown")
        self.assertNotIn("[2J", json.dumps(self.house.records()))
