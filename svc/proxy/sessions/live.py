"""Checks open sessions again whenever policy or revocations change.

A session that would not be opened any more is broken off (rule R17), also while its lane is
being opened.  While nothing can be decided, because Authority is away, what is open goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Denied, SvcError
from svc.proxy.sessions.carry import Carried

_log = Logger(namespace="svc_proxy")

_SLICE = 50
"""Sessions looked at in one turn of the reactor."""


@frozen
class Live:
    """One session.

    Attributes:
        check: Raises Denied once it may not go on; anything else leaves it alone.
        break_off: Ends it for a reason.
        node_id: The Connector's that carries it.
        check_assigned: The part of *check* that looks at what this Connector is to serve.
        person_id: Whose it is.
        movable: What may move to a direct lane; None: it stays in the tunnel.
    """

    check: Callable[[], object]
    break_off: Callable[[str], object]
    node_id: str
    check_assigned: Callable[[], object]
    person_id: str = ""
    movable: Carried | None = None


@define
class _Round:
    """Looks at sessions in slices, each in its turn.

    Invariant: whoever waits keeps its place, however often it is asked for
    again; so nobody's asking keeps a session from being looked at.
    """

    clock: IReactorTime
    look: Callable[[str], object]
    _left: deque[str] = field(factory=deque)
    _waiting: set[str] = field(factory=set)
    _is_running: bool = False

    def add(self, uids: Iterable[str]) -> None:
        """Check these sessions again; one that already waits is checked only once."""
        new = [uid for uid in uids if uid not in self._waiting]
        self._waiting.update(new)
        self._left.extend(new)
        if self._left and not self._is_running:
            self._is_running = True
            self.clock.callLater(0, self._some)

    def _some(self) -> None:
        try:
            for _ in range(min(_SLICE, len(self._left))):
                uid = self._left.popleft()
                self._waiting.discard(uid)
                self.look(uid)
        finally:
            self._is_running = bool(self._left)
            if self._left:
                self.clock.callLater(0, self._some)


@define
class LiveSessions:
    """All of one Proxy, by uid."""

    clock: IReactorTime
    _live: dict[str, Live] = field(factory=dict)
    _by_node: dict[str, dict[str, None]] = field(factory=dict)
    _all: _Round = field(init=False)
    _assigned: _Round = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._all = _Round(self.clock, lambda uid: self._look(uid, lambda live: live.check))
        self._assigned = _Round(
            self.clock, lambda uid: self._look(uid, lambda live: live.check_assigned)
        )

    def add(self, uid: str, live: Live) -> None:
        """It was granted."""
        self._live[uid] = live
        self._by_node.setdefault(live.node_id, {})[uid] = None

    def get(self, uid: str) -> Live | None:
        """The session of this uid, if it is open here."""
        return self._live.get(uid)

    def remove(self, uid: str) -> None:
        """It is over."""
        node_id = self._live.pop(uid).node_id
        of_node = self._by_node[node_id]
        del of_node[uid]
        if not of_node:
            del self._by_node[node_id]

    def recheck(self) -> None:
        """Look at each again, in slices; called when policy or revocations changed."""
        self._all.add(self._live)

    def reassigned(self, node_id: str) -> None:
        """Check only whether the resources this Connector serves are still assigned to it."""
        self._assigned.add(self._by_node.get(node_id, ()))

    def end_of(self, node_id: str, reason: str) -> None:
        """Break off everything that this Connector carries."""
        for uid in tuple(self._by_node.get(node_id, ())):
            self._live[uid].break_off(reason)

    def end_all(self, reason: str) -> None:
        """Break off everything."""
        for live in tuple(self._live.values()):
            live.break_off(reason)

    def _look(self, uid: str, check_of: Callable[[Live], Callable[[], object]]) -> None:
        live = self._live.get(uid)
        if live is None:
            return
        try:
            check_of(live)()
        except Denied as refusal:
            _log.info("a session may not continue", session=uid, reason=refusal.reason)
            live.break_off(refusal.reason)
        except SvcError as e:
            _log.debug("a session cannot be checked", session=uid, reason=e.reason)
