"""Where, in an answer that lasts, its end can be told before it is broken off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from svc.kinds.web.body import BodyScan
from svc.kinds.web.head import SWITCHING, WEBSOCKET, HttpAnswer, HttpRequest
from svc.kinds.web.websocket import FrameScan


class EndScan(Protocol):
    """Follows the bytes of one answer after its head."""

    @property
    def form(self) -> str:
        """Of the edit ``ended``."""

    @property
    def is_between(self) -> bool:
        """Whether what has come ends where a last word may follow."""

    def take(self, data: bytes) -> None:
        """Read the next bytes; raises Malformed."""


EndOf = Callable[[HttpRequest, HttpAnswer, BodyScan | None], EndScan | None]
"""What follows this answer; None: nothing can be told in it.

Its body is None where another protocol follows.
"""


def websocket_end(
    request: HttpRequest, answer: HttpAnswer, body: BodyScan | None
) -> EndScan | None:
    """A WebSocket is closed; what else lasts is cut off."""
    is_opened = answer.status == SWITCHING and request.protocol == WEBSOCKET
    return FrameScan() if is_opened else None
