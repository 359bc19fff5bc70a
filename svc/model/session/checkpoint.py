"""What a Connector signs about the requests of a gated session, and what Authority signs in return.

See ADR 35: a checkpoint states the chain of decisions that the Connector saw (rule R25), an
extension lets the session go on (rule R26).
"""

from __future__ import annotations

from attrs import frozen

EVERY_SECS = 30.0
"""Between two checkpoints of a session."""

GATED_MS = 120_000
"""A grant of a gated session, and an extension, last so long."""

RECONCILED_SECS = 60.0
"""Authority prolongs a session whose records it has had up to a checkpoint of this age."""


@frozen
class SessionCheckpoint:
    """One checkpoint of a session.

    Attributes:
        n: Which of the session's, from 1.
        decisions: How many decisions are in the chain.
        head: Of the chain, 32 bytes.
        is_last: The session is over at the Connector.
        is_whole: All that the person wrote has come and was passed on, to its tagged end.
        reason: Why it is over, a word of :mod:`svc.model.session.ending`; empty before.
    """

    cluster: str
    session_uid: str
    connector_id: str
    n: int
    decisions: int
    head: bytes
    is_last: bool = False
    is_whole: bool = False
    reason: str = ""


@frozen
class GrantExtension:
    """Authority's permission to go on.

    Attributes:
        n: Of the checkpoint that it answers.
        end_before_ms: Unix milliseconds at which the session is closed, unless prolonged again.
        policy_version: By which it was decided again.
    """

    cluster: str
    session_uid: str
    n: int
    end_before_ms: int
    policy_version: int
