"""*Policy proposals*: those that wait, and one with all that an approval of it binds (ADR 45).

An approval is a signature by the person's own key (ADR 43), which a page does not have: it shows
the difference, its SHA-256 values and the command to type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import unified_diff
from typing import Any

from attrs import define, frozen

from svc.authority.page.html import (
    Content,
    Link,
    code,
    heading,
    moment,
    number_of,
    older,
    paragraph,
    preformatted,
    table,
    text,
)
from svc.authority.page.pages import Visit
from svc.authority.policy.proposed.proposal_rows import found_proposal
from svc.authority.policy.proposed.review import PolicyReview
from svc.authority.registry.operators import Operators
from svc.authority.state.recorder import person
from svc.errors import Malformed
from svc.model.audit.record import Actor
from svc.model.canonical import decode
from svc.model.policy.approval import document_digest
from svc.model.policy.proposal import MAX_FINDINGS
from svc.model.policy.rules import Sensitive
from svc.proto.gate.v1 import policy_change_pb2 as pb
from svc.runtime.threads import InThread

VIEW_POLICY = "viewPolicy"
MOST_SHOWN = 50
MOST_LINES = 2000
"""Lines of a difference; a longer one is read in a terminal."""

MOST_LINE = 500


@frozen
class _Review:
    """A proposal as it is shown.

    Attributes:
        document: The SHA-256 that an approval signs.
        difference: To the policy that it replaces, line by line.
    """

    answer: pb.ReviewPolicyResponse
    document: str
    difference: list[str]


@define
class ProposalsPage:
    """The list, and with ``id`` one of it.

    Attributes:
        in_thread: Where two long texts are compared.
    """

    reviews: PolicyReview
    operators: Operators
    in_thread: InThread

    path = "/policies"
    title = "Policy proposals"

    async def content(self, visit: Visit) -> Content:
        """For who may read policies; to everybody else nothing is told of them."""
        me = visit.visitor.person.id
        if not self.operators.allows(me, VIEW_POLICY, visit.visitor.factor_at):
            return [paragraph("The policy does not let you read policies.")]
        actor, id = person(me), visit.given.get("id", "")
        if id:
            return _shown(await self._review(id, actor))
        return await self._list(actor, number_of(visit.given, "from"))

    async def _list(self, actor: Actor, begin: int) -> Content:
        found = await self.reviews.list_proposals(pb.ListProposalsRequest(), actor)
        part = found.proposals[begin : begin + MOST_SHOWN]
        shown: list[Any] = [
            table(
                ("Proposal", "State", "By", "Reason", "Proposed", "Expires", "Approvals"),
                (self._row(one) for one in part),
                "No proposal waits.",
            )
        ]
        end = begin + MOST_SHOWN
        if len(found.proposals) > end:
            shown.append(older(self.path, "More proposals", **{"from": end}))
        return shown

    def _row(self, one: pb.ProposalRow) -> list[Any]:
        return [
            Link(f"{self.path}?id={one.id}", one.id[:12]).tag(),
            text(one.state),
            _by(one),
            text(one.note),
            moment(one.proposed_at),
            moment(one.expires_at),
            f"{one.approvals} of {one.needed}",
        ]

    async def _review(self, id: str, actor: Actor) -> _Review:
        proposals = self.reviews.proposals
        answer = await self.reviews.review(pb.ReviewPolicyRequest(id=id), actor)
        stored = await proposals.store.read(
            "a proposed policy",
            lambda tx: found_proposal(proposals.recorder.rows(tx), id, proposals.now()),
        )
        before, after = answer.parent_text, stored.text
        was = f"version {stored.parent}"
        return _Review(
            answer=answer,
            document=document_digest(stored.document(proposals.cluster)).hex(),
            difference=await self.in_thread(lambda: _difference(before, after, was)),
        )


def _difference(before: str, after: str, was: str) -> list[str]:
    """The unified difference, up to one line more than is shown."""
    lines = unified_diff(before.splitlines(), after.splitlines(), was, "proposal", lineterm="")
    return [line for line, _ in zip(lines, range(MOST_LINES + 1), strict=False)]


def _by(one: pb.ProposalRow) -> str:
    who = one.proposer_name or one.proposer
    return text(who if one.proposer_kind == "person" else f"operator {who}")


def _shown(review: _Review) -> Content:
    answer, row = review.answer, review.answer.proposal
    is_cut = len(review.difference) > MOST_LINES
    longer = f"svc authority policy review {row.id}"
    return [
        _about(review),
        heading("Changes"),
        table(
            ("Policy", "Change", "Security-sensitive"),
            (_change(one) for one in answer.changes),
            "No policy changes: only comments, annotations or the order do.",
        ),
        heading("Difference to the policy that it replaces"),
        preformatted([text(one, MOST_LINE) for one in review.difference[:MOST_LINES]]),
        paragraph("The difference is longer; see all of it: ", code(longer)) if is_cut else "",
        heading("Replay of the log"),
        *_replay(answer),
        heading("Decisions"),
        table(
            ("Person", "Decision", "At", "Counts"),
            (_decision(one) for one in answer.decisions),
            "None yet.",
        ),
        *_commands(row),
    ]


def _about(review: _Review) -> Any:
    answer, row = review.answer, review.answer.proposal
    problem = answer.problem and f"cannot be activated: {answer.problem}"
    rows: list[tuple[str, Any]] = [
        ("Proposal", code(row.id)),
        ("State", text(row.state)),
        ("Proposed by", _by(row)),
        ("Reason", text(row.note)),
        ("Proposed", moment(row.proposed_at)),
        ("Expires", moment(row.expires_at)),
        ("Replaces version", str(row.parent)),
        ("SHA-256 of the text", code(row.sha256)),
        ("Approvals", f"{row.approvals} of {row.needed}"),
        ("Check", text(problem or "valid; somebody keeps the right to change the policy")),
        ("SHA-256 of the document that an approval signs", code(review.document)),
    ]
    return table(("What", "Value"), rows, "")


def _change(one: pb.PolicyChangeRow) -> list[str]:
    return [text(one.policy), text(one.change), text("; ".join(map(_meaning, one.sensitive)))]


def _meaning(word: str) -> str:
    try:
        return f"it {Sensitive(word).meaning}"
    except ValueError:
        return word


def _decision(one: pb.DecisionRow) -> list[str]:
    counts = f"no: {one.problem}" if one.problem else "yes"
    return [text(one.name or one.person), text(one.decision), moment(one.decided_at), text(counts)]


def _commands(row: pb.ProposalRow) -> Content:
    if row.state != "open":
        return []
    words = ("approve", "reject", "activate")
    said = "Decide in a terminal, which shows the same document and its SHA-256 before it asks you:"
    lines = (paragraph(code(f"svc authority policy {word} {row.id}")) for word in words)
    return [heading("To decide"), paragraph(said), *lines]


def _replay(answer: pb.ReviewPolicyResponse) -> Content:
    """Whose access would change, as the proposer's replay found."""
    if not answer.findings:
        return [paragraph("None was made: nobody knows whose access this changes.")]
    found = decode(answer.findings, max_bytes=MAX_FINDINGS)
    try:
        assert isinstance(found, Mapping)
        changes: Any = found["changes"]
        told = (
            f"{found['requests']} requests since {found['since_at']}, {found['decided']} decided"
            f" again, {found['changed_count']} otherwise."
        )
        rows = list(_replayed(changes[:MOST_SHOWN], answer.names))
        beyond = int(str(found["more_changes"])) + max(0, len(changes) - MOST_SHOWN)
    except (AssertionError, KeyError, TypeError, AttributeError, ValueError):
        raise Malformed("policy proposal: what its replay found is malformed") from None
    heads = ("Count", "Person", "Resource", "Action", "Now", "With this policy")
    more = [paragraph(f"And {beyond} more sorts of changes.")] if beyond else []
    return [paragraph(text(told)), table(heads, rows, "Nobody's access changes."), *more]


def _replayed(
    changes: Iterable[Mapping[str, Any]], names: Mapping[str, str]
) -> Iterable[list[str]]:
    for one in changes:
        decided = [
            f"{one[f'decision_{when}']} by {', '.join(one[f'policies_{when}']) or 'default'}"
            for when in ("before", "after")
        ]
        who = names.get(one["person"]) or one["person"]
        yield [text(each) for each in (one["count"], who, one["resource"], one["action"], *decided)]
