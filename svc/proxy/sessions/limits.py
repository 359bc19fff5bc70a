"""Limits what people and Connectors may ask before anything is decided (R12, R16).

The key is the authenticated principal.  A Proxy holds its own budgets, and
Authority holds them again: neither rests on the other's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from attrs import define, field

from svc.model.audit.record import Actor
from svc.model.cluster.agent import caller_kind
from svc.model.principal import Principal
from svc.ratelimit.limits import Budget, Rate, RefusalPolicy

_COSTS = {
    "Open": 1.0,
    "Why": 1.0,
    "Access": 1.0,
    "Denied": 1.0,
    "List": 10.0,
    "Lane": 0.2,
    "Admin": 1.0,
}
"""In opens: a list is a decision on each resource there is, a lane is for a session paid for."""

_STRAY_CARRIES = Rate(per_minute=600, burst=600)
"""Carry streams that no open session waits for: a few are late, many are a flood."""

_MESSAGES = Rate(per_minute=60_000, burst=5_000)
"""What a Connector says on a tunnel: a word a lease and one a session it refuses."""


@define
class PersonRates:
    """A person's opens, how many of them may be refused, and the requests inside of sessions."""

    opens: Budget
    denials: Budget
    requests: Budget
    _undecided: dict[str, int] = field(factory=dict, init=False)

    @classmethod
    def of(cls, refusals: RefusalPolicy, opens: Rate, denials: Rate, requests: Rate) -> PersonRates:
        """With these rates for each person."""
        return cls(
            Budget.of("opens", refusals, opens.per_minute, opens.burst),
            Budget.of("denials", refusals, denials.per_minute, denials.burst),
            Budget.of("requests", refusals, requests.per_minute, requests.burst),
        )

    def change(self, opens: Rate, denials: Rate, requests: Rate) -> None:
        """Go by other rates from now on."""
        self.opens.buckets.change(opens)
        self.denials.buckets.change(denials)
        self.requests.buckets.change(requests)

    def spend(self, person: Principal, name: str) -> None:
        """Take what one call of this method costs.

        Who was denied too often may still list, and ask why.

        Raises:
            TooMany: it is not there, or the person was denied too often.
        """
        if name in ("Open", "Admin"):
            # A denial is charged when it is decided.  The beginnings of a thousand calls may come
            # before the rest of any: who was denied has no more on their way than may be denied.
            self.denials.check(person_of(person), self._undecided.get(person.id, 0))
        most = self.opens.buckets.rate.burst
        self.opens.spend(person_of(person), min(most, _COSTS.get(name, 1.0)))

    def requested(self, person: Principal) -> Callable[[], None]:
        """What is called for each request inside a session, right before its decision.

        It raises TooMany: the person makes too many; it is neither decided nor recorded.
        """
        return partial(self.requests.spend, person_of(person))

    def check(self, person: Principal) -> None:
        """Right before a decision.

        Raises:
            TooMany: the person was denied too often.
        """
        self.denials.check(person_of(person))

    def deciding(self, person: Principal) -> None:
        """One admitted open is on its way to its decision: said before anything is awaited."""
        self._undecided[person.id] = self._undecided.get(person.id, 0) + 1

    def decided(self, person: Principal) -> None:
        """It was decided, or is not going to be."""
        left = self._undecided.pop(person.id) - 1
        if left:
            self._undecided[person.id] = left

    def crowded(self, person: Principal) -> None:
        """One more session than a person may have open was refused: it is counted."""
        self.opens.refusals.count("sessions", person_of(person))

    def kept_out(self, person: Principal) -> None:
        """A person who may administer nothing asked for the admin lane: a denial, and counted."""
        self.denied(person)
        self.opens.refusals.count("admin", person_of(person))

    def denied(self, person: Principal) -> None:
        """One of the caller's requests failed, for any reason; the reasons are not told apart
        (R16).
        """
        self.denials.charge(person_of(person))

    def turned(self, person: Principal) -> None:
        """An approval turned a denial of ours: the session opens."""
        self.denials.give_back(person_of(person))


@define
class ConnectorRates:
    """What a Connector causes by itself."""

    registrations: Budget
    strays: Budget
    messages: Budget

    @classmethod
    def of(cls, refusals: RefusalPolicy, calls: Rate) -> ConnectorRates:
        """With this rate of registrations for each Connector."""
        return cls(
            Budget.of("registrations", refusals, calls.per_minute, calls.burst),
            Budget.of("carries", refusals, _STRAY_CARRIES.per_minute, _STRAY_CARRIES.burst),
            Budget.of("messages", refusals, _MESSAGES.per_minute, _MESSAGES.burst),
        )

    def change(self, calls: Rate) -> None:
        """Go by another rate of registrations from now on."""
        self.registrations.buckets.change(calls)

    def spend(self, node: Principal, name: str) -> None:
        """Take what one call of this method costs.

        Raises:
            TooMany: it is not there.
        """
        if name == "Register":
            self.registrations.spend(node_of(node))
        else:
            self.strays.check(node_of(node))

    def stray(self, node: Principal) -> None:
        """A carry stream of it was for no open session."""
        self.strays.charge(node_of(node))

    def message_sent(self, node: Principal) -> None:
        """The Connector sent one message on its tunnel.

        Raises:
            TooMany: it says too much; the tunnel is not worth keeping.
        """
        self.messages.spend(node_of(node))


def person_of(principal: Principal) -> Actor:
    """A person or an agent as records name them."""
    return _caller(principal.id)


@lru_cache(1024)
def _caller(person_id: str) -> Actor:
    """Asked for each request in a session."""
    return Actor(caller_kind(person_id), person_id)


def node_of(principal: Principal) -> Actor:
    """A node as records name it."""
    return Actor("node", principal.id)
