"""Has Authority count uses of approvals for requests inside gated sessions (rule R30)."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.messages.access import (
    USE_APPROVAL_METHOD,
    ApprovalAsk,
    ApprovalForRequests,
    read_use_approval_response,
    use_approval_request,
)
from svc.model.signing import Signed
from svc.proto.gate.v1 import control_pb2 as pb

_log = Logger(namespace="svc_proxy")

_USE_SECS = 5.0
_NONE_SECS = 2.0
"""For so long after there was no approval of an action, a session asks for none."""


@define
class SessionApprovals:
    """Those of one session.

    Attributes:
        grant: Of the session, as Authority signed it.
    """

    grant: Signed
    channel: Callable[[], IRpcChannel]
    clock: IReactorTime
    _none_until: dict[tuple[str, bool], float] = field(factory=dict, init=False)

    async def use(
        self, session_uid: str, action: str, text_sha256: str = "", only_exact: bool = False
    ) -> ApprovalForRequests:
        """The approval that a request may stand on; a use of it is on record.

        Without an answer there is none: the request is denied, as it would be without asking.

        Args:
            text_sha256: In hex, of the request's exact text; empty: it has none.
            only_exact: An approval of the action would not turn the denial.
        """
        wanted = action, only_exact
        if self._none_until.get(wanted, 0.0) > self.clock.seconds():
            return ApprovalForRequests(None)
        ask = ApprovalAsk(
            grant=self.grant, action=action, text_sha256=text_sha256, only_exact=only_exact
        )
        try:
            message = await self.channel().unary(
                USE_APPROVAL_METHOD,
                use_approval_request(ask),
                pb.UseApprovalResponse,
                timeout=_USE_SECS,
            )
            found = read_use_approval_response(message)
        except SvcError as failed:
            _log.info("no approval could be asked for", session=session_uid, reason=failed.reason)
            found = ApprovalForRequests(None)
        # Where another text is approved, the next request may be that one.
        if found.approved is None and not found.exact:
            self._none_until[wanted] = self.clock.seconds() + _NONE_SECS
        return found
