"""Sends signed heads to Proxies, and checks the heads that Proxies present (rule R10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from attrs import define, field

from svc.audit.checkpoint.anchor import RESTORED_KEPT
from svc.audit.checkpoint.head import to_line
from svc.audit.checkpoint.rewind import Restoration, restoration
from svc.model.audit.record import SignedHead


@define
class HeadsToSend:
    """The newest head, and before it those that go on from an older store.

    Attributes:
        receive_head: Takes the greatest head that somebody keeps; raises AuditBroken where our
            log is behind it or another one.
    """

    receive_head: Callable[[bytes], Awaitable[object]]
    lines: tuple[bytes, ...] = field(default=(), init=False)
    _restored: tuple[bytes, ...] = field(default=(), init=False)
    _restorations: tuple[Restoration, ...] = field(default=(), init=False)

    def load(self, restored: Iterable[SignedHead]) -> None:
        """Begin with what the anchor directory has.

        Raises:
            AuditBroken: one of them does not prove what it says.
        """
        heads = list(restored)
        stated = [restoration(head) for head in heads]
        self._restored = tuple(to_line(head) for head in heads)
        self._restorations = tuple(one for one in stated if one is not None)
        self.lines = self._restored

    def signed(self, head: SignedHead) -> None:
        """A head is durable: the next frames contain it."""
        line, stated = to_line(head), restoration(head)
        if stated is None:
            self.lines = (*self._restored, line)
            return
        self._restored = (*self._restored, line)[-RESTORED_KEPT:]
        self._restorations = (*self._restorations, stated)[-RESTORED_KEPT:]
        self.lines = self._restored

    def restorations(self) -> tuple[Restoration, ...]:
        """The lines of the log that were given up on purpose."""
        return self._restorations
