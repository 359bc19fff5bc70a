"""What a Proxy says to this identity now, where no ``svc up`` runs that would know.

In the form in which the resident tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.interfaces import IReactorTime

from svc.client.link import ConfiguredProxy, first_listing, merge, not_reached
from svc.errors import SvcError
from svc.messages.session import Listing
from svc.messages.snapshot import REVOCATIONS
from svc.model.session.lacking import LACKING
from svc.runtime.services import bounded

ANSWER_TIMEOUT_SECS = 5.0
"""For one Proxy: the connection, and the list of resources."""

NOT_ASKED: dict[str, Any] = {"proxy": None, "no_new_sessions": None, "resources": None}
"""What is told where no Proxy was asked."""


async def ask_proxies(
    ways: Sequence[ConfiguredProxy], clock: IReactorTime, config: str
) -> dict[str, Any]:
    """Whether the first Proxy that answers takes this identity, and how many resources it lists.

    A Proxy refuses the list to who was disabled or revoked.

    Args:
        config: The file that has the addresses of the Proxies.
    """
    address = problem = ""
    for way in ways:
        address = way.address
        try:
            listing = await bounded(clock, ANSWER_TIMEOUT_SECS, _listing(way, clock), "the Proxy")
        except SvcError as refusal:
            problem = not_reached(address, refusal, config).text
            if refusal.reason in REVOCATIONS:
                why = {refusal.reason: REVOCATIONS[refusal.reason]}
                return _told(address, problem=problem, why=why)
            continue
        why = {word: LACKING[word] for word in listing.lacking}
        return _told(address, why=why, resources=len(merge({}, listing)))
    return _told(address, problem=problem)


async def _listing(way: ConfiguredProxy, clock: IReactorTime) -> Listing:
    channel = await way.dial()
    try:
        return await first_listing(channel, clock)
    finally:
        await channel.close()


def _told(
    address: str,
    problem: str = "",
    why: dict[str, str] | None = None,
    resources: int | None = None,
) -> dict[str, Any]:
    return {
        "proxy": {"connected": not problem, "address": address, "problem": problem},
        "no_new_sessions": [
            {"reason": reason, "text": text} for reason, text in (why or {}).items()
        ],
        "resources": resources,
    }
