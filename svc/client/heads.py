"""The latest signed head of the audit log that a person's resident received (rule R10).

Whoever keeps one can show later what the log was.  A log that goes back is
told on standard error; nothing is refused for it, because what a person opens
is decided by grants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svc.audit.checkpoint.latest import HeadComparison, LatestCheckpoint
from svc.errors import AuditBroken, SvcError

_log = Logger(namespace="svc_client")


@define
class KnownHead:
    """What this resident knows of the log.

    Attributes:
        problem: What was wrong with the last head that was shown; empty while all is well.
    """

    latest_checkpoint: LatestCheckpoint
    problem: str = field(default="", init=False)

    @property
    def line(self) -> bytes:
        """The head that a Proxy receives; empty if none is stored."""
        return self.latest_checkpoint.line

    @property
    def public(self) -> dict[str, Any]:
        """As commands show it."""
        kept = self.latest_checkpoint.kept
        return {
            "records": 0 if kept is None else kept.head.tree_size,
            "time": None if kept is None else kept.head.time,
            "hash": None if kept is None else kept.hash.hex(),
            "problem": self.problem,
        }

    async def take(self, lines: Iterable[bytes]) -> None:
        """Keep the greatest of what a Proxy shows, the newest last; never raises a refusal."""
        taken = None
        try:
            for line in lines:
                taken = await self.latest_checkpoint.take(line)
                if taken is HeadComparison.RESTORED:
                    _log.warn(
                        "the audit log continues from an older store, as a signed record confirms"
                    )
        except (SvcError, OSError) as refused:
            self._report(refused)
            return
        if taken is HeadComparison.BEHIND:
            self._report(
                AuditBroken(
                    "the Proxy presented an audit log that is behind the one it presented "
                    "before; tell the operator of the gateway",
                    reason="audit_rolled_back",
                )
            )
        elif taken is not None:
            self.problem = ""

    def _report(self, refused: SvcError | OSError) -> None:
        """Once for each thing that is wrong: lists come again and again."""
        before, self.problem = self.problem, str(refused)
        if self.problem != before:
            reason = refused.reason if isinstance(refused, SvcError) else "audit_head_file"
            _log.warn("the audit log was changed or rolled back", reason=reason, text=self.problem)
