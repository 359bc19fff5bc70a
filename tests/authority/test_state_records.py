"""Whoever changes the signed records themselves puts nothing in force (rule R8)."""

from __future__ import annotations

import json

from attrs import evolve

from svc.audit.state.in_force import OriginKey, StateBroken, StateLedger
from svc.authority.state.tables import StateUnsigned
from svc.compose.authority.state import origin_key
from svc.interfaces.store import ITransaction
from svc.model.audit.events import GROUP_ADD
from svc.model.audit.record import chain_hash
from svc.model.audit.state import group_entry
from svc.model.signing import Purpose
from svc.pki.audit_signatures import origin_verifier
from svc.pki.root import make_cluster
from tests.authority.house import outcome, refusal_of, value_of
from tests.authority.test_state import ROOT, StateCase
from tests.pki.support import CLUSTER, Counted


class RecordTests(StateCase):
    """Tampering with the records of state themselves."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("ops", "qa"):
            self.house.add_group(name)
        self.reload()

    def refused_at_start(self) -> str:
        (got,) = outcome(self._restart())
        return str(got.value.reason)

    async def _restart(self) -> None:
        self.restarted()

    def broken_while_running(self) -> None:
        """The pass names the records; what was in force stays, and nothing changes any more."""
        before = self.house.state_cache.state
        self.reload()
        self.assertEqual(self.house.state_cache.state, before)
        self.assertEqual(len([one for one in self.named() if one.startswith("log:")]), 1)
        with self.assertRaises(StateUnsigned):
            self.house.run(lambda tx: tx.people.add_group("more", 1.0))

    def test_undone_change(self) -> None:
        """A change that was undone is followed by nothing, whatever this process saw of it."""

        def fail(tx: ITransaction) -> None:
            tx.people.add_group("undone", 1.0)
            self.house.recorder.append(tx, GROUP_ADD, ROOT, state=[group_entry("undone")])
            self.house.recorder.rows(tx)
            raise ValueError("undone")

        self.house.add_group("first")
        with self.assertRaises(ValueError):
            value_of(self.house.store.store.run("fail", fail))
        for name in ("kept", "more"):
            self.house.add_group(name)
        self.reload()
        groups = self.house.state_cache.state.groups
        self.assertEqual(
            (self.named(), groups), ([], ("dev", "first", "kept", "more", "ops", "qa"))
        )

    def test_last_deleted(self) -> None:
        """Without its last record a store is neither gone on with nor started."""
        self.house.by_sql("DELETE FROM state_changes WHERE n = (SELECT max(n) FROM state_changes)")
        self.broken_while_running()
        self.assertEqual(self.refused_at_start(), "state_rolled_back")

    def test_all_deleted(self) -> None:
        """A store without any of its records is not taken for an older one."""
        self.house.by_sql("DELETE FROM state_changes")
        self.broken_while_running()
        self.assertEqual(self.refused_at_start(), "state_rolled_back")

    def test_swapped(self) -> None:
        """Two records in each other's place do not follow from one another."""
        last = self.house.ledger.view.n
        value_of(self.keeper.stop())
        (self.anchor.path / "state-rows.json").unlink()
        (self.anchor.path / "state.json").unlink()
        self.house.by_sql(
            f"UPDATE state_changes SET n = 1000 WHERE n = {last}",
            f"UPDATE state_changes SET n = {last} WHERE n = {last - 1}",
            f"UPDATE state_changes SET n = {last - 1} WHERE n = 1000",
        )
        ledger = StateLedger(origin_verifier(self.house.world.keys.root_der, CLUSTER))
        with self.assertRaises(StateBroken):
            value_of(self.house.store.read("all", lambda tx: ledger.ahead(tx.state, ledger.view)))

    def forge(self, key: OriginKey) -> None:
        """Append a record that puts a group in force, signed by *key*."""
        forger = evolve(self.house.recorder, key=key)

        def change(tx: ITransaction) -> None:
            tx.people.add_group("forged", 1.0)
            forger.append(tx, GROUP_ADD, ROOT, state=[group_entry("forged")])
            self.house.ledger._known.clear()

        value_of(self.house.store.store.run("forge", change))
        self.broken_while_running()
        self.assertEqual(self.refused_at_start(), "state_broken")

    def test_self_made_key(self) -> None:
        """A record signed by a key of another root is none."""
        self.forge(origin_key(make_cluster(CLUSTER, self.house.now, Counted())))

    def test_key_of_another_purpose(self) -> None:
        """A record signed with a key of the cluster that is for something else is none."""
        sign = self.house.world.keys.signer(Purpose.AUDIT_HEAD)
        self.forge(OriginKey(lambda data: sign(data).signature, sign(b"").chain[0]))

    def test_genuine_record_again(self) -> None:
        """An old record that is appended once more puts nothing in force."""

        def replay(tx: ITransaction) -> None:
            old = tx.state.since(1, 1)[0]
            row = tx.audit.append(old.canonical)
            n = tx.state.tip() + 1
            tx.state.append(n, row.seq, old.key_id, old.signature, old.certificate)

        value_of(self.house.store.store.run("replay", replay))
        self.broken_while_running()
        self.assertEqual(self.refused_at_start(), "state_broken")

    def test_record_rewritten(self) -> None:
        """A record rewritten with every hash made again fails by its signature."""
        last = value_of(
            self.house.store.read("last", lambda tx: tx.state.since(tx.state.tip() - 1, 1)[0])
        )
        form = json.loads(last.canonical)
        form["state"]["rows"] = [["group:other", "00" * 32]]
        text = json.dumps(form, sort_keys=True, separators=(",", ":"))
        link = chain_hash(last.seq, last.prev_hash, text.encode())
        self.house.by_sql(
            f"UPDATE audit_log SET canonical = '{text}', hash = x'{link.hex()}'"
            f" WHERE seq = {last.seq}"
        )
        self.broken_while_running()
        self.assertEqual(self.refused_at_start(), "state_rolled_back")
        ledger = StateLedger(origin_verifier(self.house.world.keys.root_der, CLUSTER))
        with self.assertRaises(StateBroken) as caught:
            value_of(self.house.store.read("all", lambda tx: ledger.ahead(tx.state, ledger.view)))
        self.assertIn("signature does not verify", caught.exception.text)

    def test_signer_taken_away(self) -> None:
        """Records whose key is not there are none."""
        value_of(self.keeper.stop())
        (self.anchor.path / "state-rows.json").unlink()
        self.house.by_sql("PRAGMA foreign_keys = OFF")
        self.house.by_sql("UPDATE state_signers SET certificate = x'00'")
        self.assertEqual(self.refused_at_start_without_rows(), "state_broken")

    def refused_at_start_without_rows(self) -> str:
        begin, _ = self.house.restart(self.anchor)
        return refusal_of(begin.begin()).reason
