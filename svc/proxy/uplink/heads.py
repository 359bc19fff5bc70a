"""Signed heads at a Proxy: it keeps the latest, sends it back, and passes it on.

A Proxy cannot see whether a greater head continues the one it keeps; the
Authority is told that one at each greeting and looks.  What a Proxy sees by
itself is an Authority that stays behind it, or two heads of one size that
differ: then it leaves that Authority, because what that one grants is not on
the log that others know (rule R10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.audit.checkpoint.latest import HeadComparison, LatestCheckpoint, parse_head
from svc.audit.spool.refusals import disk_full
from svc.errors import AuditBroken, SvcError, Unavailable
from svc.runtime import durable

LAG_SECS = 30.0
"""An Authority that does not write itself may be so far behind with its heads, not more."""

MAX_RESTORED = 8
"""Proofs of a restored store that are handed on to clients."""

_log = Logger(namespace="svc_proxy")


@define
class KnownCheckpoints:
    """What this Proxy knows of the log.

    Attributes:
        restored: Told by which head the log went on from an older store: what counts up goes back,
            once.  Told with each head that comes, because it may have failed the time before.
    """

    latest_checkpoint: LatestCheckpoint
    clock: IReactorTime
    restored: Callable[[str], object]
    _behind_since: float | None = field(default=None, init=False)
    _proofs: tuple[bytes, ...] = field(default=(), init=False)
    _unkept: bytes = field(default=b"", init=False)
    _refusal: SvcError | None = field(default=None, init=False)

    def check(self) -> None:
        """Refuse new sessions while a received head cannot be stored.

        Raises:
            SvcError: the disk did not take it.
        """
        if self._refusal is not None:
            raise self._refusal

    async def mend(self) -> None:
        """Keep what the disk did not take; called again and again."""
        await self.receive_head(self._unkept)

    @property
    def line(self) -> bytes:
        """The head that a greeting presents to the Authority; empty if none is stored."""
        return self.latest_checkpoint.line

    @property
    def lines(self) -> tuple[bytes, ...]:
        """The heads for clients: each proof of a restored store, then the latest head."""
        line = self.line
        return (*(one for one in self._proofs if one != line), *((line,) if line else ()))

    async def take(self, lines: Iterable[bytes]) -> None:
        """Accept the Authority's heads, the newest last.

        Raises:
            AuditBroken: ``audit_rolled_back``: it contradicts what is kept, or stays behind it.
            SvcError: one is no head, or nobody that we trust signed it.
        """
        taken = None
        for line in lines:
            try:
                taken = await self._take(line)
            except AuditBroken as broken:
                self._alarm(broken)
                raise
        if taken is HeadComparison.BEHIND:
            self._check_lag()
        elif taken is not None:
            self._behind_since = None

    async def receive_head(self, line: bytes) -> None:
        """A client shows the greatest head it keeps; what is no head, or empty, is passed over."""
        if not line:
            return
        try:
            await self._take(line)
        except AuditBroken as broken:
            if broken.reason == "audit_rolled_back":
                self._alarm(broken)
        except SvcError as refused:
            _log.debug("a client's audit head was not accepted", reason=refused.reason)

    async def _take(self, line: bytes) -> HeadComparison | None:
        """Take one; None where the disk did not, which is tried again."""
        try:
            taken = await self.latest_checkpoint.take(line)
        except OSError as e:
            self._not_kept(line, e)
            return None
        if line == self._unkept or taken in (HeadComparison.NEWER, HeadComparison.RESTORED):
            if self._refusal is not None:
                _log.info("audit heads can be stored again")
            self._unkept, self._refusal = b"", None
        if taken is HeadComparison.RESTORED:
            head = self.latest_checkpoint.kept
            assert head is not None
            _log.warn(
                "the audit log continues from an older store, as a signed record confirms",
                record=head.head.tree_size,
            )
        if self.latest_checkpoint.restoration:
            self.restored(self.latest_checkpoint.restoration)
        if (
            taken is not HeadComparison.BEHIND
            and line not in self._proofs
            and parse_head(line).restored
        ):
            self._proofs = (*self._proofs, line)[-MAX_RESTORED:]
        return taken

    def _not_kept(self, line: bytes, error: OSError) -> None:
        if self._refusal is None:
            _log.error(
                "an audit head cannot be stored, so no session can open",
                reason=error.strerror or str(error),
                file=str(error.filename or self.latest_checkpoint.path),
            )
        self._unkept = line
        if durable.is_full(error):
            self._refusal = disk_full()
        else:
            self._refusal = Unavailable(
                "the Proxy cannot store the audit head sent by Authority, so no session can open",
                reason="audit_unavailable",
            )

    def _check_lag(self) -> None:
        now = self.clock.seconds()
        if self._behind_since is None:
            self._behind_since = now
        if now - self._behind_since < LAG_SECS:
            return
        self._behind_since = None
        kept = self.latest_checkpoint.kept
        size = 0 if kept is None else kept.head.tree_size
        behind = AuditBroken(
            f"Authority's audit log is behind the signed head over {size} records that is kept "
            "here; ask its operator to run svc authority audit verify",
            reason="audit_rolled_back",
        )
        self._alarm(behind)
        raise behind

    def _alarm(self, broken: AuditBroken) -> None:
        _log.error("the audit log was rolled back", reason=broken.reason, text=broken.text)
