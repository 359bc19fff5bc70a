"""Sessions that pass bytes, looked at again whenever policy or revocations change.

A session that would not be opened any more is broken off (rule R17).  While
nothing can be decided, because Authority is away, what is open goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Denied, SvcError

_log = Logger(namespace="svc_proxy")

_SLICE = 50
"""Sessions looked at in one turn of the reactor."""


@frozen
class Live:
    """One session.

    Attributes:
        check: Raises Denied once it may not go on; anything else leaves it alone.
        break_off: Ends it for a reason.
    """

    check: Callable[[], object]
    break_off: Callable[[str], object]


@define
class LiveSessions:
    """All of one Proxy, by uid."""

    clock: IReactorTime
    _live: dict[str, Live] = field(factory=dict)
    _left: list[str] = field(factory=list)

    def add(self, uid: str, live: Live) -> None:
        """It passes bytes from now on."""
        self._live[uid] = live

    def remove(self, uid: str) -> None:
        """It is over."""
        del self._live[uid]

    def recheck(self) -> None:
        """Look at each again, in slices; called when policy or revocations changed."""
        is_running = bool(self._left)
        self._left = list(self._live)
        if self._left and not is_running:
            self.clock.callLater(0, self._check_some)

    def _check_some(self) -> None:
        now, self._left = self._left[:_SLICE], self._left[_SLICE:]
        for uid in now:
            live = self._live.get(uid)
            if live is not None:
                self._check(uid, live)
        if self._left:
            self.clock.callLater(0, self._check_some)

    def _check(self, uid: str, live: Live) -> None:
        try:
            live.check()
        except Denied as refusal:
            _log.info("a session may not go on", session=uid, reason=refusal.reason)
            live.break_off(refusal.reason)
        except SvcError as e:
            _log.debug("a session cannot be looked at now", session=uid, reason=e.reason)
