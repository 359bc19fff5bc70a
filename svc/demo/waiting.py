"""Waits, within a deadline, for what comes by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from svc.errors import Fault, SvcError

_BETWEEN_LOOKS = 0.02


async def until(
    clock: IReactorTime, seconds: float, holds: Callable[[], Any | Awaitable[Any]], what: str
) -> Any:
    """Look again and again until *holds* gives something true; that is what comes back.

    Raises:
        SvcError: it did not in that many seconds.
    """
    end = clock.seconds() + seconds
    while True:
        found = holds()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        if clock.seconds() >= end:
            text = f"{what}: not there after {seconds:g} s"
            raise SvcError(text, fault=Fault.DEADLINE, reason="deadline")
        await deferLater(clock, _BETWEEN_LOOKS)
