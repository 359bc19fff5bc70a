"""Signs proposals and approvals with the key of the person's own identity."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli import Globals
from svc.cli.calls import runtime
from svc.cli.lane import lane
from svc.model.policy.approval import (
    MAX_VALID_SECS,
    Approval,
    ApprovalDecision,
    ApprovalKind,
    document_digest,
    encode_approval,
)
from svc.model.policy.claim import ProposalClaim, encode_claim
from svc.model.policy.proposal import Proposal
from svc.model.signing import Purpose, Signed

if TYPE_CHECKING:
    from svc.compose.person import PersonSide


def own_config(environ: Mapping[str, str]) -> Path:
    """Where the configuration of the person's own is, or the one that is selected."""
    from svc.client.places import CLIENT_FILE, home, selected

    return Path(selected(environ) or f"{home(environ)}/{CLIENT_FILE}")


def signing_person(context: click.Context, config: Path | None) -> PersonSide:
    """The identity that signs; it has no reactor.

    Raises:
        SvcError: there is none, or its certificate is not good now.
    """
    from svc.client.own_certificate import check_own
    from svc.compose.person import client_settings, load_person

    globals_ = context.find_object(Globals)
    assert globals_ is not None
    way = lane(context)
    if way is not None and config is None:
        side = load_person(runtime(globals_, None), way.settings, kinds=())
        check_own(side.identity)
        return side
    # The environment's settings are those of the Authority whose command this is.
    home = {name: globals_.environ[name] for name in ("HOME",) if name in globals_.environ}
    settings = client_settings(str(config or own_config(globals_.environ)), home)
    side = load_person(runtime(globals_, None), settings, kinds=())
    check_own(side.identity)
    return side


def has_identity(context: click.Context) -> bool:
    """Whether the person has a configuration of their own here."""
    globals_ = context.find_object(Globals)
    assert globals_ is not None
    return lane(context) is not None or os.path.lexists(own_config(globals_.environ))


def signed_claim(
    side: PersonSide, *, text: str, replay: bytes, findings: bytes, note: str
) -> Signed:
    """That the proposal is this person's."""
    facts = side.identity.facts
    claim = ProposalClaim(
        cluster=facts.principal.cluster,
        proposer=facts.principal.id,
        certificate_sha256=facts.sha256,
        policy_sha256=sha256(text.encode()).digest(),
        replay_sha256=sha256(replay).digest(),
        findings_sha256=sha256(findings).digest(),
        note=note,
        made_at=int(time.time()),
    )
    return side.identity.sign(Purpose.POLICY_PROPOSAL, encode_claim(claim))


def signed_decision(side: PersonSide, proposal: Proposal, decision: ApprovalDecision) -> Signed:
    """This person's decision about exactly the proposal that is shown."""
    facts, now = side.identity.facts, int(time.time())
    cluster = facts.principal.cluster
    approval = Approval(
        cluster=cluster,
        kind=ApprovalKind.POLICY,
        subject=proposal.id,
        document_sha256=document_digest(proposal.document(cluster)),
        decision=decision,
        approver=facts.principal.id,
        certificate_sha256=facts.sha256,
        made_at=now,
        expires_at=max(now + 1, min(now + MAX_VALID_SECS, int(proposal.expires_at))),
    )
    return side.identity.sign(Purpose.APPROVAL, encode_approval(approval))
