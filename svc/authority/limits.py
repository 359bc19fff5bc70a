"""Limits what people, nodes and Proxies may ask, checked before anything is written.

A Proxy is no witness (rule R1): whom a request counts for is who signed it,
and what proves nothing counts for the Proxy that brought it.  A Proxy under
somebody's control can so neither fill the log, nor use up another's budget,
nor take the store from another Proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field

from svc.authority.state.recorder import node, person
from svc.errors import TooMany
from svc.model.audit.record import Actor
from svc.ratelimit.limits import Buckets, Budget, Rate, RefusalPolicy
from svc.ratelimit.quota import KEPT, FairQuota

_UNPROVEN = Rate(per_minute=6_000, burst=3_000)
"""Requests that prove nothing, of one Proxy whoever it names."""

_GREETINGS = Rate(per_minute=60, burst=60)
_ROWS = Rate(per_minute=100, burst=200)
"""Rows of one Proxy's spool: what its budgets refused, summed up once a minute for 64 callers at
most, and the begin and end of a spool.  Rows of requests, where a kind writes them, are bounded by
the budgets that the requests pass."""

_ENTRIES = Rate(per_minute=2_400_000, burst=240_000)
"""Requests of one Proxy that its batches bring; a batch counts for no less than a few."""

_IDENTITIES = Rate(per_minute=12_000, burst=4_000)
"""Tokens that one Connector asks for: two a minute for each session and person named in it.

