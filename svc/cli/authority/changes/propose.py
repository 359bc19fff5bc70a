"""``svc authority policy propose``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli.authority.changes.options import (
    TRY_SECS,
    asks_often,
    identity_option,
    reason_option,
)
from svc.cli.authority.changes.told import change_told
from svc.cli.authority.policy_text import given_text
from svc.cli.control import admin
from svc.cli.forms import WORD
from svc.cli.output import hint, json_option, moment, print_result
from svc.proto.gate.v1 import policy_change_pb2 as pb

if TYPE_CHECKING:
    from svc.model.canonical import Json

MOST_CHANGES = 100
MOST_NAMES = 50


@click.command("propose")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--since",
    type=WORD,
    metavar="TIME",
    help="Replay recorded requests from 30m, 2h or 7d ago, or a UTC time, on; approvers see what "
    "changes for whom.",
)
@reason_option
@identity_option
@click.option("--unsigned", is_flag=True, help="Do not sign, although you have an identity.")
@json_option
@click.pass_context
@asks_often
def propose_policy(
    context: click.Context,
    file: Path,
    since: str | None,
    reason: str,
    identity: Path | None,
    unsigned: bool,
    as_json: bool,
) -> None:
    """Propose the policy in FILE ("-": stdin) to others, who have a day to approve it.

    The proposal is signed with your own identity if you have one.  Otherwise it counts as proposed
    by the operator of the control socket, and needs one more approval.

    Example:
        svc --config authority.toml authority policy propose new.cedar --reason "orders: no DDL"
    """
    if unsigned and identity is not None:
        raise click.UsageError("--unsigned and --identity: give only one of them")
    text = given_text(file)
    replay, findings = b"", b""
    if since is not None:
        replay, findings = _replayed(context, text, since)
    request = pb.ProposePolicyRequest(text=text, replay=replay, findings=findings, note=reason)
    propose(context, request, identity, as_json, signs=not unsigned)


def propose(
    context: click.Context,
    request: pb.ProposePolicyRequest,
    identity: Path | None,
    as_json: bool,
    *,
    signs: bool = True,
) -> None:
    """Sign a proposal if the person can, send it, and print what it needs."""
    from svc.cli.authority.changes.page import changes_told
    from svc.cli.authority.changes.signer import has_identity, signed_claim, signing_person

    if identity is not None or (signs and has_identity(context)):
        signed = signed_claim(
            signing_person(context, identity),
            text=request.text,
            replay=request.replay,
            findings=request.findings,
            note=request.note,
        )
        request.claim, request.signature = signed.payload, signed.signature
        request.chain.extend(signed.chain)
    answer = admin(context)("ProposePolicy", request, pb.ProposePolicyResponse, TRY_SECS)
    result = {
        "proposal": answer.id,
        "expires_at": moment(answer.expires_at),
        "approvals_needed": answer.needed,
        "policy_changes": [change_told(one) for one in answer.changes],
    }
    until = moment(answer.expires_at)
    lines = [
        f"proposal {answer.id}: needs {answer.needed} approval(s) until {until}",
        *(f"  {line}" for line in changes_told(answer.changes)),
    ]
    print_result(as_json, result, lines)
    # Without this person's own directory or configuration, which others have not.
    review = f"svc authority policy review {answer.id[:12]}"
    hint([f"others see it with: {review}"], is_for_others=True)


def _replayed(context: click.Context, text: str, since: str) -> tuple[bytes, bytes]:
    """The statement of a replay of *text*, and what it found, bounded."""
    from svc.cli.authority.replay import replayed_since
    from svc.cli.lane import lane
    from svc.model.canonical import encode

    if lane(context) is not None:
        raise click.UsageError(
            "--since reads the audit log, so it works only on the Authority's host; leave it out, "
            "or propose there"
        )

    found, told = replayed_since(context, text, since)
    return encode(dict(found.statement)), findings_of(told)


def findings_of(told: Mapping[str, Any]) -> bytes:
    """What a proposal tells of its replay: without names, and no longer than it may be."""
    from svc.model.canonical import encode
    from svc.model.policy.proposal import MAX_FINDINGS

    changes = [
        {name: value for name, value in one.items() if name != "name"} for one in told["changes"]
    ]
    most = MOST_CHANGES
    while True:
        form: dict[str, Json] = {
            name: told[name]
            for name in (
                "requests",
                "decided",
                "changed_count",
                "directions",
                "undecidable",
                "told_by",
                "entities",
                "unasking_people",
                "first_seq",
                "last_seq",
                "since_at",
            )
        }
        for name in ("unasked_actions", "unasked_resources", "unused_policies"):
            form[name] = list(told[name][:MOST_NAMES])
        form["changes"] = changes[:most]
        form["more_changes"] = told["beyond"] + max(0, len(changes) - most)
        data = encode(form)
        if len(data) <= MAX_FINDINGS or not most:
            return data
        most //= 2
