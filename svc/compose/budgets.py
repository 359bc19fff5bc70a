"""The budgets of a role, from its settings."""

from __future__ import annotations

from attrs import frozen

from svc.authority.limits import AskRates
from svc.compose.telemetry import budget_meter
from svc.config.values import LimitSettings
from svc.proxy.sessions.limits import ConnectorRates, PersonRates
from svc.ratelimit.counter import RefusalCounter
from svc.ratelimit.limits import Budget, Rate, RefusalPolicy
from svc.runtime.context import Runtime
from svc.telemetry.metrics import Metrics

RATES = (
    *("limits.opens_per_minute", "limits.opens_burst"),
    *("limits.denials_per_minute", "limits.denials_burst"),
    *("limits.node_calls_per_minute", "limits.node_calls_burst"),
)
"""The keys of what Proxy and Authority count both."""

AT_AUTHORITY = (*RATES, "limits.asks_per_proxy")
AT_PROXY = (*RATES, "limits.requests_per_minute", "limits.requests_burst")
_CALLERS_AT_AUTHORITY = 256
_SLACK = 1.25
"""Authority lets so much more through at once: its buckets are used a moment after a Proxy's, and
who keeps to one Proxy's budget is to be refused there, where it is told soonest."""


_PEER_CALLS = Rate(per_minute=60_000, burst=10_000)
"""Of one other Proxy: each session it relays is one or two, and was granted to its person."""


@frozen
class ProxyRates:
    """The budgets of one Proxy, and what they refused."""

    refusal_counter: RefusalCounter
    persons: PersonRates
    connectors: ConnectorRates
    peers: Budget

    def change(self, limits: LimitSettings) -> None:
        """Go by other limits from now on."""
        self.persons.change(_opens(limits), _denials(limits), _requests(limits))
        self.connectors.change(_calls(limits))


def proxy_rates(runtime: Runtime, limits: LimitSettings, metrics: Metrics) -> ProxyRates:
    """Of a Proxy."""
    refusal_counter = RefusalCounter(runtime.now)
    refusals = RefusalPolicy(refusal_counter, runtime.reactor.seconds, budget_meter(metrics))
    return ProxyRates(
        refusal_counter=refusal_counter,
        persons=PersonRates.of(
            refusals=refusals,
            opens=_opens(limits),
            denials=_denials(limits),
            requests=_requests(limits),
        ),
        connectors=ConnectorRates.of(refusals, _calls(limits)),
        peers=Budget.of("peers", refusals, _PEER_CALLS.per_minute, _PEER_CALLS.burst),
    )


def authority_rates(runtime: Runtime, limits: LimitSettings, metrics: Metrics) -> AskRates:
    """Of an Authority."""
    refusal_counter = RefusalCounter(runtime.now, _CALLERS_AT_AUTHORITY)
    refusals = RefusalPolicy(refusal_counter, runtime.reactor.seconds, budget_meter(metrics))
    return AskRates.of(refusals, *_of_authority(limits))


def change_authority_rates(rates: AskRates, limits: LimitSettings) -> None:
    """Go by other limits from now on."""
    rates.change(*_of_authority(limits))


def _of_authority(limits: LimitSettings) -> tuple[Rate, Rate, Rate, int]:
    """Opens, denials, calls of nodes, and requests at once."""
    rates = (_wider(each(limits)) for each in (_opens, _denials, _calls))
    opens, denials, calls = rates
    return opens, denials, calls, limits.asks_per_proxy


def _wider(rate: Rate) -> Rate:
    return Rate(rate.per_minute, rate.burst * _SLACK)


def _opens(limits: LimitSettings) -> Rate:
    return Rate(limits.opens_per_minute, limits.opens_burst)


def _denials(limits: LimitSettings) -> Rate:
    return Rate(limits.denials_per_minute, limits.denials_burst)


def _requests(limits: LimitSettings) -> Rate:
    return Rate(limits.requests_per_minute, limits.requests_burst)


def _calls(limits: LimitSettings) -> Rate:
    return Rate(limits.node_calls_per_minute, limits.node_calls_burst)
