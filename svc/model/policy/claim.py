"""What a person signs to propose a policy: that the proposal is theirs.

Proposer and approver must be two people (rule R17), so it matters who proposed.  Whoever passes
the proposal on, an operator of the control socket for example, cannot put another name on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import frozen

from svc.errors import Malformed
from svc.model import canonical
from svc.model.canonical import Json

FORM = "svc-policy-propose-v1"
MAX_CLAIM_BYTES = 2048

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_ID = re.compile(r"[\x21-\x7e]{1,253}\Z")
_KEYS = frozenset(
    {
        "form",
        "cluster",
        "proposer",
        "certificate_sha256",
        "policy_sha256",
        "replay_sha256",
        "findings_sha256",
        "note",
        "made_at",
    }
)


@frozen(kw_only=True)
class ProposalClaim:
    """Who proposes what.

    Attributes:
        replay_sha256: Of the statement of a replay, also of the empty one; so with the findings.
        made_at: Unix seconds, by the clock of the proposer's machine.
    """

    cluster: str
    proposer: str
    certificate_sha256: bytes
    policy_sha256: bytes
    replay_sha256: bytes
    findings_sha256: bytes
    note: str
    made_at: int


def encode_claim(claim: ProposalClaim) -> bytes:
    """The bytes that the proposer signs."""
    return canonical.encode(
        {
            "form": FORM,
            "cluster": claim.cluster,
            "proposer": claim.proposer,
            "certificate_sha256": claim.certificate_sha256.hex(),
            "policy_sha256": claim.policy_sha256.hex(),
            "replay_sha256": claim.replay_sha256.hex(),
            "findings_sha256": claim.findings_sha256.hex(),
            "note": claim.note,
            "made_at": claim.made_at,
        }
    )


def decode_claim(data: bytes) -> ProposalClaim:
    """A claim whose signature was checked.

    Raises:
        Malformed: it is none.
    """
    value = canonical.decode(data, max_bytes=MAX_CLAIM_BYTES)
    if not isinstance(value, dict) or value.keys() != _KEYS or value["form"] != FORM:
        raise Malformed(f"policy proposal: what was signed is not of the form {FORM}")
    made_at, note = value["made_at"], value["note"]
    if isinstance(made_at, bool) or not isinstance(made_at, int) or made_at < 0:
        raise Malformed("policy proposal: made_at is not a time in whole Unix seconds")
    if not isinstance(note, str):
        raise Malformed("policy proposal: note is not a text")
    return ProposalClaim(
        cluster=_text(value, "cluster"),
        proposer=_text(value, "proposer"),
        certificate_sha256=_digest(value, "certificate_sha256"),
        policy_sha256=_digest(value, "policy_sha256"),
        replay_sha256=_digest(value, "replay_sha256"),
        findings_sha256=_digest(value, "findings_sha256"),
        note=note,
        made_at=made_at,
    )


def _text(value: Mapping[str, Json], name: str) -> str:
    given = value[name]
    if not isinstance(given, str) or not _ID.match(given):
        raise Malformed(f"policy proposal: {name} is not a short text without spaces")
    return given


def _digest(value: Mapping[str, Json], name: str) -> bytes:
    given = value[name]
    if not isinstance(given, str) or not _DIGEST.match(given):
        raise Malformed(f"policy proposal: {name} is not a SHA-256 in lower-case hex")
    return bytes.fromhex(given)
