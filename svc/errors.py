"""The one error tree.

Inside the house there is one error type, :class:`SvcError`.  It says what sort
of refusal this is (:class:`Fault`), names it with a stable word that a program
may compare (``reason``), and tells a person what, where and what to do
(``text``).  RPC status, HTTP status and exit code are chosen at the edge from
``fault`` alone: ``svc.rpc.status`` and ``svc.cli``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Self

_NO_DETAILS: Mapping[str, str] = MappingProxyType({})


class Fault(Enum):
    """The sort of a refusal; each edge maps it to its own code."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    EXISTS = "exists"
    PRECONDITION = "precondition"
    EXHAUSTED = "exhausted"
    ABORTED = "aborted"
    OUT_OF_RANGE = "out_of_range"
    UNIMPLEMENTED = "unimplemented"
    UNAVAILABLE = "unavailable"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    DATA_LOSS = "data_loss"
    UNKNOWN = "unknown"
    INTERNAL = "internal"


class SvcError(Exception):
    """A refusal or failure that this project raises on purpose.

    Args:
        text: One sentence for a person: what, where, what to do.  Never holds
            a secret, and never a name its reader may not see.
        reason: A stable word in ``lower_snake_case`` that programs compare;
            documented, never changed.  Defaults to the class's own.
        fault: The sort of refusal.  Defaults to the class's own.
        details: Further public facts, string to string (for
            ``ErrorInfo.metadata``).
        retry_after: Seconds after which asking again may help, where that is
            known (for ``RetryInfo``).
    """

    fault: Fault = Fault.INTERNAL
    reason: str = "internal"
    retry_after: float | None = None
    exit_code: int = 1

    def __init__(
        self,
        text: str,
        *,
        reason: str | None = None,
        fault: Fault | None = None,
        details: Mapping[str, str] = _NO_DETAILS,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.details = details
        self.retry_after = retry_after
        if reason is not None:
            self.reason = reason
        if fault is not None:
            self.fault = fault

    def with_(self, *, text: str | None = None, **details: str) -> Self:
        """The same refusal with another text, or with these details too."""
        cls = type(self)
        told = self.text if text is None else text
        # Classes differ in what they are made of; what they hold is copied.
        other = cls.__new__(cls, told)
        other.__dict__.update(self.__dict__)
        other.text, other.details = told, {**self.details, **details}
        return other

    def __str__(self) -> str:
        return self.text


class ConfigError(SvcError):
    """The configuration, the environment or a file they name is refused.

    Args:
        where: The dotted path of the key, the variable's name or the file.
        what: What is wrong with it and what to do; the value itself only
            where it cannot be a secret.
    """

    fault = Fault.INVALID
    reason = "config"

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


class UsageError(SvcError):
    """The command line is not of the form that ``--help`` shows."""

    fault = Fault.INVALID
    reason = "usage"
    exit_code = 64


class PluginError(SvcError):
    """A drop-in is missing, doubled, unsafe, or does not keep its interface."""

    fault = Fault.INVALID
    reason = "plugin"


class MigrationsPending(SvcError):
    """The store lacks migrations this build needs; the text names them."""

    fault = Fault.PRECONDITION
    reason = "migrations_pending"
    exit_code = 3


class UnknownApplied(SvcError):
    """The store holds migrations this build does not know: it is older than the store."""

    fault = Fault.PRECONDITION
    reason = "unknown_applied"
    exit_code = 4


class MigrationsBroken(SvcError):
    """The store's ledger has a gap, or an applied migration's checksum changed."""

    fault = Fault.DATA_LOSS
    reason = "migrations_broken"


class LeaseLost(SvcError):
    """This instance is not the write leader (any more); nothing was written.

    Args:
        leader: The lease owner of the instance that is, as far as is known; empty: nobody.
        advice: What to do, where that is not to turn to another instance by itself.
    """

    fault = Fault.PRECONDITION
    reason = "not_leader"

    def __init__(self, leader: str = "", advice: str = "") -> None:
        who = f"the leader is {leader}" if leader else "there is no leader at the moment"
        what = f"; {advice}" if advice else ""
        super().__init__(
            f"this Authority is not the leader; {who}{what}", details={"leader": leader}
        )
        self.leader = leader


class LockTimeout(SvcError):
    """The store's migration lock was not obtained in its time."""

    fault = Fault.UNAVAILABLE
    reason = "lock_timeout"
    exit_code = 5


class AuditBroken(SvcError):
    """The audit chain does not verify; the text names the first bad sequence.

    Attributes:
        seq: That number, where a record is at fault.
        kind: The kind of fault, where there are several.
        what: What was found there, without the two.
    """

    fault = Fault.DATA_LOSS
    reason = "audit_broken"
    exit_code = 6
    seq: int | None = None
    kind: str | None = None
    what: str | None = None

    def at_start(self) -> AuditBroken:
        """The same refusal, of a start, with what the operator can do next."""
        if self.reason not in ("audit_broken", "audit_rolled_back"):
            return self
        advice = "to see what is lost and continue without it, run: svc authority audit adopt"
        return AuditBroken(f"{self.text}; {advice}", reason=self.reason)


class RecordLost(AuditBroken):
    """The store did not keep a record as it was written; what the record was of is undone."""

    reason = "audit_record_lost"

    @classmethod
    def at(cls, seq: int) -> RecordLost:
        """The refusal; *seq* is the first such record."""
        return cls(
            f"audit log: the store did not keep record {seq} as it was written, so that "
            "transaction was rolled back.  Look for triggers and rules on its tables, and for "
            "other writers"
        )


class BackupBroken(SvcError):
    """A backup is not whole, not of one generation, or not as its manifest says; names the part."""

    fault = Fault.DATA_LOSS
    reason = "backup_broken"


class StoreUnavailable(SvcError):
    """The store did not answer, or answered too late; nothing was committed."""

    fault = Fault.UNAVAILABLE
    reason = "store_unavailable"


class StoreFull(StoreUnavailable):
    """The disk that the store is on is full; nothing was committed."""

    reason = "store_full"

    @classmethod
    def on(cls, what: str) -> StoreFull:
        """The refusal; its reader may be anybody, so it names a role and no file.

        Args:
            what: Whose disk it is.
        """
        text = f"the disk of {what} is full, so nothing was written; its operator must free space"
        return cls(text, retry_after=5.0)


class AlreadyExists(SvcError):
    """What is to be added is there, or was once; nothing was changed."""

    fault = Fault.EXISTS
    reason = "already_exists"


class NoSuchRow(SvcError):
    """What is to be changed or referred to is not in the store."""

    fault = Fault.NOT_FOUND
    reason = "not_found"


class Denied(SvcError):
    """A policy decision that is not a clean Allow."""

    fault = Fault.DENIED
    reason = "denied"


class Unauthenticated(SvcError):
    """The caller showed no usable identity for what it asked."""

    fault = Fault.UNAUTHENTICATED
    reason = "unauthenticated"


class Malformed(SvcError):
    """A message of a peer is malformed."""

    fault = Fault.INVALID
    reason = "malformed"


class TooMany(SvcError):
    """A caller asks more than its budget; it is told when asking again may help.

    Args:
        retry_after: Seconds until then.
        hold: Seconds in which nothing more should be read from the connection
            it came over.
    """

    fault = Fault.EXHAUSTED
    reason = "too_many_requests"

    def __init__(self, text: str, *, retry_after: float, hold: float = 0.0) -> None:
        super().__init__(text, retry_after=retry_after)
        self.hold = hold


class SpoolFull(TooMany):
    """No room is left for the audit record of what was asked, so it was not done."""

    reason = "audit_spool_full"


class Unavailable(SvcError):
    """Somebody we need does not answer; trying again later may help."""

    fault = Fault.UNAVAILABLE
    reason = "unavailable"


class Unprocessed(Unavailable):
    """The other end did nothing for the call: it may be made again, elsewhere.

    Only what this process saw of its own connection is of this class; a refusal that a peer tells
    of never is, whatever its reason.  ``reason`` is ``unprocessed``, or why the connection takes
    no call (``going_away``, ``lost``).
    """

    reason = "unprocessed"


class ListenRefused(SvcError):
    """An address of the configuration could not be bound.

    Args:
        key: The dotted path of the key that names the address.
        address: The address as written there.
        why: What the system answered.
    """

    fault = Fault.UNAVAILABLE
    reason = "cannot_listen"

    def __init__(self, key: str, address: str, why: str) -> None:
        is_taken = why == os.strerror(errno.EADDRINUSE).lower()
        remedy = "; stop what listens there, or choose another port" if is_taken else ""
        super().__init__(f"{key}: cannot listen on {address}: {why}{remedy}")
        self.key = key
        self.address = address
