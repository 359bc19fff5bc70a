"""F11: rows of the audit queue that are forged, replayed, unsigned, of an unknown key, reordered
or deleted; each member of each sort of row changed.  Short or, with SVC_LONG=1, in full.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.events import AUTHORITY_DOUBT, AUTHORITY_STANDBY, ROLE_START, ROLE_STOP
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.record import Actor
from svc.model.audit.replay import GAP_SECS
from svc.model.audit.spool import SpoolRow
from svc.model.canonical import encode
from svc.model.principal import Role
from tests.authority.house import House, value_of
from tests.authority.spools import Leader, Origin, watcher
from tests.fault.tally import Tally, counted
from tests.support.proof import proves

TALLY = Tally("F11")
GOOD_ROWS = counted(500, 10_000)
BETWEEN = 50
"""Good rows in a pass."""


def changed(value: Any) -> Iterator[Any]:
    """What somebody might put in the place of *value*."""
    if isinstance(value, bool) or value is None:
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -value, str(value))
    elif isinstance(value, str):
        yield from (value + "x", value[:-1], value[::-1] + "y", 7, "")
    elif isinstance(value, list):
        yield from ([*value, "x"], {}, "x")


def places(form: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every member of *form*, at any depth."""
    if isinstance(form, dict):
        for name, value in form.items():
            yield (*path, name), value
            yield from places(value, (*path, name))


def with_value(form: Any, path: tuple[Any, ...], value: Any) -> Any:
    """*form* with another value in one place; None takes the member out."""
    name, *rest = path
    new = dict(form)
    if rest:
        new[name] = with_value(new[name], tuple(rest), value)
    elif value is None:
        del new[name]
    else:
        new[name] = value
    return new


def mutants(row: SpoolRow) -> Iterator[SpoolRow]:
    """*row* with one thing changed by somebody without its key."""
    form = json.loads(row.canonical)
    for path, value in places(form):
        for other in (None, *changed(value)):
            canonical = encode(with_value(form, path, other))
            if canonical != row.canonical:
                yield evolve(row, canonical=canonical)
    yield evolve(row, canonical=encode({**form, "extra": 1}))
    yield evolve(row, canonical=row.canonical + b" ")
    yield evolve(row, canonical=row.canonical[:-1])
    for at in range(0, 64, 7):
        signature = bytearray(row.signature)
        signature[at] ^= 1
        yield evolve(row, signature=bytes(signature))
    yield evolve(row, signature=b"")
    yield evolve(row, signature=row.signature[:-1])
    yield evolve(row, key_id="")
    yield evolve(row, key_id="0" * 64)
    yield evolve(row, key_id=row.key_id.upper())
    yield from personal_mutants(row)


def personal_mutants(row: SpoolRow) -> Iterator[SpoolRow]:
    """*row* with other values beside its record."""
    values = row.personal
    yield evolve(row, personal=(*values, PersonalValue("details.count", bytes(16), "1")))
    for at, value in enumerate(values):
        for other in (
            None,
            evolve(value, path=f"{value.path}x"),
            evolve(value, salt=bytes(16)),
            evolve(value, value='"192.0.2.8"'),
        ):
            kept = [*values[:at], *([] if other is None else [other]), *values[at + 1 :]]
            yield evolve(row, personal=tuple(kept))


class Faults(SynchronousTestCase):
    """A leader, a Proxy, and an Authority that stands by."""

    def setUp(self) -> None:
        self.house = House()
        self.leader = Leader(self.house)
        self.proxy = Origin(self.house, "edge7")
        self.standby = Origin(self.house, "authority7", Role.AUTHORITY)

    def restart(self) -> None:
        """Another process leads; all it knows is in the store."""
        held = self.leader.held
        self.leader = Leader(self.house)
        self.leader.held += held

    def kinds(self) -> list[SpoolRow]:
        """One row of each sort that may come through the queue, in order."""
        proxy, standby = self.proxy, self.standby
        own = Actor("node", proxy.id)
        started = {"role": "proxy", "version": "0", "plugins": ["a"]}
        rows = [
            proxy.first,
            proxy.add(proxy.record(ROLE_START, own, details=started)),
            proxy.noted(),
            proxy.summary(),
            proxy.add(proxy.record(ROLE_STOP, own, details={"role": "proxy"})),
            proxy.close(),
        ]
        other = Actor("node", standby.id)
        said = {"leader_id": "a" * 26}
        rows += [
            standby.first,
            standby.add(standby.record(AUTHORITY_STANDBY, other, details=said)),
            standby.add(standby.record(AUTHORITY_DOUBT, other, reason="audit_broken")),
            standby.close(),
        ]
        return rows


