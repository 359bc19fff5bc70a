"""What a role cannot do at the moment although it counts as ready.

A Proxy stays ready when Authority goes away (document 1), and refuses every
open meanwhile.  What it lacks stands in the body of ``/readyz`` and in a
series; with ``telemetry.ready_follows`` it takes readiness away as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svc.errors import SvcError
from svc.proxy.uplink.link import AuthorityLink
from svc.proxy.uplink.snapshot import SnapshotHolder
from svc.runtime.services import PeriodicTask
from svc.telemetry.metrics import Metrics

CONTROL = "control pool"
POLICY = "policy"
SPOOL = "audit spool"

MEANING = {
    CONTROL: "Authority is not reached: no session opens, and nobody joins or renews through here",
    POLICY: "there is no fresh policy: no session opens",
}
"""What is told beside a condition; that of the spool says for itself what is wrong."""

_LOOK_SECS = 1.0


@define
class DegradedConditions:
    """The conditions to check, each evaluated when its result is needed."""

    _asked: dict[str, Callable[[], str]] = field(factory=dict, init=False)

    @property
    def lines(self) -> tuple[str, ...]:
        """The conditions that do not hold now, each with what it means."""
        found = ((name, ask()) for name, ask in self._asked.items())
        return tuple(f"{name} ({what})" for name, what in found if what)

    @property
    def names(self) -> tuple[str, ...]:
        """The conditions that do not hold now."""
        return tuple(name for name, ask in self._asked.items() if ask())

    @property
    def words(self) -> tuple[str, ...]:
        """The conditions that do not hold now, as words of ``svc_proxy_lacking``."""
        return tuple(map(_word, self.names))

    def on_change(self, clock: IReactorTime, changed: Callable[[], object]) -> PeriodicTask:
        """What calls *changed* once the conditions that hold are others than before."""
        seen: tuple[str, ...] = ()

        async def look() -> None:
            nonlocal seen
            words = self.words
            if words != seen:
                seen = words
                changed()

        return PeriodicTask(
            clock=clock,
            interval=_LOOK_SECS,
            call=look,
            what="looking at what is lacking",
        )

    def watch(
        self,
        link: AuthorityLink,
        holder: SnapshotHolder,
        checks: Sequence[Callable[[], object]],
        metrics: Metrics,
    ) -> None:
        """Look at a Proxy from now on; called once it has an identity to work with.

        Args:
            checks: Each raises SvcError while something cannot be recorded.
        """
        self._asked = {
            CONTROL: lambda: "" if link.is_connected else MEANING[CONTROL],
            POLICY: lambda: "" if holder.is_fresh else MEANING[POLICY],
            SPOOL: lambda: _refusal(checks),
        }
        for name, ask in self._asked.items():
            gauge = metrics.gauge("svc_proxy_lacking", condition=_word(name))
            gauge.read(lambda ask=ask: 1 if ask() else 0)  # type: ignore[misc]


def _word(name: str) -> str:
    return name.replace(" ", "_")


def _refusal(checks: Iterable[Callable[[], object]]) -> str:
    """Why something could not be recorded now; empty where it could."""
    try:
        for check in checks:
            check()
    except SvcError as refused:
        return refused.text
    return ""
