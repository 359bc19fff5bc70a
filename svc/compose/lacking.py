"""What a role that counts as ready cannot do at this moment.

A Proxy stays ready when Authority goes away (document 1), and refuses every
open meanwhile.  What it lacks stands in the body of ``/readyz`` and in a
series; with ``telemetry.ready_follows`` it takes readiness away as well.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.audit.spool import Spool
from svc.errors import SvcError
from svc.proxy.authority_link import AuthorityLink
from svc.proxy.snapshot import SnapshotHolder
from svc.telemetry.metrics import Metrics

CONTROL = "control pool"
POLICY = "policy"
SPOOL = "audit spool"

MEANING = {
    CONTROL: "Authority is not reached: no session opens, and nobody joins or renews through here",
    POLICY: "there is no fresh policy: no session opens",
    SPOOL: "the audit spool takes no record: no session opens",
}


@define
class Lacking:
    """The conditions that are looked at, each asked whenever somebody wants to know."""

    _holds: dict[str, Callable[[], bool]] = field(factory=dict, init=False)

    @property
    def words(self) -> tuple[str, ...]:
        """The conditions that do not hold now."""
        return tuple(name for name, holds in self._holds.items() if not holds())

    @property
    def lines(self) -> tuple[str, ...]:
        """The same, each with what it means."""
        return tuple(f"{name} ({MEANING[name]})" for name in self.words)

    def watch(
        self, link: AuthorityLink, holder: SnapshotHolder, spool: Spool, metrics: Metrics
    ) -> None:
        """Look at a Proxy from now on; called once it has an identity to work with."""
        self._holds = {
            CONTROL: lambda: link.is_connected,
            POLICY: lambda: holder.is_fresh,
            SPOOL: lambda: _takes_records(spool),
        }
        for name, holds in self._holds.items():
            gauge = metrics.gauge("svc_proxy_lacking", condition=name.replace(" ", "_"))
            gauge.read(lambda holds=holds: 0 if holds() else 1)  # type: ignore[misc]


def _takes_records(spool: Spool) -> bool:
    try:
        spool.check()
    except SvcError:
        return False
    return True
