"""``svc authority policy rollback`` and ``diff``: earlier versions."""

from __future__ import annotations

from pathlib import Path

import click

from svc.cli.authority.changes.options import (
    TRY_SECS,
    asks_often,
    identity_option,
    reason_option,
)
from svc.cli.authority.changes.propose import propose
from svc.cli.control import admin
from svc.cli.output import document, hint, json_option, print_lines, print_result
from svc.errors import Fault, SvcError
from svc.proto.gate.v1 import admin_pb2, policy_change_pb2

NEEDS_APPROVAL = "policy_needs_approval"


@click.command("rollback")
@click.argument("version", required=False, type=click.IntRange(1, 2**63 - 1))
@reason_option
@click.option(
    "--break-glass",
    is_flag=True,
    help="Set it without approvals; only for those named in policy.break_glass.",
)
@identity_option
@json_option
@click.pass_context
@asks_often
def rollback_policy(
    context: click.Context,
    version: int | None,
    reason: str,
    break_glass: bool,
    identity: Path | None,
    as_json: bool,
) -> None:
    """Go back to the text of VERSION (default: the one before the active one).

    The text becomes a new version: it is set or, where policies need approvals, proposed.
    """
    earlier = shown_version(context, version or _before_active(context))
    request = admin_pb2.SetPolicyRequest(text=earlier.text, break_glass=break_glass)
    try:
        answer = admin(context)("SetPolicy", request, admin_pb2.SetPolicyResponse, TRY_SECS)
    except SvcError as refusal:
        if refusal.reason != NEEDS_APPROVAL:
            raise
        why = reason or f"back to version {earlier.version}"
        again = policy_change_pb2.ProposePolicyRequest(text=earlier.text, note=why)
        propose(context, again, identity, as_json)
        return
    result = {
        "policy_version": answer.version,
        "sha256": answer.sha256,
        "changed": not answer.unchanged,
    }
    told = (
        f"policy version {answer.version} is in force, with the text of version {earlier.version}"
    )
    print_result(as_json, result, [told])


@click.command("diff")
@click.argument("old", metavar="A", type=click.IntRange(1, 2**63 - 1))
@click.argument("new", metavar="[B]", required=False, type=click.IntRange(1, 2**63 - 1))
@json_option
@click.pass_context
@asks_often
def diff_policy(context: click.Context, old: int, new: int | None, as_json: bool) -> None:
    """Show how the text of version B (default: the active one) differs from that of version A.

    Example:
        svc --config authority.toml authority policy diff 7 8
    """
    from svc.cli.authority.changes.page import text_diff

    before, after = shown_version(context, old), shown_version(context, new or 0)
    lines = text_diff(
        before.text, after.text, f"version {before.version}", f"version {after.version}"
    )
    if as_json:
        found = {"from_version": before.version, "to_version": after.version, "diff": lines}
        print_lines([document(found)])
        return
    print_lines(lines)
    if not lines:
        hint([f"versions {before.version} and {after.version} have the same text"])


def shown_version(context: click.Context, version: int) -> admin_pb2.ShowPolicyResponse:
    """One version; 0: the active one."""
    request = admin_pb2.ShowPolicyRequest(version=version)
    return admin(context)("ShowPolicy", request, admin_pb2.ShowPolicyResponse)


def _before_active(context: click.Context) -> int:
    """The newest version whose text is another than the active one's."""
    active = shown_version(context, 0)
    answer = admin(context)(
        "PolicyHistory", admin_pb2.PolicyHistoryRequest(), admin_pb2.PolicyHistoryResponse
    )
    older = [
        one.version
        for one in answer.versions
        if one.version < active.version and one.sha256 != active.sha256
    ]
    if not older:
        raise SvcError(
            "there is no earlier policy with another text",
            reason="unknown_version",
            fault=Fault.NOT_FOUND,
        )
    return older[0]
