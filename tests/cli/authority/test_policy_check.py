"""`svc authority policy check`, at an Authority in memory."""

from __future__ import annotations

import json

from contrib.reference.json_names import unknown
from tests.cli.authority.test_catalog import TerminalTests
from tests.cli.authority.test_members import SEEN
from tests.cli.terminal import POLICY
from tests.support.proof import proves

TEXT = (
    POLICY
    + """
@id("ops-by-day") @reason("office hours only")
permit (principal in Group::"ops", action == Action::"tcpConnect", resource)
when { context has hour && context.hour >= 8 && context.hour < 18 };
@id("from-inside")
permit (principal, action == Action::"tcpConnect", resource)
when { context has proxy_reported && context.proxy_reported has source_address
       && context.proxy_reported.source_address.isInRange(ip("10.0.0.0/8")) };
"""
)
ASK = ("--as", "ana", "--action", "tcpConnect", "--resource", "db")


class PolicyCheckTests(TerminalTests):
    """`policy check`."""

    def setUp(self) -> None:
        super().setUp()
        self.authority.change(lambda tx: tx.nodes.register(SEEN))
        for words in (
            ("groups", "add", "ops"),
            ("persons", "add", "ana", "--group", "ops"),
            ("resources", "add", "db", "--kind", "tcp", "--node", SEEN.name),
        ):
            self.assertEqual(self.run_it(*words).status, 0)

    @proves("G-OPEN-57", "U-NOTE-34")
    def test_valid_or_not(self) -> None:
        """A text is valid or refused with its place, as setting it would; nothing changes."""
        before = len(self.records())
        good = self.run_it("policy", "check", "-", stdin=TEXT.encode())
        self.assertEqual(good.status, 0, good.stderr)
        self.assertRegex(good.stdout, r"\Athe policy is valid, sha256 [0-9a-f]{64}\n\Z")
        for text, reason, place in (
            ("\npermit (", "policy_invalid", "line 2, column 9"),
            (TEXT.replace("hour < 18", "hours < 18"), "policy_invalid", "policy ops-by-day: line"),
            ('@id("x") permit (principal is User, action, resource);', "policy_locks_out", "add: "),
            (
                TEXT + '@id("no") forbid (principal, action == Action::"editPolicy", resource);',
                "policy_locks_out",
                "; forbidden by: no",
            ),
        ):
            bad = self.run_it("policy", "check", "-", "--json", stdin=text.encode())
            self.assertEqual(bad.status, 1)
            self.assertIn(place, bad.stderr)
            found = json.loads(bad.stdout)
            self.assertEqual((found["valid"], found["reason"]), (False, reason))
        self.assertEqual(len(self.records()), before)

    def test_what_would_be_decided(self) -> None:
        """With a request it says what would be decided, why, and what was missing."""
        asked = self.run_it("policy", "check", "-", *ASK, "--fact", "hour=9", stdin=TEXT.encode())
        self.assertEqual(asked.status, 0, asked.stderr)
        self.assertIn("the policy would allow it\n  by ops-by-day: office hours only", asked.stdout)
        self.assertIn("request does not have: proxy_reported\n", asked.stdout)
        words = ("policy", "check", "-", *ASK, "--fact", "hour=20", "--json")
        denied = self.run_it(*words, stdin=TEXT.encode())
        self.assertEqual(denied.status, 2)
        found = json.loads(denied.stdout)
        self.assertEqual(list(unknown(found)), [])
        self.assertEqual((found["decision"], found["policies"]), ("deny", []))
        self.assertEqual(found["considered"], ["from-inside", "ops-by-day"])
        self.assertEqual(found["missing_facts"], ["proxy_reported"])
        self.assertEqual([one.partition("=")[0] for one in found["assumed"]], ["now", "weekday"])

    def test_with_an_approved_request(self) -> None:
        """What an approval would turn is asked with one, and so is who may approve."""
        text = TEXT.replace("has hour && context.hour >= 8 && context.hour < 18", "has hour") + (
            '@id("by-request") @requestable permit (principal, action == Action::"tcpConnect",'
            " resource) when { context has approved_request };"
            '@id("approves") permit (principal in Group::"ops", action == Action::"approveAccess",'
            " resource);"
            '@id("by-text") @requestable permit (principal, action == Action::"tcpConnect",'
            " resource) when"
            " { context has approved_request && context.approved_request has exact };"
        )
        asking = ("policy", "check", "-", "--as", "ana", "--resource", "db")
        approved = ("--action", "tcpConnect", "--fact", "approved_request.id=any")
        exact = ("--action", "tcpConnect", "--fact", "approved_request.exact=true")
        approving = ("--action", "approveAccess", "--fact", "requested_action=tcpConnect")
        for words, policy in (
            (approved, "by-request"),
            (exact, "by-text"),
            (approving, "approves"),
        ):
            asked = self.run_it(*asking, *words, stdin=text.encode())
            self.assertEqual(asked.status, 0, asked.stderr)
            self.assertIn(policy, asked.stdout.partition("  policies whose")[0])
        bare = self.run_it(*asking, "--action", "tcpConnect", "--fact", "approved_request=1")
        self.assertIn("give its parts: approved_request.id", bare.stderr)

    def test_the_active_policy(self) -> None:
        """Without a file it asks the policy in force, for operators too."""
        asked = self.run_it("policy", "check", *ASK)
        self.assertEqual(asked.status, 2)
        self.assertIn("policy version 1 would deny it\n  by default", asked.stdout)
        words = ("--as", "local:1000", "--action", "editPolicy")
        self.assertIn("by operators-administer", self.run_it("policy", "check", *words).stdout)

    def test_what_cannot_be_asked(self) -> None:
        """Whoever and whatever is not there is refused by name, with what to type next."""
        for words, status, told in (
            (("--as", "bob", *ASK[2:]), 1, "persons list"),
            ((*ASK[:-1], "nope"), 1, "resources list"),
            ((*ASK[:-2],), 1, "--resource"),
            (("--as", "ana", "--action", "tcpConect", "--resource", "db"), 1, "tcpConnect"),
            ((*ASK[:2], "--action", "dbQuery", "--resource", "db"), 1, "not for User on"),
            ((*ASK, "--fact", "hours=1"), 1, "nearest is hour"),
            ((*ASK, "--fact", "hours"), 64, "NAME=VALUE"),
            (("--as", "ana"), 64, "both of them"),
            ((), 64, "FILE"),
        ):
            done = self.run_it("policy", "check", *words)
            self.assertEqual(done.status, status, done.stderr)
            self.assertIn(told, done.stderr)

    def test_who_may_ask(self) -> None:
        """What somebody may do is told only to who may read policies and the log."""
        for lacking, words, status in (
            ("viewAudit", ASK, 1),
            ("viewAudit", ("-",), 0),
            ("viewPolicy", ("-",), 1),
        ):
            forbids = f'@id("f") forbid (principal, action == Action::"{lacking}", resource);'
            text = (TEXT + forbids).encode()
            self.assertEqual(self.run_it("policy", "set", "-", stdin=text).status, 0)
            done = self.run_it("policy", "check", *words, stdin=TEXT.encode())
            self.assertEqual(done.status, status, done.stderr)
            if status:
                self.assertIn(f"does not let this operator {lacking}", done.stderr)
