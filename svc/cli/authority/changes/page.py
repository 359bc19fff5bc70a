"""A proposed policy as a page: the same sections as text for a terminal and as one HTML file.

What is shown here is what an approval binds (ADR 45), so nothing on the page is taken from
anywhere but the answer that the digest is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from html import escape
from typing import Any

from attrs import frozen

from svc.cli.output import moment, pairs, table
from svc.errors import Malformed
from svc.model.canonical import decode
from svc.model.policy.approval import document_digest
from svc.model.policy.proposal import MAX_FINDINGS, Proposal, ProposalState
from svc.model.policy.rules import Sensitive
from svc.proto.gate.v1 import policy_change_pb2 as pb
from svc.telemetry.escape import escaped

SHOWN = 50

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em}"
    "pre{background:#f4f4f4;padding:.8em;overflow-x:auto}h2{margin-top:1.6em}"
    ".add{background:#dff5e1}.del{background:#fbe3e4}"
)


@frozen
class PageSection:
    """A heading and the lines below it."""

    title: str
    lines: Sequence[str]


@frozen
class ReviewPage:
    """One proposal, ready to be shown.

    Attributes:
        document_sha256: What an approval of it signs.
    """

    proposal: Proposal
    document_sha256: bytes
    sections: tuple[PageSection, ...]

    def text(self) -> list[str]:
        """For a terminal."""
        lines: list[str] = []
        for one in self.sections:
            lines += ["", one.title, *one.lines] if lines else [one.title, *one.lines]
        return lines

    def html(self) -> str:
        """One static page: no script, nothing from elsewhere, every text escaped."""
        title = f"Policy proposal {self.proposal.id}"
        body = "".join(
            f"<h2>{escape(one.title)}</h2>\n<pre>{chr(10).join(map(_html_line, one.lines))}</pre>\n"
            for one in self.sections
        )
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
            f"<h1>{escape(title)}</h1>\n{body}</body>\n</html>\n"
        )


_BY_PROPOSER = "as the proposer's replay found; `policy review --replay` runs it again"
_CONFIRMED = {
    None: _BY_PROPOSER,
    True: "run again here: it finds the same",
    False: "run again here: it does NOT find this",
}


def review_page(answer: pb.ReviewPolicyResponse, confirmed: bool | None = None) -> ReviewPage:
    """The page of an answer.

    Args:
        confirmed: Whether the replay found the same here; None: it was not run.

    Raises:
        Malformed: the answer does not hold together.
    """
    proposal = shown_proposal(answer)
    row = answer.proposal
    findings = decode(answer.findings, max_bytes=MAX_FINDINGS) if answer.findings else None
    if findings is not None and not isinstance(findings, Mapping):
        raise Malformed("policy proposal: what its replay found is malformed")
    document = document_digest(proposal.document(answer.cluster))
    source = [] if findings is None else [_CONFIRMED[confirmed]]
    sections = [
        PageSection("Proposal", _about(row, document)),
        PageSection("Check", [_checked(answer)]),
        PageSection("Changes", changes_told(answer.changes)),
        PageSection("Difference to the policy that it replaces", diff_lines(answer)),
        PageSection("Replay of the log", [*source, *replay_told(findings, answer.names)]),
        PageSection("Decisions", _decisions(answer.decisions)),
    ]
    return ReviewPage(proposal, document, tuple(sections))


def shown_proposal(answer: pb.ReviewPolicyResponse) -> Proposal:
    """The proposal as it is shown: every digest is made here, from what is shown."""
    from hashlib import sha256

    row = answer.proposal
    return Proposal(
        id=row.id,
        text=answer.text,
        policy_sha256=sha256(answer.text.encode()).digest(),
        parent=row.parent,
        parent_sha256=sha256(answer.parent_text.encode()).digest(),
        schema_sha256=_bytes_of(answer.schema_sha256),
        entity_revision=answer.entity_revision,
        replay=answer.replay,
        findings=answer.findings,
        proposer_kind=row.proposer_kind,
        proposer=row.proposer,
        note=row.note,
        proposed_at=row.proposed_at,
        expires_at=row.expires_at,
        state=ProposalState.OPEN,
    )


def diff_lines(answer: pb.ReviewPolicyResponse) -> list[str]:
    """The unified difference of the two texts."""
    return text_diff(
        answer.parent_text, answer.text, f"version {answer.proposal.parent}", "proposal"
    )


def text_diff(before: str, after: str, was: str, now: str) -> list[str]:
    """The unified difference of two texts, escaped."""
    lines = unified_diff(before.splitlines(), after.splitlines(), was, now, lineterm="")
    return [escaped(line) for line in lines]


def changes_told(changes: Iterable[pb.PolicyChangeRow]) -> list[str]:
    """Which policies change, and which of the changes are security-sensitive."""
    lines = []
    for one in changes:
        why = "; ".join(_meaning(word) for word in one.sensitive)
        lines.append(
            f"{one.change} {escaped(one.policy)}"
            + (f": security-sensitive, it {why}" if why else "")
        )
    return lines or ["no policy changes: only comments, annotations or the order do"]


def replay_told(findings: Mapping[str, Any] | None, names: Mapping[str, str]) -> list[str]:
    """What the proposer's replay found, for whom, and what it could not say."""
    if findings is None:
        return ["none was made: nobody knows whose access this changes"]
    try:
        return _replay(findings, names)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise Malformed("policy proposal: what its replay found is malformed") from None


