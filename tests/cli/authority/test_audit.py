"""Verifying and showing the log of a real store."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import sqlite3
from datetime import UTC, datetime
from functools import partial
from typing import Any

from attrs import evolve
from twisted.trial.unittest import TestCase

from svc.audit.checkpoint import anchor
from svc.authority.state.recorder import node
from svc.authority.state.recorder import person as person_actor
from svc.model.audit.events import (
    SESSION_ABANDONED,
    SESSION_END,
    SESSION_REFUSED,
    SESSION_START,
)
from svc.model.audit.ledger import EntitySlice
from svc.model.canonical import encode
from svc.model.cluster.person import Person
from svc.pki.root import make_cluster
from svc.policy.entities import PersonFacts, cedar_json, entity_of, slice_digest
from svc.runtime import given_file
from tests.cli.authority.logs import ANA, DECISION, LoggedPlace
from tests.cli.authority.test_members import SEEN
from tests.cli.terminal import CLUSTER, NOW
from tests.pki.support import Counted
from tests.support.proof import proves


class VerifyTests(TestCase):
    """`audit verify`."""

    async def written(self, *counts: int, within: str = "") -> LoggedPlace:
        """A place whose Authority wrote so many records between its heads, and left."""
        place = LoggedPlace(self, within=within)
        store = place.open()
        for count in counts:
            await place.fill(store, count)
        await store.close()
        return place

    def record(self, place: LoggedPlace, seq: int) -> dict[str, Any]:
        """The record of that number, as `audit show --json` gives it."""
        (found,) = json.loads(place.run("audit", "show", "--seq", str(seq), "--json").stdout)
        return dict(found)

    def broken(self, place: LoggedPlace, expected: str) -> None:
        """The log does not verify: status 6, nothing on stdout, the place of it on stderr."""
        outcome = place.run("audit", "verify")
        self.assertEqual((outcome.status, outcome.stdout), (6, ""))
        self.assertIn(expected, outcome.stderr)
        told = place.run("audit", "verify", "--json")
        self.assertEqual((told.status, told.stderr), (6, outcome.stderr))
        said = json.loads(told.stdout)
        self.assertIs(said["verified"], False)
        (finding,) = said["findings"]
        self.assertEqual(set(finding), {"seq", "kind", "text"})
        self.assertIn(str(finding["text"]), outcome.stderr)
        if found := re.search(r"record (\d+): (\w+):", expected):
            self.assertEqual((finding["seq"], finding["kind"]), (int(found[1]), found[2]))

    async def test_rows_that_cannot_be_read(self) -> None:
        """What stands behind the log and cannot be read is a fault, too; no store is told alike."""
        place = LoggedPlace(self)
        store = place.open()
        await place.introduce(store)
        form: dict[str, Any] = {
            "event": "session.end",
            "key_id": "k",
            "origin": "a" * 26,
            "spool": {"id": "0" * 32, "n": 1, "prev": "0" * 64},
        }
        record = encode(form)
        await store.run("row", lambda tx: tx.audit.append(record, signature=b"x"))
        await place.sign(store)
        await store.close()
        self.broken(place, "record 4: origin: no signed record names the key of its origin")
        with sqlite3.connect(place.store) as connection:
            connection.execute("UPDATE nodes SET name = CAST(x'ff' AS TEXT)")
        connection.close()
        self.broken(place, "the rows of nodes and their records: unreadable: OperationalError")
        place.store.unlink()
        gone = place.run("audit", "verify", "--json")
        (finding,) = json.loads(gone.stdout)["findings"]
        self.assertEqual((gone.status, finding["kind"]), (1, "store_unavailable"))

    @proves("G-CLI-08", "G-AUD-12", "G-OPEN-79", "X-17", "X-18")
    async def test_stopped_and_live(self) -> None:
        """It verifies with the Authority stopped and beside it, and changes no file."""
        place = await self.written(200, 500, 3)
        before = place.files()
        outcome = place.run("audit", "verify")
        self.assertEqual((outcome.status, outcome.stderr), (0, ""))
        head = self.record(place, 703)["hash"]
        self.assertRegex(
            outcome.stdout,
            rf"\Averified 703 records, head seq 703 hash {head}, anchor [0-9a-f]{{64}}\n\Z",
        )
        self.assertEqual(place.files(), before)
        store = place.open()
        self.addCleanup(store.close)
        await place.fill(store, 2)
        live = place.run("audit", "verify", "--json")
        self.assertEqual(live.status, 0, live.stderr)
        said = json.loads(live.stdout)
        self.assertEqual((said["records"], said["anchored"]), (705, 705))
        self.assertEqual((said["verified"], said["findings"]), (True, []))

    async def test_in_all(self) -> None:
        """The log of `svc all` is found with the same configuration."""
        place = await self.written(2, within="authority")
        self.assertIn("verified 2 records", place.run("audit", "verify").stdout)

    async def test_root_of_the_key_directory(self) -> None:
        """Where no root is pinned, that of the key directory is the trust."""
        place = await self.written(2)
        (place.state / "keys").mkdir(mode=0o700)
        shutil.move(place.state / "trust" / "root.pem", place.state / "keys" / "root.pem")
        self.assertEqual(place.run("audit", "verify").status, 0)

    @proves("G-AUD-02", "G-OPEN-79")
    async def test_one_flipped_byte(self) -> None:
        """One byte changed in the file is found, and the record it is in is named."""
        place = await self.written(40)
        marked = self.record(place, 17)["event_id"].encode()
        place.flip(lambda data: data.rindex(marked) + 20)
        self.broken(place, "audit log: record 17: hash:")

    @proves("G-OPEN-79")
    async def test_record_that_cannot_be_read(self) -> None:
        """A byte that makes a record no text is a fault of that record; a bad page of its first."""
        place = await self.written(40)
        marked = self.record(place, 23)["event_id"].encode()
        place.flip(lambda data: data.rindex(marked) + 20, b"\xff")
        self.broken(place, "audit log: record 23: hash")
        page = 4096
        place.flip(lambda data: data.rindex(marked[:20]) // page * page, b"\xff")
        self.broken(place, ": unreadable: the store is not a readable SQLite database")

    async def test_damaged_file(self) -> None:
        """A store file of rubbish ends the command with a text, not a traceback."""
        place = await self.written(3)
        place.store.write_bytes(b"\x07" * place.store.stat().st_size)
        outcome = place.run("audit", "verify")
        self.assertEqual((outcome.status, outcome.stdout), (6, ""))

    @proves("G-AUD-02")
    async def test_edited_by_sql(self) -> None:
        """A record removed, the newest cut off, two exchanged: each is found by its place."""
        for statement, expected in (
            ("DELETE FROM audit_log WHERE seq = 5", "record 5: gap"),
            ("DELETE FROM audit_log WHERE seq > 8", "record 9: head_beyond_end"),
            ("UPDATE audit_log SET hash = zeroblob(32) WHERE seq = 7", "record 7: hash"),
        ):
            place = await self.written(10)
            with sqlite3.connect(place.store) as connection:
                for (trigger,) in connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'trigger'"
                ).fetchall():
                    connection.execute(f'DROP TRIGGER "{trigger}"')
                connection.execute(statement)
            connection.close()
            self.broken(place, expected)

    @proves("G-AUD-13", "U-BAK-05")
    async def test_store_alone_proves_nothing(self) -> None:
        """Without the anchor or the root nothing verifies, and the text says what lacks."""
        place = await self.written(4)
        shutil.move(place.state / "anchor", place.base / "away")
        self.broken(place, "no_anchor")
        shutil.move(place.base / "away", place.state / "anchor")
        shutil.rmtree(place.state / "trust")
        self.broken(place, f"neither {place.state}/trust/root.pem nor {place.state}/keys/root.pem")

    async def test_another_cluster(self) -> None:
        """Heads signed under another root of the same name do not verify."""
        place = LoggedPlace(self)
        store = place.open()
        await place.fill(store, 1)
        await place.fill(store, 1, make_cluster(CLUSTER, lambda: NOW, Counted()))
        await store.close()
        self.broken(place, "head_signature")

    async def test_no_store(self) -> None:
        """Where there is no store the command says so, and makes none."""
        place = LoggedPlace(self)
        place.store.unlink()
        before = place.files()
        outcome = place.run("audit", "verify")
        self.assertEqual((outcome.status, outcome.stdout), (1, ""))
        self.assertIn("does not exist", outcome.stderr)
        self.assertEqual(place.files(), before)

    @proves("G-OPEN-79", "G-AUD-13")
    async def test_anchor_kept_elsewhere(self) -> None:
        """A store behind a head that somebody kept is found, whatever our own anchor says."""
        place = await self.written(10, 5)
        kept = place.base / "kept.json"
        shutil.copy(place.state / "anchor" / "latest", kept)
        self.assertEqual(place.run("audit", "verify", "--anchor", str(kept)).status, 0)
        # Both the store and its anchor are of yesterday, so nothing in them contradicts.
        older = await self.written(10)
        shutil.copytree(older.state, place.state, dirs_exist_ok=True)
        self.assertIn("verified 10 records", place.run("audit", "verify").stdout)
        for path, expected in (
            (kept, "record 11: head_beyond_end"),
            (place.base / "none", "No such file"),
            (place.config, "head_unreadable"),
        ):
            outcome = place.run("audit", "verify", "--anchor", str(path))
            self.assertEqual((outcome.status, outcome.stdout), (6, ""))
            self.assertIn(expected, outcome.stderr)

    async def test_anchor_without_a_head(self) -> None:
        """A file that holds no head proves nothing: it is refused, and not passed over."""
        place = await self.written(3)
        empty, blank = place.base / "empty", place.base / "blank"
        empty.write_bytes(b"")
        blank.write_bytes(b"\n  \n\n")
        for path, expected in (
            (empty, f"{empty}: it contains no signed head"),
            (blank, f"{blank}: it contains no signed head"),
            ("/dev/null", "/dev/null: is neither a file nor a pipe"),
            (place.base, "is neither a file nor a pipe"),
        ):
            outcome = place.run("audit", "verify", "--anchor", str(path))
            self.assertEqual((outcome.status, outcome.stdout), (6, ""))
            self.assertIn(
                f"audit anchor: {expected}" if "/" in expected else expected, outcome.stderr
            )

    async def test_anchor_of_a_pipe(self) -> None:
        """Heads that another command writes are taken; a pipe that stays silent is refused."""
        place = await self.written(10, 5)
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        os.write(writing, (place.state / "anchor" / "latest").read_bytes())
        os.close(writing)
        outcome = place.run("audit", "verify", "--anchor", f"/dev/fd/{reading}")
        self.assertEqual((outcome.status, outcome.stderr), (0, ""))
        self.patch(given_file, "WAIT_SECS", 0.05)
        silent = place.base / "silent"
        os.mkfifo(silent)
        for words in (
            ("audit", "verify", "--anchor", str(silent)),
            ("audit", "adopt", "--head", str(silent)),
        ):
            outcome = place.run(*words)
            self.assertEqual((outcome.status, outcome.stdout), (6, ""))
            self.assertIn("is a pipe, and nothing came through it for 0.05 s", outcome.stderr)

    async def test_anchor_of_a_long_pipe(self) -> None:
        """One that brings more than is read is refused, not cut; a file as long is read whole."""
        place = await self.written(3, 4, 5, 6)
        heads = place.state / "anchor" / "heads.jsonl"
        first = len(heads.read_bytes().splitlines(keepends=True)[0])
        self.patch(anchor, "MAX_PIPED", first + 300)
        for words in (("audit", "verify", "--anchor"), ("audit", "adopt", "--head")):
            reading, writing = os.pipe()
            self.addCleanup(os.close, reading)
            os.write(writing, heads.read_bytes())
            os.close(writing)
            outcome = place.run(*words, f"/dev/fd/{reading}")
            self.assertEqual((outcome.status, outcome.stdout), (6, ""))
            self.assertIn(" MiB; give a file, not a pipe", outcome.stderr)
        self.assertEqual(place.run("audit", "verify", "--anchor", str(heads)).status, 0)

    async def decided(self) -> LoggedPlace:
        """A place whose Authority has decided over two slices of entities."""
        place = LoggedPlace(self)
        store = place.open()
        for person in (ANA, Person("q" * 26, "bob")):
            entities = (entity_of(PersonFacts(person.id, person.name)),)
            kept = EntitySlice(slice_digest(entities), cedar_json(entities))

            def append(tx: Any, who: str = person.id, kept: EntitySlice = kept) -> None:
                place.writes.append(
                    tx,
                    SESSION_START,
                    person_actor(who),
                    decision="allow",
                    entities_digest=kept.digest,
                    entities=kept,
                )

            await store.run("decide", append)
        await place.sign(store)
        await store.close()
        return place

    async def test_entities_beside_the_log(self) -> None:
        """The entities a decision was made over are those it names, all of them and no others."""
        place = await self.decided()
        self.assertEqual(place.run("audit", "verify").status, 0)
        for statement, expected in (
            (
                "UPDATE entity_slices SET text = replace(text, 'ana', 'eva')",
                "record 1: slice_changed",
            ),
            ("UPDATE entity_slices SET text = replace(text, ',', ', ')", ": slice_changed"),
            ("DELETE FROM entity_slices WHERE text LIKE '%bob%'", "record 2: slice_missing"),
            ("INSERT INTO entity_slices VALUES ('f', '[]')", "entities f: slice_orphaned"),
        ):
            place = await self.decided()
            with sqlite3.connect(place.store) as connection:
                connection.execute(statement)
            connection.close()
            self.broken(place, expected)


class ShowTests(TestCase):
    """`audit show`."""

    async def introduced(self) -> LoggedPlace:
        """A place with records of an operator, a person and a node."""
        place = LoggedPlace(self)
        store = place.open()
        await place.introduce(store)
        await store.close()
        return place

    @proves("G-OPEN-10")
    async def test_by_decision(self) -> None:
        """Every record of a decision is shown, with the names their actors have today."""
        place = await self.introduced()
        shown = place.run("audit", "show", DECISION, "--long")
        self.assertEqual((shown.status, shown.stderr), (0, ""))
        self.assertIn(f"actor.name         {pwd.getpwuid(os.geteuid()).pw_name}\n", shown.stdout)
        self.assertIn(f"actor.name              {ANA.name}\n", shown.stdout)
        self.assertEqual(shown.stdout.count("decision_id"), 2)

    async def test_peers_text_is_escaped(self) -> None:
        """What a peer said reaches no terminal as it is, in neither form."""
        place = await self.introduced()
        for form in ((), ("--long",), ("--json",)):
            shown = place.run("audit", "show", DECISION, *form)
            self.assertEqual(shown.status, 0, shown.stderr)
            self.assertIn("owned", shown.stdout)
            for mark in ("\x1b", "\x07", "\u202e"):
                self.assertNotIn(mark, shown.stdout)

    async def test_by_number_and_newest(self) -> None:
        """One record by its number; the newest by their count, oldest first, in one document."""
        place = await self.introduced()
        (third,) = json.loads(place.run("audit", "show", "--seq", "3", "--json").stdout)
        self.assertEqual(third["actor"], {"kind": "node", "id": SEEN.id, "name": SEEN.name})
        last = json.loads(place.run("audit", "show", "--last", "2", "--json").stdout)
        self.assertEqual([each["seq"] for each in last], [2, 3])
        self.assertEqual(len(json.loads(place.run("audit", "show", "--json").stdout)), 3)

    async def test_a_line_each(self) -> None:
        """By default a record is one line: when, which, what, who, where and why."""
        place = await self.introduced()
        shown = place.run("audit", "show")
        self.assertEqual((shown.status, shown.stderr), (0, ""))
        heads, *lines = shown.stdout.splitlines()
        self.assertEqual(
            heads.split(),
            ["TIME", "SEQ", "EVENT", "WHAT", "WHO", "ABOUT", "SESSION", "REASON"],
        )
        local = f"operator {pwd.getpwuid(os.geteuid()).pw_name}"
        for line, seq, words in zip(
            lines,
            (1, 2, 3),
            (
                ("operator.refused", local),
                ("enroll.refused", "ana"),
                ("enroll.refused", f"node {SEEN.name}"),
            ),
            strict=True,
        ):
            self.assertRegex(line, rf"\A20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ +{seq}  {words[0]} ")
            self.assertIn(words[1], line)
        self.assertEqual(len(place.run("audit", "show", "--last", "2").stdout.splitlines()), 3)

    async def sessions(self) -> LoggedPlace:
        """A place with sessions of two people on two resources, an hour apart."""
        place = LoggedPlace(self)
        store = place.open()
        bob = Person("q" * 26, "bob")

        def people(tx: Any) -> None:
            for one in (ANA, bob):
                tx.people.add(one, NOW)

        await store.run("people", people)
        for n, (who, resource, event, word) in enumerate(
            (
                (ANA, "db1", SESSION_START, "allow"),
                (bob, "db1", SESSION_REFUSED, "deny"),
                (ANA, "web", SESSION_START, "allow"),
            )
        ):
            writes = evolve(place.writes, now=partial(float, NOW + n * 3600))

            def append(
                tx: Any, w: Any = writes, who: Person = who, what: Any = (resource, event, word, n)
            ) -> None:
                w.append(
                    tx,
                    what[1],
                    person_actor(who.id),
                    resource_id=what[0],
                    decision=what[2],
                    session_uid=f"{what[3] + 10:032x}"[::-1],
                    decision_id=f"{what[3]:032x}",
                )

            await store.run("session", append)
        await place.sign(store)
        await store.close()
        return place

    async def test_filters(self) -> None:
        """Records are found by person, resource, event, decision, session and time, combined."""
        place = await self.sessions()
        later = datetime.fromtimestamp(NOW + 3600, UTC)
        for words, expected in (
            (("--person", "ana"), [1, 3]),
            (("--person", "q" * 26), [2]),
            (("--person", "nobody"), []),
            (("--resource", "db1"), [1, 2]),
            (("--event", "session"), [1, 2, 3]),
            (("--event", "session.refused"), [2]),
            (("--decision", "allow"), [1, 3]),
            (("--decision", f"{1:032x}"), [2]),
            (("--session", "b0"), [2]),
            (("--since", later.isoformat()), [2, 3]),
            (("--until", later.strftime("%Y-%m-%dT%H:%M:%SZ")), [1]),
            (("--since", later.isoformat(), "--person", "ana"), [3]),
            (("--person", "ana", "--last", "1"), [3]),
        ):
            shown = place.run("audit", "show", *words, "--json")
            self.assertEqual(shown.status, 0, shown.stderr)
            self.assertEqual([each["seq"] for each in json.loads(shown.stdout)], expected, words)
        empty = place.run("audit", "show", "--person", "nobody")
        self.assertEqual((empty.stdout, empty.stderr), ("", "no matching records\n"))
        for word in ("yesterday", "2h ago", "2026-13-01"):
            refused = place.run("audit", "show", "--since", word)
            self.assertEqual((refused.status, refused.stdout), (64, ""))
            self.assertIn("a time ago (90s, 30m, 2h, 7d) or a date", refused.stderr)

    async def test_ends_by_person(self) -> None:
        """A person's records include the ends of their sessions, which a node tells."""
        place = await self.sessions()
        store = place.open()

        def append(tx: Any) -> None:
            for decision, event in ((0, SESSION_END), (1, SESSION_END), (2, SESSION_ABANDONED)):
                place.writes.append(
                    tx, event, node("n" * 26), reason="closed", decision_id=f"{decision:032x}"
                )

        await store.run("ends", append)
        await store.close()
        for person, expected in (("ana", [1, 3, 4, 6]), ("bob", [2, 5])):
            shown = place.run("audit", "show", "--person", person, "--json")
            self.assertEqual([each["seq"] for each in json.loads(shown.stdout)], expected)

    async def test_no_such_event(self) -> None:
        """A word that is no event is refused as usage, and the nearest is named."""
        place = await self.sessions()
        for word, near in (("session.ended", "session.end"), ("sess", "session")):
            refused = place.run("audit", "show", "--event", word)
            self.assertEqual((refused.status, refused.stdout), (64, ""))
            self.assertIn(f"the nearest is {near}\n", refused.stderr)
        self.assertEqual(place.run("audit", "show", "--event", "session.").status, 0)

    async def test_damaged_record(self) -> None:
        """A record that is unreadable, altered or missing is marked; the others are shown."""
        place = await self.introduced()
        place.flip(lambda data: data.rindex(b"local:"), b"\xff")
        shown = place.run("audit", "show")
        self.assertEqual((shown.status, len(shown.stdout.splitlines())), (0, 4))
        self.assertIn("DAMAGED: no record", shown.stdout)
        self.assertIn(f"run: svc --config {place.config} authority audit verify", shown.stderr)
        for statement, expected in (
            (
                "UPDATE audit_log SET canonical = replace(canonical, 'roll', 'rolL') WHERE seq = 2",
                {"seq": 2, "damaged": "the record differs from the one that was hashed"},
            ),
            (
                "DELETE FROM audit_log WHERE seq < 3",
                {"seq": 1, "damaged": "missing", "last_seq": 2},
            ),
        ):
            place = await self.introduced()
            with sqlite3.connect(place.store) as connection:
                for (trigger,) in connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'trigger'"
                ).fetchall():
                    connection.execute(f'DROP TRIGGER "{trigger}"')
                connection.execute(statement)
            connection.close()
            for form in (("--json",), ("--json", "--person", "nobody", "--event", "session")):
                found = json.loads(place.run("audit", "show", *form).stdout)
                told = [each for each in found if "damaged" in each]
                if told or form == ("--json",):
                    self.assertEqual(
                        [{name: each[name] for name in expected} for each in told], [expected]
                    )
            self.assertIn("DAMAGED", place.run("audit", "show").stdout)

    async def test_unreadable_by_its_number(self) -> None:
        """One that is asked for by number or decision, and cannot be read, is marked as well."""
        page = 4096
        place = await self.introduced()
        for change in (
            "UPDATE personal_values SET value = CAST(x'ff' AS TEXT)",
            "UPDATE audit_log SET canonical = replace(canonical, 'local:', CAST(x'ff' AS TEXT))",
        ):
            with sqlite3.connect(place.store) as connection:
                connection.execute(change)
            connection.close()
            self.marked(place, "--seq", "2" if "personal" in change else "1")
            self.marked(place, DECISION)
        # The first page of the table is gone; the end is on another.
        place = await self.introduced()
        store = place.open()
        await place.fill(store, 40)
        await store.close()
        place.flip(lambda data: data.rindex(b"local:") // page * page, b"\xff")
        for seq in ("1", "2"):
            self.marked(place, "--seq", seq)
        self.marked(place, DECISION)
        self.assertEqual(place.run("audit", "show", "--seq", "43").status, 0)
        self.assertEqual(place.run("audit", "show", "--seq", "44").status, 1)

    def marked(self, place: LoggedPlace, *words: str) -> None:
        """What is shown is marked as damaged, in each form."""
        for form in ((), ("--long",), ("--json",)):
            shown = place.run("audit", "show", *words, *form)
            self.assertEqual(shown.status, 0, shown.stderr)
            self.assertIn("damaged", shown.stdout.lower(), (words, form))
            self.assertIn(f"run: svc --config {place.config} authority audit verify", shown.stderr)

    async def test_unknown(self) -> None:
        """A decision or a number that is not there is told, with status 1."""
        place = await self.introduced()
        for words in ((("0" * 32),), ("--seq", "4")):
            outcome = place.run("audit", "show", *words)
            self.assertEqual((outcome.status, outcome.stdout), (1, ""))
            self.assertIn("audit log: ", outcome.stderr)

    async def test_empty_log(self) -> None:
        """An empty log is an empty document, or a word on stderr."""
        place = LoggedPlace(self)
        self.assertEqual(place.run("audit", "show", "--json").stdout, "[]\n")
        shown = place.run("audit", "show")
        self.assertEqual((shown.stdout, shown.stderr, shown.status), ("", "the log is empty\n", 0))
