"""Reaches the target of a session, and says in the Connector's words why it cannot."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint

from svc.connector.admission import AdmittedSession
from svc.connector.reach import ReachReactor
from svc.errors import SvcError
from svc.interfaces.kinds import Identify, ServedKind, dialer_for
from svc.interfaces.recordings import IRecorder
from svc.lanes.relay import RelaySide, only_side
from svc.messages.use import DENIED
from svc.model.session.grant import Grant
from svc.model.session.onward import OnwardCredential
from svc.runtime.dial_failure import dial_failure
from svc.runtime.services import bounded
from svc.tunnel.refusals import CONNECTOR_WORDS, OpenRefusedHere, refused


def session_dialer(
    kind: ServedKind,
    grant: Grant,
    identify: Identify,
    used: Counter[str],
    recorder: IRecorder,
    login: OnwardCredential | None,
) -> Any:
    """What dials for one session; *used* counts what the session does with its rights."""
    return dialer_for(
        kind.dialer,
        grant.person_id,
        identify,
        grant.operations,
        grant.decision_id,
        lambda right, is_allowed: used.update([right if is_allowed else DENIED + right]),
        recorder,
        login,
        grant.session_uid,
    )


async def dial_target(
    admitted: AdmittedSession,
    side: RelaySide,
    *,
    dialer: Any,
    guard: ReachReactor,
    clock: IReactorTime,
    seconds: float,
) -> IStreamClientEndpoint:
    """Connect *side* to the session's target; what it was dialed with.

    Args:
        dialer: Of this one session.
        guard: Lets it connect to addresses within reach alone.
        seconds: For all of it.

    Raises:
        OpenRefusedHere: it cannot be reached, or does not let us in.
    """
    target: IStreamClientEndpoint = dialer.endpoint(guard, admitted.target, admitted.grant.ceiling)
    dialing = target.connect(only_side(side))
    try:
        await bounded(clock, seconds, dialing, "the target")
    except (CancelledError, OpenRefusedHere):
        raise
    except Exception as error:
        reason = error.reason if isinstance(error, SvcError) else ""
        if guard.turned_away:
            word = "address_out_of_reach"
        elif reason in CONNECTOR_WORDS:
            raise refused(reason, str(error)) from error  # a dialer's own word
        else:
            word = "target_deadline" if reason == "deadline" else "target_unreachable"
        text = f"the target could not be reached: {dial_failure(error)}"
        raise refused(word, text) from error
    return target
