"""Sessions that were cut while open, kept for the person to see."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field, frozen
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from svc.lanes.relay import Relay, RelaySide
from svc.model.policy.requested import why_command
from svc.model.session.ending import SessionOver

_log = Logger(namespace="svc_client")

KEPT = 64


@frozen
class CutSession:
    """One session that was cut off.

    Attributes:
        at: Unix seconds.
    """

    at: float
    resource: str
    reason: str
    text: str
    decision_id: str


@define
class CutSessions:
    """The newest of them; each is one log line."""

    now: Callable[[], float]
    kept: deque[CutSession] = field(factory=lambda: deque(maxlen=KEPT), init=False)

    def note(self, resource: str, over: SessionOver) -> None:
        """Remember and log one."""
        self.kept.append(
            CutSession(
                at=self.now(),
                resource=resource,
                reason=over.reason,
                text=over.text,
                decision_id=over.decision_id,
            )
        )
        _log.warn(
            "session ended",
            resource=resource,
            reason=over.reason,
            decision_id=over.decision_id,
            text=over.text,
        )


def ended_text(resource: str, over: SessionOver) -> str:
    """A cut as one line for a person; not yet escaped."""
    why = why_command(over.decision_id, over.command_options) if over.decision_id else ""
    return f"{resource}: session ended: {over.text}; reason {over.reason}" + (
        f"; to see why: {why}" if why else ""
    )


class SessionSide(RelaySide):
    """The session's side of a relay.

    Args:
        cut: Called when the session was broken, and not by us, before the other side hears of
            it: a tool may end us as soon as it does.  Says whether the tool is told in words,
            and is to be left in order.
        passed: Gives what the tool is passed for the session's bytes; None: themselves.
    """

    def __init__(
        self,
        relay: Relay,
        cut: Callable[[], object],
        passed: Callable[[bytes], bytes] | None = None,
    ) -> None:
        super().__init__(relay, "right")
        self._cut = cut
        self._passed = passed

    def dataReceived(self, data: bytes) -> None:
        """Pass on."""
        if self._passed is not None:
            data = self._passed(data)
        if data:
            super().dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Say why, then be gone."""
        if not isinstance(reason.value, ConnectionDone | ConnectionAborted) and self._cut():
            reason = connectionDone
        super().connectionLost(reason)