def _replay(found: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    told = (
        f"{found['requests']} requests from {escaped(str(found['since_at']))} on, records "
        f"{found['first_seq']} to {found['last_seq']}; {found['decided']} decided again, "
        f"{found['changed_count']} otherwise"
    )
    lines = [told]
    lines += [
        f"  {count} {escaped(way.replace('_to_', ' would become '))}"
        for way, count in sorted(found["directions"].items())
    ]
    lines += [
        f"  {count} undecidable: {escaped(why)}"
        for why, count in sorted(found["undecidable"].items())
        if count
    ]
    changes = found["changes"]
    if changes:
        rows = [
            [
                one["count"],
                names.get(one["person"]) or one["person"],
                one["resource"],
                one["action"],
                f"{one['decision_before']} by {','.join(one['policies_before']) or 'default'}",
                f"{one['decision_after']} by {','.join(one['policies_after']) or 'default'}",
            ]
            for one in changes[:SHOWN]
        ]
        heads = ["COUNT", "PERSON", "RESOURCE", "ACTION", "NOW", "WITH THIS POLICY"]
        lines += ["", *table(heads, rows)]
    beyond = found["more_changes"] + max(0, len(changes) - SHOWN)
    if beyond:
        lines.append(f"and {beyond} more sorts of changes")
    return [*lines, *_coverage(found)]


def _coverage(found: Mapping[str, Any]) -> list[str]:
    lines = ["", "What this log covers:"]
    for title, counts in (("decided by", found["told_by"]), ("entities", found["entities"])):
        told = [f"{escaped(name)} {count}" for name, count in sorted(counts.items()) if count]
        if told:
            lines.append(f"  {title}: {', '.join(told)}")
    for title, never in (
        ("actions never exercised", found["unasked_actions"]),
        ("resources never exercised", found["unasked_resources"]),
        ("policies of the proposal that decided nothing", found["unused_policies"]),
    ):
        if never:
            lines.append(f"  {title}: {', '.join(map(escaped, never))}")
    if found["unasking_people"]:
        lines.append(f"  people who asked for nothing: {found['unasking_people']}")
    return lines


def _about(row: pb.ProposalRow, document: bytes) -> list[str]:
    who = row.proposer_name or row.proposer
    return pairs(
        [
            ("id", row.id),
            ("state", row.state),
            ("proposed by", who if row.proposer_kind == "person" else f"operator {who}"),
            ("reason", row.note),
            ("proposed", moment(row.proposed_at)),
            ("expires", moment(row.expires_at)),
            ("replaces version", row.parent),
            ("sha256", row.sha256),
            ("approvals", f"{row.approvals} of {row.needed}"),
            ("document", document.hex()),
        ]
    )


def _checked(answer: pb.ReviewPolicyResponse) -> str:
    if answer.problem:
        return f"cannot be activated: {escaped(answer.problem)}"
    return "valid; somebody keeps the right to change the policy"


def _decisions(rows: Iterable[pb.DecisionRow]) -> list[str]:
    lines = []
    for one in rows:
        why = f"; does not count: {escaped(one.problem)}" if one.problem else ""
        who = escaped(one.name or one.person)
        lines.append(f"{who}: {one.decision} at {moment(one.decided_at)}{why}")
    return lines or ["none yet"]


def _meaning(word: str) -> str:
    try:
        return Sensitive(word).meaning
    except ValueError:
        return escaped(word)


def _html_line(line: str) -> str:
    shown = escape(line)
    if line.startswith("+"):
        return f'<span class="add">{shown}</span>'
    return f'<span class="del">{shown}</span>' if line.startswith("-") else shown


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Malformed("policy proposal: a digest is malformed") from None
