"""Converts our refusals to gRPC status and back.

A refusal travels as status code, sentence, and ``google.rpc.ErrorInfo`` with its reason word, so
that the far side raises the same :class:`~svc.errors.SvcError`; one that says when to ask again
carries a ``google.rpc.RetryInfo`` too.  Nothing of any other exception passes this module.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as RichStatus

from svc.errors import Fault, SvcError, Unavailable, Unprocessed
from svc.wire.status import Code, Status
from svc.wire.streams import Stream

DOMAIN = "svc"
UNKNOWN_METHOD = "unknown_method"

MAX_RETRY_SECS = 3600.0
"""A peer's word of when to ask again counts for no longer."""

_CODES = {
    Fault.INVALID: Code.INVALID_ARGUMENT,
    Fault.UNAUTHENTICATED: Code.UNAUTHENTICATED,
    Fault.DENIED: Code.PERMISSION_DENIED,
    Fault.NOT_FOUND: Code.NOT_FOUND,
    Fault.EXISTS: Code.ALREADY_EXISTS,
    Fault.PRECONDITION: Code.FAILED_PRECONDITION,
    Fault.EXHAUSTED: Code.RESOURCE_EXHAUSTED,
    Fault.ABORTED: Code.ABORTED,
    Fault.OUT_OF_RANGE: Code.OUT_OF_RANGE,
    Fault.UNIMPLEMENTED: Code.UNIMPLEMENTED,
    Fault.UNAVAILABLE: Code.UNAVAILABLE,
    Fault.DEADLINE: Code.DEADLINE_EXCEEDED,
    Fault.CANCELLED: Code.CANCELLED,
    Fault.DATA_LOSS: Code.DATA_LOSS,
    Fault.UNKNOWN: Code.UNKNOWN,
    Fault.INTERNAL: Code.INTERNAL,
}
_FAULTS = {code: fault for fault, code in _CODES.items()}


def status_of(refusal: SvcError) -> Status:
    """The status that sends *refusal* to a peer."""
    code = _CODES[refusal.fault]
    rich = RichStatus(code=int(code), message=refusal.text)
    info = ErrorInfo(reason=refusal.reason, domain=DOMAIN, metadata=dict(refusal.details))
    rich.details.add().Pack(info)
    if refusal.retry_after is not None:
        again = RetryInfo()
        again.retry_delay.FromNanoseconds(round(refusal.retry_after * 1e9))
        rich.details.add().Pack(again)
    return Status(code, refusal.text, rich.SerializeToString())


def refusal_of(status: Status) -> SvcError:
    """The refusal in *status*, which is not OK.

    Without an ErrorInfo of ours the reason is the status code's own name.
    """
    reason = status.code.name.lower()
    info, retry_after = _read_details(status.details)
    if info is not None and info.reason:
        reason = info.reason
    return SvcError(
        status.message or reason,
        reason=reason,
        fault=_FAULTS.get(status.code, Fault.UNKNOWN),
        details=dict(info.metadata) if info is not None else {},
        retry_after=retry_after,
    )


def refusal_of_stream(stream: Stream) -> SvcError | None:
    """Why the peer's answer to a call is not OK; None if it is OK or has not arrived.

    Its class is :class:`~svc.errors.Unprocessed` where the peer did nothing for the call.
    """
    status = stream.status
    if status is None or status.code is Code.OK:
        return None
    if stream.is_unprocessed:
        return Unprocessed(status.message)
    return refusal_of(status)


def _read_details(details: bytes) -> tuple[ErrorInfo | None, float | None]:
    """The first ErrorInfo of ours, and the seconds of a RetryInfo; what is unreadable is absent."""
    if not details:
        return None, None
    found, seconds = None, None
    info, again = ErrorInfo(), RetryInfo()
    try:
        for detail in RichStatus.FromString(details).details:
            if detail.Is(ErrorInfo.DESCRIPTOR) and detail.Unpack(info) and info.domain == DOMAIN:
                found = found or info
                info = ErrorInfo()
            elif detail.Is(RetryInfo.DESCRIPTOR) and detail.Unpack(again):
                delay = again.retry_delay
                seconds = min(MAX_RETRY_SECS, max(0.0, delay.seconds + delay.nanos / 1e9))
    except DecodeError:
        return found, seconds
    return found, seconds


def cancelled(text: str, reason: str = "cancelled") -> SvcError:
    """The refusal of a call that one end broke off."""
    return SvcError(text, reason=reason, fault=Fault.CANCELLED)


def deadline_exceeded() -> SvcError:
    """The refusal of a call whose time is up."""
    return SvcError("the call's time is up", reason="deadline_exceeded", fault=Fault.DEADLINE)


def connection_lost(reason: str, *, has_begun: bool = True) -> SvcError:
    """The refusal of a call whose connection ended; one that had not begun may be made again."""
    refusal = Unavailable if has_begun else Unprocessed
    return refusal("the connection has ended", reason=reason)