class MutantTests(Faults):
    """Each member of each sort of row."""

    @proves("G-AUD-05", "G-AUD-06", "G-AUD-07", "G-AUD-09")
    def test_every_member(self) -> None:
        """A change of anything in a row holds it; the row itself, behind it, goes on."""
        rows = self.kinds()
        count = 0
        for number, row in enumerate(rows):
            if number == len(rows) // 2:
                self.restart()
            bad = list(mutants(row))
            before = len(self.leader.held)
            self.leader.inject(*bad, row)
            with TALLY.timed():
                self.leader.drain()
            held = len(self.leader.held) - before
            TALLY.many(len(bad), held)
            self.assertEqual(held, len(bad))
            self.assertEqual(self.leader.logged([row]), [1])
            count += len(bad)
        self.assertGreaterEqual(count, 500)
        self.assertNotIn(None, self.leader.holds())
        self.assertEqual(self.leader.logged(rows), [1] * len(rows))

    @proves("G-AUD-08")
    def test_every_replay(self) -> None:
        """Each row that was taken is held when it comes again, also by another leader."""
        rows = self.kinds()
        self.leader.inject(*rows)
        self.leader.drain()
        for restart in (False, True):
            if restart:
                self.restart()
            before = len(self.leader.held)
            self.leader.inject(*rows)
            self.leader.drain()
            TALLY.many(len(rows), len(self.leader.held) - before)
            self.assertEqual(self.leader.held[before:], ["replayed"] * len(rows))
        self.assertEqual(self.leader.logged(rows), [1] * len(rows))

    @proves("X-15")
    def test_another_origins_key(self) -> None:
        """A row signed with a key that is in force, and not its origin's, is forged."""
        rows = self.kinds()
        thief = Origin(self.house, "edge8")
        bad = []
        for row in rows:
            form = {**json.loads(row.canonical), "key_id": thief.maker.key_id}
            bad.append(thief.signed(evolve(row, key_id=thief.maker.key_id), row.canonical))
            bad.append(thief.signed(evolve(row, key_id=thief.maker.key_id), encode(form)))
        self.leader.inject(*bad)
        self.leader.drain()
        TALLY.many(len(bad), self.leader.held.count("forged"))
        self.assertEqual(self.leader.held, ["forged"] * len(bad))


class OrderTests(Faults):
    """Rows that are good, and what becomes of them on their way."""

    def test_good_rows(self) -> None:
        """No good row is held, in whatever order they come and whoever leads."""
        rows = [self.proxy.first]
        while len(rows) < GOOD_ROWS:
            rows.append(self.proxy.noted() if len(rows) % 5 else self.proxy.summary())
        for number, start in enumerate(range(0, len(rows), BETWEEN)):
            part = rows[start : start + BETWEEN]
            order = [part, part[::-1], part[1::2] + part[::2]][number % 3]
            if number % 40 == 39:
                self.restart()
            self.leader.inject(*order)
            with TALLY.timed():
                self.leader.drain()
        self.house.clock.advance(GAP_SECS)
        self.leader.drain()
        self.assertEqual((self.leader.held, self.leader.queue()), ([], ()))
        log = value_of(self.house.store.store.read("all", lambda tx: tx.audit.rows(1, 99_999)))
        records = [link.canonical for link in log]
        self.assertEqual(len(set(records)), len(records))
        self.assertLessEqual({row.canonical for row in rows}, set(records))
        self.assertEqual(self.house.records("audit.gap"), [])
        TALLY.tell(f"{len(rows)} good rows, 0 held")

    def test_deleted(self) -> None:
        """Rows deleted from the queue are counted as missing, and named by their numbers."""
        seen = {"missing": 0.0}
        watch = watcher(self.house, seen)
        rows = [self.proxy.first, *(self.proxy.noted() for _ in range(59))]
        self.leader.inject(*rows)
        value_of(watch.watch())
        gone = [n for n in range(2, 60) if n % 3 == 0]
        self.house.by_sql(f"DELETE FROM outbox WHERE n IN ({', '.join(map(str, gone))})")
        self.leader.drain()
        self.restart()
        self.house.clock.advance(GAP_SECS)
        self.leader.drain()
        value_of(watch.watch())
        told = [one["details"]["first_n"] for one in self.house.records("audit.gap")]
        TALLY.many(len(gone), len(told))
        self.assertEqual((told, seen["missing"]), (gone, len(gone)))
