"""`svc authority policy propose`, `review` and so on, against an Authority in memory."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.cli.authority.changes.page import replay_told, review_page
from svc.cli.authority.changes.propose import MOST_CHANGES, findings_of
from svc.errors import Malformed
from svc.model.canonical import decode
from svc.model.policy.proposal import MAX_FINDINGS
from svc.model.policy.rules import PolicyRules
from svc.proto.gate.v1 import policy_change_pb2 as pb
from tests.cli.terminal import LESS, POLICY, Authority, Outcome, terminal
from tests.support.proof import proves

HOSTILE = '<script>alert("1")</script>\x1b[2J'
MORE = POLICY + '@id("x") forbid (principal, action == Action::"view", resource is Server);\n'


def told(**changes: object) -> dict[str, object]:
    """What a replay found, as programs are told."""
    return {
        "requests": 3,
        "decided": 3,
        "changed_count": 1,
        "directions": {"allow_to_deny": 1},
        "undecidable": {"facts_erased": 1},
        "told_by": {"authority": 3, "proxy": 0},
        "entities": {"recorded": 3},
        "unasking_people": 2,
        "first_seq": 1,
        "last_seq": 9,
        "since_at": "2030-01-01T00:00:00Z",
        "unasked_actions": ["view"],
        "unasked_resources": ["db1"],
        "unused_policies": [],
        "beyond": 0,
        "changes": [change()],
        **changes,
    }


def change(person: str = "p1", policies: int = 1) -> dict[str, object]:
    return {
        "person": person,
        "name": "ada",
        "resource": "db1",
        "action": "tcpConnect",
        "decision_before": "allow",
        "policies_before": ["a" * 100] * policies,
        "decision_after": "deny",
        "policies_after": [],
        "count": 1,
        "first_seq": 2,
        "last_seq": 2,
    }


class CommandTests(SynchronousTestCase):
    """The commands of somebody without an identity, at the control socket."""

    def setUp(self) -> None:
        self.authority = Authority(rules=PolicyRules(approvals=1))
        self.config = Path(self.mktemp())

    def run_(self, *words: str, stdin: str = "") -> Outcome:
        return terminal("authority", "policy", *words, stdin=stdin.encode(), admin=self.authority)

    def proposed(self, text: str = MORE) -> str:
        done = self.run_("propose", "-", "--reason", "why", "--json", stdin=text)
        self.assertEqual(done.status, 0, done.stderr)
        return str(json.loads(done.stdout)["proposal"])

    def test_next_command(self) -> None:
        """The command to type next asks as this one was told to ask: --dir and --proxy stay."""
        way = ("--proxy", "gate:443", "--dir", "my dir")
        told = "svc authority --proxy gate:443 --dir 'my dir' policy "
        listed = terminal("authority", "policy", "review", self.proposed(), admin=self.authority)
        self.assertIn("approve it with: svc authority policy approve ", listed.stderr)
        again = terminal(
            "authority", *way, "policy", "review", self.proposed(LESS), admin=self.authority
        )
        self.assertIn(f"approve it with: {told}approve ", again.stderr)

    def test_identity_is_a_file(self) -> None:
        """Who names the directory of an identity is told which file to name."""
        self.config.mkdir()
        for word in ("approve", "reject"):
            done = self.run_(word, "ab" * 16, "--identity", str(self.config))
            self.assertEqual(done.status, 64)
            told = f"is a directory; name its client.toml: --identity {self.config}/client.toml"
            self.assertIn(told, done.stderr)

    def test_no_policy_alone(self) -> None:
        """`policy set` says what to do instead; `rollback` proposes."""
        alone = self.run_("set", "-", stdin=MORE)
        self.assertEqual(alone.status, 1)
        self.assertIn("svc authority policy propose FILE", alone.stderr)
        glass = self.run_("set", "-", "--break-glass", stdin=MORE)
        self.assertIn("policy.break_glass", glass.stderr)
        none = self.run_("rollback")
        self.assertIn("no earlier policy", none.stderr)

    def test_list_and_review(self) -> None:
        """What waits is listed; one is shown with its difference, and as a page of HTML."""
        self.assertEqual(self.run_("review").stdout, "")
        id = self.proposed()
        self.assertIn(f"{id[:12]}  open", self.run_("review").stdout)
        file = Path(self.mktemp())
        shown = self.run_("review", id[:8], "--html", str(file))
        self.assertIn('+@id("x") forbid', shown.stdout)
        self.assertIn("0 of 2", shown.stdout)
        self.assertIn("nobody knows whose access this changes", shown.stdout)
        self.assertIn(f"approve {id[:12]} --document", shown.stderr)
        self.assertIn("default-src 'none'", file.read_text())
        self.assertIn('<span class="add">+@id(&quot;x&quot;)', file.read_text())
        self.assertEqual(self.run_("review", "--html", str(file)).status, 64)
        self.assertIn("does not exist", self.run_("review", "ffff").stderr)

    def test_activate_needs_approvals(self) -> None:
        """Nothing is activated, and the refusal says what lacks."""
        done = self.run_("activate", self.proposed())
        self.assertEqual(done.status, 1)
        self.assertIn("has 0 of the 2 approvals", done.stderr)

    def test_sensitive(self) -> None:
        """A change of administrative policies says so when it is proposed."""
        done = self.run_("propose", "-", stdin=LESS)
        self.assertIn("needs 3 approval(s)", done.stdout)
        self.assertIn("removed operators-administer: security-sensitive, it concerns", done.stdout)

    def test_diff(self) -> None:
        """Two versions are compared, by default with the active one."""
        authority = Authority()
        terminal("authority", "policy", "set", "-", stdin=MORE.encode(), admin=authority)
        done = terminal("authority", "policy", "diff", "1", "--json", admin=authority)
        found = json.loads(done.stdout)
        self.assertEqual((found["from_version"], found["to_version"]), (1, 2))
        self.assertTrue([one for one in found["diff"] if one.startswith('+@id("x")')])
        same = terminal("authority", "policy", "diff", "2", "2", admin=authority)
        self.assertEqual(same.stdout, "")
        back = terminal("authority", "policy", "rollback", "--json", admin=authority)
        self.assertEqual(json.loads(back.stdout)["policy_version"], 3)

    def test_who_signs(self) -> None:
        """Without an identity nobody approves; nor does anybody without having seen it."""
        id = self.proposed()
        config = str(self.config)
        done = self.run_("approve", id, "--document", "ab" * 32, "--identity", config)
        self.assertEqual(done.status, 1)
        self.assertEqual(self.run_("reject", id, "--identity", config).status, 1)


class PageTests(SynchronousTestCase):
    """What is shown of a proposal."""

    def answer(self, **changes: object) -> pb.ReviewPolicyResponse:
        row = pb.ProposalRow(
            id="ab" * 16,
            state="open",
            parent=1,
            proposer_kind="person",
            proposer="p1",
            proposer_name=HOSTILE,
            note=HOSTILE,
            proposed_at=1,
            expires_at=2,
            needed=1,
        )
        answer = pb.ReviewPolicyResponse(
            proposal=row,
            cluster="c1.example.test",
            text=f"// {HOSTILE}\n{MORE}",
            parent_text=POLICY,
            schema_sha256="ab" * 32,
            entity_revision=3,
            replay=b"{}",
            findings=findings_of(told()),
            names={"p1": HOSTILE},
        )
        for name, value in changes.items():
            setattr(answer, name, value)
        return answer

    @proves("G-POL-03")
    def test_nothing_of_others_is_markup(self) -> None:
        """Texts, names and notes of others are escaped, for a terminal and in HTML."""
        page = review_page(self.answer())
        self.assertNotIn("\x1b", "\n".join(page.text()))
        html = page.html()
        self.assertNotIn("<script", html)
        self.assertIn("&lt;script&gt;", html)
        self.assertNotIn("\x1b", html)

    def test_every_field_is_bound(self) -> None:
        """Whatever is shown otherwise has another document."""
        one = review_page(self.answer()).document_sha256
        for name, value in (
            ("cluster", "other.example.test"),
            ("text", MORE),
            ("parent_text", MORE),
            ("schema_sha256", "cd" * 32),
            ("entity_revision", 4),
            ("replay", b"[]"),
            ("findings", findings_of(told(requests=4))),
        ):
            other = review_page(self.answer(**{name: value})).document_sha256
            self.assertNotEqual(one, other, name)
        for name, number in (("parent", 2), ("expires_at", 3), ("proposed_at", 0)):
            answer = self.answer()
            setattr(answer.proposal, name, number)
            self.assertNotEqual(one, review_page(answer).document_sha256, name)
        for name, text in (("note", "x"), ("proposer", "p2"), ("proposer_kind", "operator")):
            answer = self.answer()
            setattr(answer.proposal, name, text)
            self.assertNotEqual(one, review_page(answer).document_sha256, name)

    def test_malformed_answers(self) -> None:
        """An answer that does not hold together is refused, never half shown."""
        for changes in (
            {"findings": b"[]"},
            {"findings": b'{"requests":1}'},
            {"findings": b"{"},
            {"schema_sha256": "xy"},
        ):
            with self.assertRaises(Malformed):
                review_page(self.answer(**changes))

    def test_findings_are_bounded(self) -> None:
        """However much a replay finds, as much is told as fits, and how much more there is."""
        many = [change(f"p{number}", 16) for number in range(5000)]
        data = findings_of(told(changes=many, beyond=7))
        self.assertLessEqual(len(data), MAX_FINDINGS)
        found = decode(data, max_bytes=MAX_FINDINGS)
        assert isinstance(found, dict)
        shown = found["changes"]
        assert isinstance(shown, (list, tuple))
        self.assertLessEqual(len(shown), MOST_CHANGES)
        self.assertEqual(found["more_changes"], 5007 - len(shown))
        self.assertNotIn(b"ada", data)
        lines = replay_told(found, {})
        self.assertIn("more sorts of changes", "\n".join(lines))
