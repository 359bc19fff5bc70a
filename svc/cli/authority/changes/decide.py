"""``svc authority policy approve``, ``reject`` and ``activate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli.authority.changes.options import (
    TRY_SECS,
    asks_often,
    identity_option,
    reason_option,
)
from svc.cli.authority.changes.review import reviewed
from svc.cli.authority.changes.told import row_told
from svc.cli.confirmation import confirm, require_terminal
from svc.cli.control import admin
from svc.cli.forms import WORD
from svc.cli.output import hint, json_option, print_result
from svc.errors import Fault, SvcError
from svc.proto.gate.v1 import policy_change_pb2 as pb
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.cli.authority.changes.page import ReviewPage
    from svc.model.signing import Signed


@click.command("approve")
@click.argument("proposal", type=WORD)
@click.option(
    "--document",
    "seen",
    type=WORD,
    metavar="SHA256",
    help="Do not ask if this is the document's digest, as `policy review` shows it; otherwise "
    "refuse.",
)
@click.option("--yes", is_flag=True, help="Do not ask; what is approved is printed.")
@reason_option
@identity_option
@json_option
@click.pass_context
@asks_often
def approve_policy(
    context: click.Context,
    proposal: str,
    seen: str | None,
    yes: bool,
    reason: str,
    identity: Path | None,
    as_json: bool,
) -> None:
    """Approve PROPOSAL: sign, with the key of your own identity, exactly what is shown.

    The approver must not be the proposer, and the policy must permit them the action
    approvePolicy.

    Example:
        svc --config authority.toml authority policy review 5f0c1be2
        svc --config authority.toml authority policy approve 5f0c1be2
    """
    from svc.cli.authority.changes.page import review_page
    from svc.cli.authority.changes.signer import signed_decision, signing_person
    from svc.model.policy.approval import ApprovalDecision

    if seen is None and not yes:
        require_terminal("--document SHA256, which `svc authority policy review` shows, or --yes")
    side = signing_person(context, identity)
    page = review_page(reviewed(context, proposal))
    if seen is None:
        click.echo("\n".join(page.text()), err=True)
        if not yes:
            confirm("Approve exactly this?")
    elif seen != page.document_sha256.hex():
        raise SvcError(
            f"proposal {escaped(proposal)}: is not what you reviewed; its document is "
            f"{page.document_sha256.hex()}",
            reason="approval_mismatch",
            fault=Fault.PRECONDITION,
        )
    signed = signed_decision(side, page.proposal, ApprovalDecision.APPROVE)
    row = _decided(context, page, signed, reason)
    missing = row.needed - row.approvals
    print_result(
        as_json,
        row_told(row),
        [f"approved; {row.approvals} of {row.needed} approvals"],
    )
    if missing <= 0:
        command = f"svc authority policy activate {row.id[:12]}"
        hint([f"who may edit policies activates it with: {command}"])


@click.command("reject")
@click.argument("proposal", type=WORD)
@reason_option
@identity_option
@json_option
@click.pass_context
@asks_often
def reject_policy(
    context: click.Context, proposal: str, reason: str, identity: Path | None, as_json: bool
) -> None:
    """Reject PROPOSAL, which closes it; the proposer withdraws it in the same way."""
    from svc.cli.authority.changes.page import review_page
    from svc.cli.authority.changes.signer import signed_decision, signing_person
    from svc.model.policy.approval import ApprovalDecision

    side = signing_person(context, identity)
    page = review_page(reviewed(context, proposal))
    signed = signed_decision(side, page.proposal, ApprovalDecision.DENY)
    row = _decided(context, page, signed, reason)
    print_result(as_json, row_told(row), [f"proposal {row.id} is {row.state}"])


@click.command("activate")
@click.argument("proposal", type=WORD)
@json_option
@click.pass_context
def activate_policy(context: click.Context, proposal: str, as_json: bool) -> None:
    """Put PROPOSAL in force, if it has the approvals that it needs."""
    answer = admin(context)(
        "ActivateProposal",
        pb.ActivateProposalRequest(id=proposal),
        pb.ActivateProposalResponse,
        TRY_SECS,
    )
    result = {
        "policy_version": answer.version,
        "sha256": answer.sha256,
        "approvers": list(answer.approvers),
    }
    told = f"policy version {answer.version} is in force, sha256 {answer.sha256}"
    print_result(as_json, result, [told])


def _decided(context: click.Context, page: ReviewPage, signed: Signed, note: str) -> pb.ProposalRow:
    request = pb.DecideProposalRequest(
        id=page.proposal.id,
        approval=signed.payload,
        signature=signed.signature,
        chain=signed.chain,
        note=note,
    )
    answer = admin(context)("DecideProposal", request, pb.DecideProposalResponse, TRY_SECS)
    return answer.proposal
