"""Proposals as commands tell them to programs."""

from __future__ import annotations

from svc.cli.output import moment
from svc.proto.gate.v1 import policy_change_pb2 as pb


def row_told(one: pb.ProposalRow) -> dict[str, object]:
    """One proposal."""
    return {
        "proposal": one.id,
        "state": one.state,
        "policy_version": one.version or None,
        "parent_version": one.parent,
        "sha256": one.sha256,
        "proposer": one.proposer,
        "name": one.proposer_name or None,
        "note": one.note or None,
        "proposed_at": moment(one.proposed_at),
        "expires_at": moment(one.expires_at),
        "approvals": one.approvals,
        "approvals_needed": one.needed,
    }


def change_told(one: pb.PolicyChangeRow) -> dict[str, object]:
    """One policy that changes."""
    return {"policy": one.policy, "change": one.change, "sensitive": list(one.sensitive)}
