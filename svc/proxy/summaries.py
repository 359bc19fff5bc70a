"""Telling Authority once a minute, and at the stop, what this Proxy's budgets refused (rule R12).

A report that Authority did not answer is sent again as it was, so that it
counts once; what is refused meanwhile waits for the next.  Both are of bounded
size, however long Authority is away.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.logger import Logger

from svc.errors import Fault, SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.messages.refusals import REFUSED_METHOD, refused_message
from svc.model.ids import Entropy, random_id
from svc.model.tally import Refused, Tally
from svc.proto.gate.v1 import control_pb2 as pb

_log = Logger(namespace="svc_proxy")

EVERY_SECS = 60.0
_TIMEOUT = 10.0
_HOPELESS = frozenset({Fault.INVALID, Fault.UNIMPLEMENTED})
"""Authority will never take it."""


@define
class RefusalSummaries:
    """Sends reports, one at a time.

    Attributes:
        channel: Gives the channel to Authority, or raises while there is none.
    """

    tally: Tally
    channel: Callable[[], IRpcChannel]
    entropy: Entropy
    _report: tuple[str, tuple[Refused, ...]] | None = None
    _is_telling: bool = False

    @property
    def waiting(self) -> bool:
        """Whether anything is still to be told."""
        return self._report is not None or len(self.tally) > 0

    async def tell(self) -> None:
        """Send what there is; what Authority does not answer is kept.  Never raises SvcError."""
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self.waiting:
                await self._tell_next()
        except SvcError as e:
            _log.info("what was refused is told later", reason=e.reason)
        finally:
            self._is_telling = False

    async def _tell_next(self) -> None:
        if self._report is None:
            self._report = (random_id(self.entropy), self.tally.take())
        message = refused_message(*self._report)
        try:
            await self.channel().unary(
                REFUSED_METHOD, message, pb.RefusedResponse, timeout=_TIMEOUT
            )
        except SvcError as e:
            if e.fault not in _HOPELESS:
                raise
            _log.error("Authority takes no summary of refusals", reason=e.reason, text=e.text)
        self._report = None
