"""What the facets of what happened keep: policies, sessions, audit, keyrings, facts.

Part of :class:`svc.testing.contracts.store.StoreContract`; not used alone.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from svc.errors import AlreadyExists, LeaseLost, Malformed, NoSuchRow
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainHead, EntitySlice, PersonalValue
from svc.model.audit.record import SealedRecord
from svc.model.audit.state import StateHead, StateRow
from svc.model.cluster.key_revision import KeyState
from svc.model.cluster.lease import LeaderLease, Member
from svc.model.session.session import ReportedEnd, Session, SessionEnd, SessionState

SESSION = Session(
    uid="u1",
    person_id="p1",
    resource_id="db1",
    kind="tcp",
    connector_id="n1",
    proxy_id="x1",
    decision_id="d1",
    started_at=20.0,
)


class LedgerContract:
    """One test a promise; ``self.store`` is open and empty."""

    async def test_policies(self: Any) -> None:
        """Versions count from 1; the one in force only counts upwards."""

        def policies(tx: ITransaction) -> Any:
            self.assertIsNone(tx.policies.active())
            for text in ("a", "b", "c"):
                tx.policies.add(text, "op", 1.0)
            tx.policies.activate(2, 5.0)
            self.assertEqual([each.version for each in tx.policies.newer(1, 1)], [2])
            self.assertEqual([each.version for each in tx.policies.newer(1, 9)], [2, 3])
            return tx.policies.active(), tx.policies.history(2), tx.policies.get(9)

        active, history, unknown = await self.store.run("policies", policies)
        self.assertEqual((active.version, active.text, active.activated_at), (2, "b", 5.0))
        self.assertEqual([each.version for each in history], [3, 2])
        self.assertIsNone(unknown)
        for version, refusal in ((1, AlreadyExists), (2, AlreadyExists), (9, NoSuchRow)):
            with self.assertRaises(refusal):
                await self.store.run("back", lambda tx, v=version: tx.policies.activate(v, 6.0))

    async def test_sessions(self: Any) -> None:
        """A uid is used once, ever; open sessions are found by their Proxy."""
        later = evolve(SESSION, uid="u2", proxy_id="x2", started_at=30.0)
        for each in (SESSION, later):
            await self.store.run("open", lambda tx, s=each: tx.sessions.insert(s))
        await self.store.run("end", lambda tx: tx.sessions.end("u1", SessionEnd(40.0, "closed")))
        for replay in (SESSION, later):
            with self.assertRaises(AlreadyExists):
                await self.store.run("replay", lambda tx, s=replay: tx.sessions.insert(s))
        seen = await self.store.read(
            "see",
            lambda tx: (
                tx.sessions.open(),
                tx.sessions.open_of_proxy("x1"),
                tx.sessions.open_of_proxy("x2"),
                tx.sessions.get("u9"),
                [[s.uid for s in tx.sessions.beginning(w, 1)] for w in ("u", "u2", "v")],
            ),
        )
        self.assertEqual(seen, ((later,), (), (later,), None, [["u1"], ["u2"], []]))

    async def test_sessions_end_once(self: Any) -> None:
        """The first end recorded stays, whoever reports another."""

        def end(tx: ITransaction) -> Any:
            tx.sessions.insert(SESSION)
            lost = SessionEnd(50.0, "authority_restarted", state=SessionState.ABANDONED)
            closed = SessionEnd(at=40.0, reason="closed", bytes_up=7, bytes_down=9)
            ends = (("u1", closed), ("u1", lost), ("u9", lost))
            told = [tx.sessions.end(uid, one) for uid, one in ends]
            return told, tx.sessions.get("u1")

        told, session = await self.store.run("end", end)
        self.assertEqual(
            told, [ReportedEnd.WAS_OPEN, ReportedEnd.ALREADY_ENDED, ReportedEnd.UNKNOWN]
        )
        self.assertEqual(
            session,
            evolve(
                SESSION,
                state=SessionState.ENDED,
                ended_at=40.0,
                end_reason="closed",
                bytes_up=7,
                bytes_down=9,
            ),
        )

    async def test_audit_chain(self: Any) -> None:
        """Records are linked in order, kept byte for byte, and found from either end."""
        texts = [b'{"event":"e","n":%d,"t":"\xc3\xa9\\u0000"}' % n for n in range(5)]
        self.assertEqual(await self.store.read("head", lambda tx: tx.audit.head()), ChainHead())
        for each in texts:
            await self.store.run("append", lambda tx, text=each: tx.audit.append(text))
        rows, tail, head = await self.store.read(
            "see", lambda tx: (tx.audit.rows(2, 2), tx.audit.tail(2), tx.audit.head())
        )
        self.assertEqual([row.canonical for row in rows], texts[1:3])
        self.assertEqual([row.canonical for row in tail], texts[3:])
        self.assertEqual((head.seq, head.hash), (5, tail[-1].hash))
        await self.assert_chain_holds(5)

    async def test_audit_by_decision(self: Any) -> None:
        """Every record of a decision is found by its id, and no other."""
        for text in (b'{"decision_id":"d1"}', b'{"event":"x"}', b'{"decision_id":"d2"}') * 2:
            await self.store.run("append", lambda tx, t=text: tx.audit.append(t))
        rows = await self.store.read("find", lambda tx: tx.audit.by_decision("d2"))
        self.assertEqual([row.seq for row in rows], [3, 6])

    async def test_audit_refuses_other_than_objects(self: Any) -> None:
        """What is not a JSON object in UTF-8 never enters the chain."""
        for bad in (b"", b"[1]", b"{", b"\xff", b'"text"'):
            with self.assertRaises(Malformed):
                await self.store.run("append", lambda tx, text=bad: tx.audit.append(text))
        with self.assertRaises(Exception):  # noqa: B017 - which one is the backend's
            await self.store.run("append", lambda tx: tx.audit.append(b'{"a":}'))
        self.assertEqual(await self.store.read("head", lambda tx: tx.audit.head()), ChainHead())

    async def test_audit_personal_values(self: Any) -> None:
        """A personal value can be erased, and the chain still holds."""
        value = PersonalValue("source", b"salt" * 4, "192.0.2.7")
        other = PersonalValue("whence", b"salt" * 4, "192.0.2.8")
        entities = EntitySlice("e1", "[]")
        for _ in range(2):
            await self.store.run("append", lambda tx: tx.audit.append(b"{}", [value], entities))

        def erase(tx: ITransaction) -> Any:
            before = tx.audit.personal(1, 1)
            return before, tx.audit.erase_personal(1), tx.audit.personal(1, 1)

        self.assertEqual(await self.store.run("erase", erase), ({1: (value,)}, 1, {}))
        old = [SealedRecord(b"{}", (value,))]
        await self.store.run("x", lambda tx: tx.audit.append(b"{}", [other, value], before=old))
        left = await self.store.read("see", lambda tx: tx.audit.personal(1, 4))
        self.assertEqual(left, {2: (value,), 3: (value,), 4: (value, other)})
        self.assertEqual(await self.store.read("see", lambda tx: tx.audit.personal(1, 1)), {})
        await self.assert_chain_holds(4)

    async def test_audit_batches(self: Any) -> None:
        """Records are found at and before a decision id; entries of a batch are never erased."""
        for id in ("b0", "a5", "c1"):
            text = f'{{"decision_id":"{id}"}}'.encode()
            await self.store.run("append", lambda tx, t=text: tx.audit.append(t))
        for id, near, expected in (("b9", 9, [1, 2]), ("c1", 2, [3, 1]), ("a0", 9, [])):
            found = await self.store.read("see", lambda tx, i=id, n=near: tx.origins.near(i, n))
            self.assertEqual([row.seq for row in found], expected)
        kept = PersonalValue("batch.entries", bytes(16), "[1]")
        values = [kept, PersonalValue("batch.personal", bytes(16), "[2]")]
        await self.store.run("append", lambda tx: tx.audit.append(b"{}", values))
        left = PersonalValue("batch.personal", bytes(16), "[]")
        self.assertEqual(await self.store.run("x", lambda tx: tx.audit.erase_personal(4, left)), 1)
        self.assertEqual(await self.store.run("x", lambda tx: tx.audit.erase_personal(4)), 0)
        found = await self.store.read("see", lambda tx: tx.audit.personal(4, 4))
        self.assertEqual(found, {4: (kept, left)})
        await self.assert_chain_holds(4)

    async def test_audit_slices(self: Any) -> None:
        """Slices of entities are kept once, and read in order of their digests."""
        kept = [EntitySlice("e1", "[]"), EntitySlice("e3", "[1]")]
        for each in (*kept, kept[0]):
            await self.store.run("append", lambda tx, e=each: tx.audit.append(b"{}", (), e))
        for after, limit, expected in (("", 9, kept), ("", 1, kept[:1]), ("e1", 9, kept[1:])):
            found = await self.store.read("see", lambda tx, a=after, n=limit: tx.audit.slices(a, n))
            self.assertEqual(list(found), expected)
        for named, expected in ((["e3", "e2"], kept[1:]), ([], [])):
            found = await self.store.read("see", lambda tx, n=named: tx.audit.slices("", 9, n))
            self.assertEqual(list(found), expected)

    async def test_cut(self: Any) -> None:
        """Records past one are dropped, with the slices of entities that no decision left names."""

        def append(tx: ITransaction, event: str, digest: str, more: str = "") -> None:
            text = f'{{"a":"{more}","entities_digest":"{digest}","event":"{event}"}}'
            entities = EntitySlice(digest, "[]") if event.startswith("session") else None
            tx.audit.append(text.encode(), (), entities)

        for event, digest in (
            ("session.start", "e1"),
            ("session.refused", "e2"),
            ("request.decision", "e3"),
            ("session.refused", "e1"),
            ("session.start", "e3"),
            ("session.start", "e4"),
        ):
            await self.store.run("append", lambda tx, e=event, d=digest: append(tx, e, d))
        self.assertEqual(await self.store.run("cut", lambda tx: tx.repair.cut_after(3)), 3)
        left = await self.store.read("see", lambda tx: tx.audit.slices("", 9))
        self.assertEqual([one.digest for one in left], ["e1", "e2"])
        self.assertEqual((await self.store.read("end", lambda tx: tx.audit.head())).seq, 3)
        await self.store.run("append", lambda tx: append(tx, "session.start", "e5", "\\u0000"))
        await self.store.run("cut", lambda tx: tx.repair.cut_after(4))
        left = await self.store.read("see", lambda tx: tx.audit.slices("", 9))
        self.assertEqual([one.digest for one in left], ["e1", "e2", "e5"])

    async def test_keyrings(self: Any) -> None:
        """Revisions of a kind count from 1, and one of them is active."""

        def keys(tx: ITransaction) -> Any:
            for kind in ("grant", "grant", "spiffe"):
                tx.keyrings.add(kind, f"PEM of {kind}", 1.0)
            self.assertIsNone(tx.keyrings.active("grant"))
            tx.keyrings.enter("grant", 1, KeyState.ACTIVE, 2.0)
            active = tx.keyrings.enter("grant", 2, KeyState.ACTIVE, 3.0)
            self.assertEqual(tx.keyrings.active("grant"), active)
            return [(key.kind, key.revision, key.state) for key in tx.keyrings.all()]

        self.assertEqual(
            await self.store.run("keys", keys),
            [
                ("grant", 1, KeyState.RETIRED),
                ("grant", 2, KeyState.ACTIVE),
                ("spiffe", 1, KeyState.PREPARED),
            ],
        )
        with self.assertRaises(NoSuchRow):
            await self.store.run(
                "enter", lambda tx: tx.keyrings.enter("grant", 9, KeyState.ACTIVE, 4.0)
            )

    async def test_facts_are_settled_once(self: Any) -> None:
        """The first value of a fact stays; who comes later is told it."""

        def settle(tx: ITransaction) -> Any:
            before = tx.schema.fact("cluster")
            return (
                before,
                tx.schema.settle("cluster", "a.example"),
                tx.schema.settle("cluster", "b"),
            )

        self.assertEqual(await self.store.run("settle", settle), (None, "a.example", "a.example"))

    async def test_facts_by_their_prefix(self: Any) -> None:
        """Facts are listed by the word before their dot; one that was dropped is not set."""

        def story(tx: ITransaction) -> Any:
            for name in ("open.2", "open.3", "open.1", "open", "opener.1", "ope.1", "OPEN.1"):
                tx.schema.settle(name, "-")
            dropped = (tx.schema.drop("open.2"), tx.schema.drop("open.2"))
            self.assertEqual(dropped, (True, False))
            return [tx.schema.facts("open", limit) for limit in (0, 1, 9)], tx.schema.fact("open.2")

        found = [(), ("open.1",), ("open.1", "open.3")]
        self.assertEqual(await self.store.run("facts", story), (found, None))

    async def test_lease(self: Any) -> None:
        """Each change of the lease compares what it replaces; the epoch only grows."""

        def story(tx: ITransaction) -> None:
            free = tx.lease.held()
            self.assertEqual(free, LeaderLease())
            mine = tx.lease.take("n1", "i1", free)
            assert mine == LeaderLease(epoch=1, owner="n1", instance="i1", beats=0)
            self.assertIsNone(tx.lease.take("n2", "i2", free), "it is not as seen any more")
            later = tx.lease.beat(mine)
            assert later == LeaderLease(epoch=1, owner="n1", instance="i1", beats=1)
            self.assertIsNone(tx.lease.beat(mine), "that beat was counted")
            self.assertIsNone(tx.lease.take("n2", "i2", mine), "it has beaten since")
            tx.lease.require(mine)
            theirs = tx.lease.take("n2", "i2", later)
            assert theirs == LeaderLease(epoch=2, owner="n2", instance="i2", beats=0)
            self.assertFalse(tx.lease.leave(later))
            self.assertEqual(tx.lease.held(), theirs)
            self.assertTrue(tx.lease.leave(theirs))
            self.assertEqual(tx.lease.held(), LeaderLease(2))

        await self.store.run("lease", story)
        for lease in (
            LeaderLease(epoch=1, owner="n1", instance="i1", beats=1),
            LeaderLease(2, "n2", "i2"),
            LeaderLease(2),
        ):
            with self.assertRaises(LeaseLost):
                await self.store.run("write", lambda tx, one=lease: tx.lease.require(one))

    async def test_one_epoch_twice(self: Any) -> None:
        """Of two that began one epoch, because the store was put back, one writes."""

        def begin(tx: ITransaction) -> LeaderLease:
            taken = tx.lease.take("n1", "i1", tx.lease.held())
            assert taken is not None
            kept = tx.lease.beat(taken)
            assert kept is not None
            return kept

        held = await self.store.run("begin", begin)
        await self.store.run("write", lambda tx: tx.lease.require(evolve(held, beats=7)))
        for other in (
            evolve(held, owner="n2"),
            evolve(held, instance="i2"),
            evolve(held, epoch=2),
            evolve(held, epoch=0),
            LeaderLease(1),
        ):
            with self.assertRaises(LeaseLost) as lost:
                await self.store.run("write", lambda tx, one=other: tx.lease.require(one))
            self.assertEqual(lost.exception.leader, "n1")

    async def test_members(self: Any) -> None:
        """A member's row is replaced only as it was seen; rows come by name."""

        def story(tx: ITransaction) -> None:
            self.assertEqual(tx.lease.members(), [])
            b, a = Member("b", "n2", "i2"), Member("a", "n1", "i1")
            self.assertTrue(tx.lease.appear(b, None))
            self.assertTrue(tx.lease.appear(a, None))
            self.assertFalse(tx.lease.appear(Member("a", "n9", "i9"), None), "it is there")
            later = Member(owner="a", node_id="n1", instance="i1", beats=1)
            self.assertTrue(tx.lease.appear(later, a))
            self.assertFalse(tx.lease.appear(Member("a", "n9", "i9"), a), "it has beaten since")
            self.assertEqual(tx.lease.members(), [later, b])
            self.assertTrue(tx.lease.appear(Member("a", "n9", "i9"), later))
            self.assertEqual(tx.lease.members()[0].node_id, "n9")

        await self.store.run("members", story)

    async def test_heads(self: Any) -> None:
        """Lines come back in order of size; of all only the newest stay; one size, one head."""

        def add(tx: ITransaction) -> Any:
            for size in (3, 9, 20, 21):
                tx.heads.add(size, b"head %d" % size, 3)
            return tx.heads.after(0, 9), tx.heads.after(9, 1), tx.heads.after(21, 9)

        everything, one, none = await self.store.run("heads", add)
        self.assertEqual(everything, (b"head 9", b"head 20", b"head 21"))
        self.assertEqual((one, none), ((b"head 20",), ()))
        with self.assertRaises(AlreadyExists):
            await self.store.run("again", lambda tx: tx.heads.add(20, b"head 20", 3))

        def drop(tx: ITransaction) -> Any:
            return tx.heads.drop_after(9), tx.heads.drop_after(9), tx.heads.after(0, 9)

        self.assertEqual(await self.store.run("drop", drop), (2, 0, (b"head 9",)))

    async def test_state_log(self: Any) -> None:
        """Signed records are given in order with their record, whatever is missing beside them."""

        def append(tx: ITransaction) -> Any:
            empty = tx.state.tip(), tx.state.head(), tx.state.since(0, 9)
            rows = [tx.audit.append(b'{"n":%d}' % n) for n in range(3)]
            for n, row in enumerate(rows, 1):
                tx.state.append(n, row.seq, "k1", b"signature %d" % n, b"DER")
            return empty, rows

        empty, rows = await self.store.run("append", append)
        self.assertEqual(empty, (0, StateHead(), ()))
        for n, seq in ((3, 4), (4, 3)):
            with self.assertRaises(AlreadyExists):
                await self.store.run(
                    "again", lambda tx, n=n, s=seq: tx.state.append(n, s, "k1", b"s", b"DER")
                )

        def look(tx: ITransaction) -> Any:
            return tx.state.tip(), tx.state.head(), tx.state.since(1, 1), len(tx.state.since(0, 9))

        row = rows[1]
        second = StateRow(
            n=2,
            seq=2,
            prev_hash=row.prev_hash,
            hash=row.hash,
            canonical=row.canonical,
            key_id="k1",
            signature=b"signature 2",
            certificate=b"DER",
        )
        head = StateHead(3, 3, rows[2].hash)
        self.assertEqual(await self.store.read("look", look), (3, head, (second,), 3))
