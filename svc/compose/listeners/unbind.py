"""Stops services that may have bound their addresses but never started.

Addresses are bound before anything starts, and a tree stops only what had
started.  Where the process ends at that, nothing more is to be done; who goes
on in the same process ends a tree here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import maybeDeferred

from svc.compose.listeners.rpc import RpcListener
from svc.runtime.services import AsyncMultiService, BoundPort


async def end(tree: AsyncMultiService) -> None:
    """Stop what runs, then close what was bound and never ran."""
    await tree.stopService()
    for listener in bound(tree):
        await maybeDeferred(listener.stopService)


def bound(tree: Any) -> Iterator[BoundPort]:
    """Every listener of a tree, the ones below it included."""
    for service in tree:
        if isinstance(service, RpcListener):
            yield service.listener
        elif isinstance(service, BoundPort):
            yield service
        elif isinstance(service, AsyncMultiService):
            yield from bound(service)
