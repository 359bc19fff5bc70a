"""``svc authority policy approve``, ``reject`` and ``activate``."""

from __future__ import annotations

import sys
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
    help="The document that you reviewed, as `policy review` shows it; needed without a terminal.",
)
@reason_option
@identity_option
@json_option
@click.pass_context
@asks_often
def approve_policy(
    context: click.Context,
    proposal: str,
    seen: str | None,
    reason: str,
    identity: Path | None,
    as_json: bool,
) -> None:
    """Approve PROPOSAL: sign, with the key of your own identity, exactly what is shown.

    Another person than the proposer has to, whom the policy permits the action approvePolicy.
    """
    from svc.cli.authority.changes.page import review_page
    from svc.cli.authority.changes.signer import signed_decision, signing_person
    from svc.model.policy.approval import ApprovalDecision

    side = signing_person(context, identity)
    answer = reviewed(context, proposal)
    page = review_page(answer)
    if seen is None:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "without a terminal, give --document with what `svc authority policy review` showed"
            )
        click.echo("\n".join(page.text()), err=True)
        click.confirm("Approve exactly this?", abort=True, err=True)
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
        hint([f"activate it with: svc authority policy activate {row.id[:12]}"])


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
    """Reject PROPOSAL, which closes it; who proposed it takes it back."""
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
