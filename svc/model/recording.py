"""What is known of a recording of a session."""

from __future__ import annotations

import re
from enum import Enum

from attrs import frozen

ASCIICAST, JSON_LINES = "asciicast-v2", "json-lines"
"""What a recording is once it was opened: of a terminal or a command, or of transferred files."""

MOST_CHANNELS = 1 << 16
"""Recordings of one session."""

_REASON = re.compile(r"[a-z0-9_]{0,64}")


class RecordingState(Enum):
    """How far a recording has come; all but the first are final."""

    RECEIVING = "receiving"
    COMPLETE = "complete"
    CUT_SHORT = "cut_short"
    DAMAGED = "damaged"
    LOST = "lost"


FINAL = frozenset(RecordingState) - {RecordingState.RECEIVING}


@frozen(kw_only=True)
class Recording:
    """One recording, as it is kept centrally.

    Attributes:
        channel: Which of its session's recordings it is.
        began_ms: Unix milliseconds.
        updated_at: Unix seconds, when something of it last arrived.
        reason: Why it is not complete.
        form: What it is; empty while that is not known.
        size: Bytes of what was recorded; ``sha256`` is over them, and ``duration_ms`` is theirs.
        sealed_size: Bytes of the file that is kept; ``sealed_sha256`` is over them.
    """

    session_uid: str
    channel: int
    person_id: str
    resource: str
    kind: str
    connector_id: str
    decision_id: str
    began_ms: int
    updated_at: float
    state: RecordingState = RecordingState.RECEIVING
    reason: str = ""
    form: str = ""
    size: int = 0
    duration_ms: int = 0
    sha256: str = ""
    sealed_size: int = 0
    sealed_sha256: str = ""

    @property
    def id(self) -> str:
        """What operators name it by."""
        return recording_id(self.session_uid, self.channel)


def recording_id(session_uid: str, channel: int) -> str:
    """The id of a session's recording."""
    return f"{session_uid}-{channel}"


def is_reason(text: str) -> bool:
    """Whether records may say this of why a recording was cut short: a word, or nothing."""
    return _REASON.fullmatch(text) is not None
