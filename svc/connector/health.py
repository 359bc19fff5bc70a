"""Hands the Connector's health report to a Proxy that has registered it."""

from __future__ import annotations

from typing import Protocol

from attrs import define, field

from svc.errors import SvcError, Unavailable
from svc.model.signing import Signed


class HealthLink(Protocol):
    """A connection to a Proxy."""

    async def report_health(self, signed: Signed) -> None:
        """Hand it over.  Raises SvcError: the Proxy did not take it."""


@define(eq=False)
class HealthLinks:
    """The connections of one Connector that a report can go over."""

    _links: dict[HealthLink, None] = field(factory=dict, init=False)

    def came(self, link: HealthLink) -> None:
        """A Proxy has registered us."""
        self._links[link] = None

    def left(self, link: HealthLink) -> None:
        """Its registration is over.  Idempotent."""
        self._links.pop(link, None)

    async def deliver(self, signed: Signed) -> None:
        """Hand a report to the first Proxy that takes it.

        Raises:
            SvcError: none did.
        """
        failed: SvcError = Unavailable("no Proxy has registered this Connector")
        for link in tuple(self._links):
            try:
                await link.report_health(signed)
                return
            except SvcError as refusal:
                failed = refusal
        raise failed
