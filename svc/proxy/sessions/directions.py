"""Two directions of one session, served side by side by a coroutine each."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, FirstError, gatherResults


async def until_both(*directions: Awaitable[None]) -> None:
    """Until both have returned; what one raises cancels the other."""
    await _first_error(gatherResults, directions)


async def until_either(*directions: Awaitable[None]) -> None:
    """Until one has returned, or raised; the other is cancelled."""
    await _first_error(_first, directions)


async def _first_error(joined: Any, directions: Iterable[Awaitable[None]]) -> None:
    serving = [Deferred.fromCoroutine(_served(each)) for each in directions]
    try:
        await joined(serving, consumeErrors=True)
    except FirstError as first:
        first.subFailure.raiseException()
    finally:
        for one in serving:
            one.addErrback(lambda _: None)
            one.cancel()


def _first(serving: list[Deferred[None]], consumeErrors: bool) -> Deferred[Any]:
    return DeferredList(
        serving, fireOnOneCallback=True, fireOnOneErrback=True, consumeErrors=consumeErrors
    )


async def _served(direction: Awaitable[None]) -> None:
    await direction
