"""`svc authority policy replay`, of a log on disk and an Authority in memory."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from twisted.internet.defer import Deferred

from svc.authority.state.recorder import person
from svc.model.audit.events import SESSION_START
from svc.model.audit.ledger import EntitySlice
from svc.model.policy.access import AccessRequest, EntityUid
from svc.policy.entities import (
    GroupFacts,
    PersonFacts,
    ResourceFacts,
    cedar_json,
    entity_of,
    slice_digest,
)
from svc.store.sqlite.factory import SqliteFactory
from tests.cli.authority.test_catalog import TerminalTests
from tests.cli.authority.test_members import SEEN
from tests.cli.terminal import POLICY

ACTIVE = (
    POLICY
    + '@id("ops") permit (principal in Group::"ops", action == Action::"tcpConnect", resource);'
)
CANDIDATE = (
    ACTIVE + '@id("by-day") forbid (principal, action == Action::"tcpConnect", resource)'
    " when { context has hour && context.hour > 18 };"
)
SINCE = ("--since", "2030-03-17")


class PolicyReplayTests(TerminalTests):
    """`policy replay`."""

    def setUp(self) -> None:
        super().setUp()
        self.authority.change(lambda tx: tx.nodes.register(SEEN))
        for words in (
            ("groups", "add", "ops"),
            ("persons", "add", "ana", "--group", "ops"),
            ("resources", "add", "db", "--kind", "tcp", "--node", SEEN.name),
            ("resources", "add", "other", "--kind", "tcp", "--node", SEEN.name),
        ):
            self.assertEqual(self.run_it(*words).status, 0)
        self.assertEqual(self.run_it("policy", "set", "-", stdin=ACTIVE.encode()).status, 0)
        (self.ana,) = json.loads(self.run_it("persons", "list", "--json").stdout)

    def opened(self, *hours: int) -> None:
        """Sessions that were opened, as Authority records them; then the log is on disk."""
        entities = [
            entity_of(PersonFacts(self.ana["id"], "ana", ("ops",))),
            entity_of(GroupFacts("ops")),
            entity_of(ResourceFacts("db", "TcpService", "tcp")),
        ]
        digest = slice_digest(entities)

        def append(tx: Any) -> None:
            for hour in hours:
                request = AccessRequest(
                    request_kind="connect",
                    principal=EntityUid("User", self.ana["id"]),
                    action="tcpConnect",
                    resource=EntityUid("TcpService", "db"),
                    context={"hour": hour},
                )
                self.authority.writes.append(
                    tx,
                    SESSION_START,
                    person(self.ana["id"]),
                    request=request,
                    decision="allow",
                    policies=("ops",),
                    policy_version=2,
                    entities_digest=digest,
                    entities=EntitySlice(digest, cedar_json(entities)),
                )

        self.settle(self.authority.store.run("open", append))
        self.write_log()

    def settle(self, running: Any) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(running))

    def write_log(self) -> None:
        """The Authority's log and names as a file, where the command reads them."""
        self.place.store.unlink(missing_ok=True)
        SqliteFactory().migrate(self.place.url, "test", lambda: 0.0, lambda: 0.0)
        look = self.authority.store.read
        rows = self.settle(look("rows", lambda tx: tx.audit.rows(1, 1000)))
        slices = self.settle(look("slices", lambda tx: tx.audit.slices("", 1000)))
        policies = self.settle(look("policies", lambda tx: tx.policies.history(1000)))
        with sqlite3.connect(self.place.store) as kept:
            kept.executemany(
                "INSERT INTO audit_log (seq, prev_hash, hash, canonical) VALUES (?, ?, ?, ?)",
                [(row.seq, row.prev_hash, row.hash, row.canonical.decode()) for row in rows],
            )
            kept.executemany(
                "INSERT INTO entity_slices (digest, text) VALUES (?, ?)",
                [(one.digest, one.text) for one in slices],
            )
            kept.executemany(
                "INSERT INTO policy_versions (version, text, sha256, author, created_at,"
                " activated_at) VALUES (?, ?, ?, ?, 1, 1)",
                [(one.version, one.text, one.sha256, one.author) for one in reversed(policies)],
            )
        kept.close()

    def replayed(self, text: str = CANDIDATE, *more: str) -> Any:
        done = self.run_it("policy", "replay", "-", *SINCE, "--json", *more, stdin=text.encode())
        self.assertEqual(done.status, 0, done.stderr)
        return json.loads(done.stdout)

    def set_bound(self, replay: str, text: str = CANDIDATE) -> Any:
        words = ("policy", "set", "-", "--require-replay", replay)
        return self.run_it(*words, stdin=text.encode())

    def test_what_would_change(self) -> None:
        """It prints what would change, by whom and by which policies, and what the log covers."""
        self.opened(9, 20, 21)
        done = self.run_it("policy", "replay", "-", *SINCE, stdin=CANDIDATE.encode())
        self.assertEqual(done.status, 0, done.stderr)
        for told in (
            "3 requests since 2030-03-17T00:00:00Z",
            "3 decided again, 2 otherwise\n  2 deny instead of allow\n",
            "allow by ops",
            "deny by by-day",
            "3 decided by Authority",
            "never exercised: actions ",
            "policies of FILE that decided nothing: operators-administer",
        ):
            self.assertIn(told, done.stdout)
        found = self.replayed()
        self.assertEqual(found["directions"], {"allow_to_deny": 2})
        self.assertEqual(found["entities"], {"recorded": 3, "of_opening": 0, "missing": 0})
        self.assertTrue(done.stdout.endswith(f"\nreplay {found['replay']}\n"))
        self.assertEqual(self.replayed(ACTIVE)["changed_count"], 0)
        self.assertEqual(self.replayed(CANDIDATE, "--until", "2030-03-17")["requests"], 0)

    def test_bound(self) -> None:
        """A text is activated with its replay on record, as long as that still holds."""
        self.opened(9, 20)
        replay = self.replayed()["replay"]
        self.opened(10, 23)  # requests since then of the sorts that it showed
        done = self.set_bound(replay)
        self.assertEqual(done.status, 0, done.stderr)
        record = self.records()[-1]
        self.assertEqual(record["event"], "policy.activate")
        self.assertEqual(record["details"]["replay_digest"], replay.rpartition(".")[2])
        self.assertEqual(record["details"]["replay_last"], int(replay.split(".")[3]))

    def test_outdated(self) -> None:
        """It is refused for another text, another active policy, a log that moved, or no name."""
        self.opened(9)
        replay = self.replayed()["replay"]
        other = self.set_bound(replay, ACTIVE + CANDIDATE[len(ACTIVE) :].replace("18", "8"))
        self.assertEqual(other.status, 1)
        self.assertIn("it finds something else now", other.stderr)
        self.opened(20)  # nothing of this sort was there
        moved = self.set_bound(replay)
        self.assertEqual(moved.status, 1)
        self.assertIn("requests since then would be decided otherwise, too: records", moved.stderr)
        replay = self.replayed()["replay"]
        between = (ACTIVE + "// again\n").encode()
        self.assertEqual(self.run_it("policy", "set", "-", stdin=between).status, 0)
        # The file still has the version before: what is in force is the Authority's to say.
        self.assertIn("another policy was activated since", self.set_bound(replay).stderr)
        self.write_log()
        self.assertIn("it finds something else now", self.set_bound(replay).stderr)
        self.assertEqual(self.set_bound("r1.x").status, 64)

    def test_refused(self) -> None:
        """A text that could not be activated is refused, and so is who may not read the log."""
        self.write_log()
        bad = self.run_it("policy", "replay", "-", *SINCE, stdin=b"permit (")
        self.assertEqual(bad.status, 1)
        self.assertIn("line 1, column", bad.stderr)
        forbids = '@id("f") forbid (principal, action == Action::"viewAudit", resource);'
        self.run_it("policy", "set", "-", stdin=(ACTIVE + forbids).encode())
        denied = self.run_it("policy", "replay", "-", *SINCE, stdin=CANDIDATE.encode())
        self.assertIn("does not let this operator viewAudit", denied.stderr)
        when = self.run_it("policy", "replay", "-", "--since", "then", stdin=CANDIDATE.encode())
        self.assertEqual(when.status, 64)

    def test_altered_log(self) -> None:
        """A log that is no chain is not replayed."""
        self.opened(9, 20)
        with sqlite3.connect(self.place.store) as kept:
            kept.execute(
                "UPDATE audit_log SET canonical = replace(canonical, 'hour\":20', 'hour\":10')"
            )
        kept.close()
        done = self.run_it("policy", "replay", "-", *SINCE, stdin=CANDIDATE.encode())
        self.assertEqual(done.status, 6, done.stderr)
