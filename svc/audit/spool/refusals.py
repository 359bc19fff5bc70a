"""Why a Proxy cannot write a record to its spool, in words that anybody may read."""

from __future__ import annotations

from svc.errors import SpoolFull, SvcError, Unavailable
from svc.runtime import durable

_AGAIN_SECS = 5.0


def full() -> SpoolFull:
    """The error for a record for which there is no room."""
    return SpoolFull(
        "the audit spool is full, so no session opens; try again when Authority has accepted some "
        "of it",
        retry_after=_AGAIN_SECS,
    )


def disk_full() -> SpoolFull:
    """The refusal of whatever would have to be recorded on a disk that is full."""
    return SpoolFull(
        "the disk of the Proxy is full, so no session opens; its operator must free space",
        retry_after=_AGAIN_SECS,
    )


def refusal_of(error: OSError) -> SvcError:
    """The refusal of a record that the disk did not take."""
    if durable.is_full(error):
        return disk_full()
    return Unavailable(
        f"the audit spool cannot be written ({why(error)}), so no session opens",
        reason="audit_unavailable",
    )


def closed() -> SvcError:
    """The refusal of a record past the end of the spool."""
    return Unavailable("the audit spool is closed: this Proxy is stopping", reason="draining")


def why(error: OSError) -> str:
    """The system's words, without a file's name."""
    return error.strerror or type(error).__name__
