"""``svc authority policy review``: what waits, and one proposal as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli.authority.changes.options import TRY_SECS
from svc.cli.authority.changes.told import change_told, row_told
from svc.cli.control import admin
from svc.cli.forms import WORD
from svc.cli.output import hint, json_option, moment, print_list, print_result
from svc.errors import Fault, SvcError
from svc.proto.gate.v1 import policy_change_pb2 as pb

if TYPE_CHECKING:
    from svc.cli.authority.changes.page import ReviewPage


@click.command("review")
@click.argument("proposal", required=False, type=WORD)
@click.option("--all", "every", is_flag=True, help="List closed and expired proposals, too.")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the page to FILE, as one static HTML page.",
)
@click.option(
    "--replay",
    "again",
    is_flag=True,
    help="Also run the proposer's replay again here, and compare; on the Authority's host.",
)
@json_option
@click.pass_context
def review_policy(
    context: click.Context,
    proposal: str | None,
    every: bool,
    html: Path | None,
    again: bool,
    as_json: bool,
) -> None:
    """Show PROPOSAL with everything that its approval would sign; without it, list open proposals.

    PROPOSAL is an id or its beginning.
    """
    from svc.cli.authority.changes.page import review_page

    if proposal is None:
        if html is not None or again:
            raise click.UsageError("--html and --replay: name the proposal")
        _list(context, every, as_json)
        return
    answer = reviewed(context, proposal)
    confirmed = is_confirmed(context, answer) if again else None
    page = review_page(answer, confirmed)
    if html is not None:
        _write(html, page.html())
    print_result(as_json, {**_shown(answer, page), "replay_confirmed": confirmed}, page.text())
    one = answer.proposal
    if one.state == "open" and not answer.problem and not as_json:
        if one.approvals < one.needed:
            words = f"{one.id[:12]} --document {page.document_sha256.hex()}"
            hint([f"approve it with: svc authority policy approve {words}"])
        else:
            hint([f"put it in force with: svc authority policy activate {one.id[:12]}"])


def reviewed(context: click.Context, proposal: str) -> pb.ReviewPolicyResponse:
    """A proposal with all that belongs to it."""
    return admin(context)(
        "ReviewPolicy", pb.ReviewPolicyRequest(id=proposal), pb.ReviewPolicyResponse, TRY_SECS
    )


def is_confirmed(context: click.Context, answer: pb.ReviewPolicyResponse) -> bool:
    """Whether a replay here finds what the proposer's found; blocks.

    Raises:
        SvcError: the proposal has no replay, or the log cannot be replayed.
    """
    from svc.cli.authority.changes.propose import findings_of
    from svc.cli.authority.replay import replayed_again
    from svc.model.canonical import decode, encode
    from svc.model.policy.proposal import MAX_FINDINGS

    if not answer.replay:
        raise SvcError("the proposal has no replay", reason="no_replay", fault=Fault.PRECONDITION)
    found, told = replayed_again(context, answer)
    here, shown = (
        decode(one, max_bytes=MAX_FINDINGS) for one in (findings_of(told), answer.findings)
    )
    # What the catalog has beside the log may have changed since; what the log says may not.
    same = ("requests", "decided", "changed_count", "directions", "changes", "more_changes")
    return encode(dict(found.statement)) == answer.replay and all(
        isinstance(here, dict) and isinstance(shown, dict) and here.get(name) == shown.get(name)
        for name in same
    )


def _list(context: click.Context, every: bool, as_json: bool) -> None:
    request = pb.ListProposalsRequest(all=every)
    answer = admin(context)("ListProposals", request, pb.ListProposalsResponse)
    heads = ["ID", "STATE", "PROPOSED", "BY", "APPROVALS", "EXPIRES", "REASON"]
    rows = [
        [
            one.id[:12],
            one.state,
            moment(one.proposed_at),
            one.proposer_name or one.proposer,
            f"{one.approvals} of {one.needed}",
            moment(one.expires_at),
            one.note,
        ]
        for one in answer.proposals
    ]
    print_list(as_json, [row_told(one) for one in answer.proposals], heads, rows)
    if any(one.state == "outdated" for one in answer.proposals) and not as_json:
        why = "another policy was activated since, or other kinds were enabled"
        hint([f"outdated: {why}; propose it again: svc authority policy propose FILE"])


def _shown(answer: pb.ReviewPolicyResponse, page: ReviewPage) -> dict[str, object]:
    return {
        **row_told(answer.proposal),
        "document_sha256": page.document_sha256.hex(),
        "valid": not answer.problem,
        "problem": answer.problem or None,
        "policy_changes": [change_told(one) for one in answer.changes],
        "decisions": [
            {
                "person": one.person,
                "name": one.name or None,
                "decision": one.decision,
                "decided_at": moment(one.decided_at),
                "problem": one.problem or None,
            }
            for one in answer.decisions
        ],
        "text": answer.text,
        "page": page.text(),
    }


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as failed:
        raise click.UsageError(f"{path}: {failed.strerror}") from None
