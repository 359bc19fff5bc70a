"""Limits what one address may ask of the public listener without a certificate.

The key is the TCP peer's address, never a header (rule R18).  Health checks
are not counted at all.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svc.errors import Fault, SvcError
from svc.ratelimit.source import AddressBudget


@define
class AnonymousCalls:
    """Charges calls to the budget of the address they come from.

    Attributes:
        refused: Told the name of each method that was refused, ``Service/Method`` without the
            package; a name that a caller made up reaches it as ``other``.
    """

    clock: IReactorTime
    refused: Callable[[str], object]
    budget: AddressBudget = field(factory=AddressBudget)

    def charge(self, rpc: str, host: str) -> None:
        """Count one call of *host*.

        Raises:
            SvcError: ``anonymous_budget``, with the seconds after which the next may pass.
        """
        wait = self.budget.take(host, self.clock.seconds())
        if not wait:
            return
        self.refused(rpc)
        raise SvcError(
            f"too many calls without a certificate from one address; try again in {ceil(wait)} s",
            reason="anonymous_budget",
            fault=Fault.EXHAUSTED,
            retry_after=wait,
        )