Uses of rights that it tells of, and beginnings and ends of recordings, count as well."""

_PUBLICATIONS = Rate(per_minute=3_000, burst=10_000)
"""Resources that one Connector publishes, changes or withdraws: each is a record of its own."""

_REPORTS_AT_ONCE = 8
"""Reports of one Proxy in work: it sends one after the other, and over two connections at most."""

_SOON_SECS = 1.0


@define
class ProxyPlaces:
    """So many places for each Proxy, however many others have theirs in use."""

    most: int
    _held: dict[str, int] = field(factory=dict)

    def take(self, proxy_id: str) -> bool:
        """Take one; False where all of its own are taken."""
        held = self._held.get(proxy_id, 0)
        if held >= self.most:
            return False
        self._held[proxy_id] = held + 1
        return True

    def give_back(self, proxy_id: str) -> None:
        """Give one back that :meth:`take` gave."""
        left = self._held.pop(proxy_id) - 1
        if left:
            self._held[proxy_id] = left


@define
class AskRates:
    """The budgets of one Authority.

    Attributes:
        refusals: Counts what is over budget.
        opens: Of a person: session requests that are proven to be its own.
        denials: Of a person: those of them that were not granted.
        registrations: Of a Connector.
        renewals: Of a node.
        identities: Of a Connector.
        publications: Of a Connector; each costs as many as the resources that it changes.
        unproven: Of a Proxy, as are the greetings and the rows of its spool.
        at_once: Requests of one Proxy in work; a person has half as many, over all.
    """

    refusals: RefusalPolicy
    opens: Budget
    denials: Budget
    registrations: Budget
    renewals: Budget
    identities: Budget
    publications: Budget
    unproven: Budget
    greetings: Budget
    rows: Budget
    entries: Budget
    at_once: int
    _claims: Buckets
    _proxies: ProxyPlaces = field(init=False)
    _persons: FairQuota = field(init=False)
    _reports: ProxyPlaces = field(init=False)

    def __attrs_post_init__(self) -> None:
        # What is kept of the places is for the ends of sessions and what is Authority's own:
        # both go to the store without asking here.
        self._persons = FairQuota(KEPT * self.at_once)
        self._proxies = ProxyPlaces(self.at_once)
        self._reports = ProxyPlaces(_REPORTS_AT_ONCE)

    @classmethod
    def of(
        cls, refusals: RefusalPolicy, opens: Rate, denials: Rate, calls: Rate, at_once: int
    ) -> AskRates:
        """With these rates for each person and each node."""

        def budget(word: str, rate: Rate) -> Budget:
            return Budget(word, refusals, Buckets(rate))

        return cls(
            refusals=refusals,
            opens=budget("opens", opens),
            denials=budget("denials", denials),
            registrations=budget("registrations", calls),
            renewals=budget("renewals", calls),
            identities=budget("identities", _IDENTITIES),
            publications=budget("publications", _PUBLICATIONS),
            unproven=budget("unproven", _UNPROVEN),
            greetings=budget("greetings", _GREETINGS),
            rows=budget("rows", _ROWS),
            entries=budget("rows", _ENTRIES),
            at_once=at_once,
            claims=Buckets(denials),
        )

    def change(self, opens: Rate, denials: Rate, calls: Rate, at_once: int) -> None:
        """Go by other rates from now on."""
        self.opens.buckets.change(opens)
        for denied in (self.denials.buckets, self._claims):
            denied.change(denials)
        for called in (self.registrations, self.renewals):
            called.buckets.change(calls)
        self.at_once = self._proxies.most = at_once
        self._persons.resize(KEPT * at_once)

    # -- a Proxy

    def admit(self, proxy_id: str) -> None:
        """Check the caller's budget before anything of its request is read.

        Raises:
            TooMany: the Proxy brought too much that proves nothing.
        """
        self.unproven.check(node(proxy_id))

    @contextmanager
    def asking(self, proxy_id: str) -> Iterator[None]:
        """One request of a Proxy in work, from its proof to its commit.

        Raises:
            TooMany: as many as it may have are in work.
        """
        if not self._proxies.take(proxy_id):
            raise self._full("asks", node(proxy_id))
        try:
            yield
        finally:
            self._proxies.give_back(proxy_id)

    @contextmanager
    def reporting(self, proxy_id: str) -> Iterator[None]:
        """One report of a Proxy in work.

        Raises:
            TooMany: as many as it may have are in work.
        """
        if not self._reports.take(proxy_id):
            raise self._full("reports", node(proxy_id))
        try:
            yield
        finally:
            self._reports.give_back(proxy_id)

    @contextmanager
    def queueing(
        self, proxy_id: str, count: int, entries: int = 0
    ) -> Iterator[Callable[[int, int], None]]:
        """A Proxy sends this many rows, and requests in batches; tell how many of each were new.

        What was there already costs nothing.  More than a full bucket holds is paid with a full
        one, so that no batch waits for ever.

        Raises:
            TooMany: it brings them too fast.
        """
        caller, fresh = node(proxy_id), (0, 0)
        cost = min(float(count), self.rows.buckets.rate.burst)
        more = min(float(entries), self.entries.buckets.rate.burst)
        self.rows.spend(caller, cost)
        try:
            self.entries.spend(caller, more)
        except TooMany:
            self.rows.give_back(caller, cost)
            raise

        def queued(rows: int, entries: int) -> None:
            nonlocal fresh
            fresh = (rows, entries)

        try:
            yield queued
        finally:
            self.rows.give_back(caller, cost - min(cost, fresh[0]))
            self.entries.give_back(caller, more - min(more, fresh[1]))

    def claims(self, proxy_id: str, person_id: str) -> None:
        """A Proxy sends a request that it says is this person's; nothing is verified yet.

        Raises:
            TooMany: it brought too many that were not, or the person has nothing left
                to be denied by: no signature is looked at.
        """
        wait = self._claims.wait(_claim(proxy_id, person_id), self.refusals.seconds())
        if wait:
            raise self.refusals.refusal("unproven", node(proxy_id), wait)
        if self.denials.is_spent(person(person_id)):
            # Counted for the Proxy: it is not proven that the person asked.
            raise self._full("denials", node(proxy_id))

    def disproved(self, proxy_id: str, person_id: str | None) -> None:
        """A request proved nothing; the person it named, where its certificate was good."""
        self.unproven.charge(node(proxy_id))
        if person_id is not None:
            self._claims.charge(_claim(proxy_id, person_id), self.refusals.seconds())

    # -- a person

    def proven(self, person_id: str) -> None:
        """A request is proven to be this person's; :meth:`claims` has looked at their denials.

        Raises:
            TooMany: it has asked too much.
        """
        self.opens.spend(person(person_id))

    def denied(self, person_id: str) -> None:
        """A request of the person was not granted, whichever way."""
        self.denials.charge(person(person_id))

    @contextmanager
    def writing(self, person_id: str) -> Iterator[None]:
        """One request of a person on its way through the store.

        Raises:
            TooMany: the person has its share of the places.
        """
        if not self._persons.take(person_id):
            raise self._full("asks", person(person_id))
        try:
            yield
        finally:
            self._persons.give_back(person_id)

    def _full(self, word: str, caller: Actor) -> TooMany:
        return self.refusals.refusal(word, caller, _SOON_SECS)


def _claim(proxy_id: str, person_id: str) -> str:
    return f"{proxy_id}/{person_id}"
