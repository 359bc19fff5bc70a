"""At the Connector: reaches the server, holds it to the ceiling, makes the one edit of requests."""

from collections.abc import Callable, Mapping

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint

from svc.kinds.opaque import AddressDialer
from svc.kinds.prelude import PreludeEndpoint
from svc.model.cluster.target import Target
from svc.model.session.edits import MakeEdit
from svc.model.session.ranges import Request


def refuse(came: bytes, values: Mapping[str, str]) -> bytes:
    """A command that the server answers with an error, in its turn."""
    return b"SVC_DENIED\r\n"


@define
class RedisRequests:
    """Where each command begins in what the person sent: every line needs a decision."""

    _at: int = field(default=0, init=False)
    _start: int = field(default=-1, init=False)

    def feed(self, data: bytes, is_denied: Callable[[int], bool]) -> list[Request]:
        """See RequestReader; Redis ends a line with its line feed, and all of it is decided."""
        found, at = list[Request](), 0
        while at < len(data):
            end = data.find(b"\n", at) + 1
            if self._start < 0:
                self._start = self._at + at
            found.append((self._start, True, self._at + end if end else 0))
            if end:
                self._start = -1
            at = end or len(data)
        self._at += len(data)
        return found


@frozen(kw_only=True)
class RedisDialer(AddressDialer):
    """Plain TCP, one database selected for good, and the closed list of edits."""

    edits: Mapping[str, MakeEdit] = field(factory=lambda: {"refuse": refuse})
    enforces: frozenset[str] = frozenset({"database"})
    requests: type[RedisRequests] = RedisRequests

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """The gate knows no SELECT, so the session stays where this puts it."""
        line = f"SELECT {ceiling['database']}\r\n".encode("ascii")
        below = super().endpoint(reactor, target, ceiling)
        return PreludeEndpoint(below=below, line=line, answer=b"+OK\r\n", what="the database")


DIALER = RedisDialer(kind="redis", default_port=6379)
