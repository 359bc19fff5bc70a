"""Texts that a Proxy does not parse in its own process."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from time import process_time
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.kinds.postgres.effects import LONGEST, TextEffects
from svc.kinds.postgres.long_texts import (
    LONGEST_APART,
    WORK,
    effects_form,
    effects_from_form,
    effects_of,
    read,
)
from svc.kinds.postgres.walk import text_effects
from svc.runtime.apart import WorkApart
from tests.kinds.postgres.talk import Talk, query
from tests.kinds.postgres.test_effects import cases

ROWS = b"INSERT INTO a VALUES " + b",".join(b"(%d,'row')" % n for n in range(4000))
BOMBS = (
    b"SELECT 1" + b"+1" * 32_000,
    b"SELECT " + b"(" * 32_000,
    b"SELECT " + b"/*" * 32_000,
    b"SELECT " + b"-" * 63 + b"1" + b" - 1" * 15_000,
    b"SELECT " + b"CASE WHEN a THEN " * 3_800,
    b"WITH " + b",".join(b"a%d AS (SELECT 1)" % n for n in range(3000)) + b" SELECT 1",
)


class FormTests(SynchronousTestCase):
    """How effects travel."""

    def test_round_trip(self) -> None:
        """What comes back is what was read, for every statement of the table."""
        for _, _, statement in cases():
            found = text_effects(statement.encode("utf-8"))
            self.assertEqual(effects_from_form(json.loads(json.dumps(effects_form(found)))), found)

    def test_long_insert(self) -> None:
        """A text of 50 KiB is decided as a short one; one over 64 KiB is not read."""
        self.assertGreater(len(ROWS), LONGEST)
        talk = Talk()
        self.assertEqual(talk.asks(query(ROWS.decode())), query(ROWS.decode()))
        record = talk.played.records[0]
        assert record.request is not None
        self.assertEqual(set(record.request.context["tables_written"]), {"a"})  # type: ignore[arg-type]
        dropping = query(f"DROP TABLE a; {ROWS.decode()}")
        self.assertIn(b"svc_denied_", talk.asks(dropping))


class _Apart:
    """The part of a session that reads apart."""

    def __init__(self, apart: WorkApart) -> None:
        self.apart = partial(apart.run, person="a" * 26)


class ApartTests(TestCase):
    """The real child process."""

    def setUp(self) -> None:
        host: Any = reactor
        self.work = WorkApart(reactor=host, clock=host)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.work.stop()))
        self.session: Any = _Apart(self.work)

    async def test_bombs(self) -> None:
        """Each is read or refused; meanwhile this process does almost nothing, in short steps."""
        await self.session.apart(WORK, b"SELECT 1")  # it is warm
        turns: list[float] = [process_time()]
        looping = LoopingCall(lambda: turns.append(process_time()))
        looping.start(0.005)
        for text in BOMBS:
            self.assertTrue(LONGEST < len(text) <= LONGEST_APART, len(text))
            self.assertIsInstance(await effects_of(self.session, text), TextEffects)
        found = await effects_of(self.session, ROWS)
        self.assertEqual((found.writes, found.incomplete), ({"a"}, ""))
        looping.stop()
        steps = sorted(after - before for before, after in pairwise(turns))
        # CPU time of this process between two turns: what a neighbour of these texts waits for.
        self.assertLess(steps[int(len(steps) * 0.99)], 0.05)

    async def test_lengths(self) -> None:
        """A short text is read here, and one over 64 KiB by nobody."""
        await self.work.stop()
        found = await effects_of(self.session, b"SELECT 1")
        self.assertEqual(found.incomplete, "")
        long = b"SELECT '" + b"x" * LONGEST_APART + b"'"
        self.assertEqual((await effects_of(self.session, long)).incomplete, "text_too_long")
        self.assertEqual((await effects_of(self.session, ROWS)).incomplete, "text_not_read")
        self.assertEqual(effects_from_form(json.loads(read(ROWS))).writes, {"a"})
