"""What persons, nodes and Proxies may ask of Authority, and what is written down of the rest."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.enroll.renew import NodeRenewal
from svc.authority.refusals import FinalSummary
from svc.errors import SvcError, TooMany
from svc.model.audit.record import Actor
from svc.model.principal import Role
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import bootstrap_pb2
from svc.ratelimit.limits import Rate
from tests.authority.house import ADA, EVE, Call, House, outcome, value_of

TOO_MANY = "too_many_requests"


class HouseTests(SynchronousTestCase):
    """An Authority whose budgets hold little."""

    def setUp(self) -> None:
        self.house = house = House()
        house.rates = house.new_rates(Rate(60, 6), Rate(60, 3), Rate(60, 2), at_once=8)
        self.issuance = house.issuance()
        self.proxy = house.row(house.proxy)
        house.serve("db1")

    def answered(self, ask: Any, proxy: Any = None) -> str:
        """How one request is answered: ``granted``, or the reason."""
        (got,) = outcome(self.issuance.authorize(ask, proxy or self.proxy))
        error = getattr(got, "value", None)
        if isinstance(error, SvcError):
            return error.reason
        return "granted" if got.grant is not None else got.reason

    def ask(self, who: str = "ada", resource: str = "db1", **fields: Any) -> Any:
        return self.house.ask(getattr(self.house, who), resource, **fields)

    def summaries(self) -> list[tuple[str, str, int]]:
        """Write what is owed; every summary on record."""
        value_of(self.house.refusals.summarise())
        return [
            (one["actor"]["id"], one["reason"], one["details"]["count"])
            for one in self.house.records("refusals.summary")
        ]


class PersonTests(HouseTests):
    def test_denied_too_often(self) -> None:
        """Who was denied a lot is refused before any decision, without a record of its own."""
        told = [self.answered(self.ask("eve")) for _ in range(3)]
        self.assertEqual(told, ["denied"] * 3)
        before, decided = len(self.house.records()), list(self.house.told)
        store = self.house.store.written
        self.assertEqual(self.answered(self.ask("eve")), TOO_MANY)
        self.assertEqual((len(self.house.records()), self.house.told), (before, decided))
        self.assertEqual(self.house.store.written, store)
        self.house.clock.advance(1.1)
        self.assertEqual(self.answered(self.ask("eve")), "denied")

    def test_hidden_and_unknown_alike(self) -> None:
        """The budget tells nothing of what there is: hidden, unknown and not served count alike."""
        for resource in ("vault1", "nothing1", "prod1"):
            self.answered(self.ask(resource=resource))
        self.assertEqual(self.answered(self.ask()), TOO_MANY)

    def test_too_many_opens(self) -> None:
        """Past the budget of opens there is no grant; the summary says who, and nothing of what."""
        told = [self.answered(self.ask()) for _ in range(9)]
        self.assertEqual(told, ["granted"] * 6 + [TOO_MANY] * 3)
        self.assertEqual(self.summaries(), [(ADA, "opens", 3)])
        [record] = self.house.records("refusals.summary")
        self.assertNotIn("db1", str(record))
        self.assertEqual(set(record["details"]), {"count", "since", "until"})

    def test_fair(self) -> None:
        """One person's flood takes nothing from another."""
        for _ in range(50):
            self.answered(self.ask("eve"))
        self.assertEqual(self.answered(self.ask("ada")), "granted")

    def test_over_two_proxies(self) -> None:
        """The budget is the person's, however many Proxies it goes through."""
        other = self.house.node(Role.PROXY, "edge2")
        self.house.refresh()
        for proxy in (self.house.proxy, other, self.house.proxy):
            ask = self.ask("eve", proxy_id=proxy.id)
            self.assertEqual(self.answered(ask, self.house.row(proxy)), "denied")
        ask = self.ask("eve", proxy_id=other.id)
        self.assertEqual(self.answered(ask, self.house.row(other)), TOO_MANY)

    def test_in_work(self) -> None:
        """While the store is slow one person waits in few places, and others find theirs."""
        self.house.rates = self.house.new_rates(at_once=8)
        self.issuance = self.house.issuance()
        self.house.store.mood = "silent"
        asked = (self.issuance.authorize(self.ask(), self.proxy) for _ in range(6))
        waiting = [Deferred.fromCoroutine(one) for one in asked]
        for one in waiting[4:]:
            self.assertEqual(self.failureResultOf(one).value.reason, TOO_MANY)
        for one in waiting[:4]:
            self.assertNoResult(one)
        self.house.store.mood = "well"
        self.assertEqual(self.answered(self.ask("eve")), "denied")
        self.assertEqual(self.house.rates._persons.held, 4)
        for one in waiting[:4]:
            one.addErrback(lambda _: None)
            one.cancel()
        self.assertEqual(self.house.rates._persons.held, 0)


class ProxyTests(HouseTests):
    """A Proxy under somebody's control."""

    def test_naming_another(self) -> None:
        """Requests that a Proxy makes up for a person spend nothing of that person's."""
        for _ in range(100):
            self.answered(evolve(self.ask(), signature=b"x"))
        other = self.house.node(Role.PROXY, "edge2")
        self.house.refresh()
        ask = self.ask(proxy_id=other.id)
        self.house.registrations.add(
            evolve(self.house.serve("db1"), proxy_id=other.id)  # served there as well
        )
        self.assertEqual(self.answered(ask, self.house.row(other)), "granted")
        self.assertNotIn(ADA, [who for who, _, _ in self.summaries()])

    def test_brought_again(self) -> None:
        """A genuine request brought again and again spends one open, and is the Proxy's doing."""
        ask = self.ask()
        self.assertEqual(self.answered(ask), "granted")
        told = [self.answered(ask) for _ in range(20)]
        self.assertEqual(told[:3], ["request_replayed"] * 3)
        self.assertEqual(set(told[3:]), {TOO_MANY})
        self.assertEqual(self.house.rates.opens.buckets.wait(ADA, self.house.clock.seconds(), 5), 0)

    def test_no_signature_is_looked_at(self) -> None:
        """Past what it may bring for a person nothing is verified and nothing recorded."""
        for _ in range(3):
            self.answered(evolve(self.ask(), signature=b"x"))
        before = len(self.house.records())
        self.assertEqual(self.answered(evolve(self.ask(), signature=b"x")), TOO_MANY)
        self.assertEqual(len(self.house.records()), before)
        self.assertEqual(self.answered(self.ask("eve")), "denied")
        self.assertEqual(self.summaries(), [(self.proxy.id, "unproven", 1)])

    def test_whoever_it_names(self) -> None:
        """What proves nothing is bounded for the whole Proxy, too, and no other Proxy pays."""
        self.house.rates.unproven.buckets.rate = Rate(60, 4)
        foreign = evolve(self.ask(), person_chain=(b"x",))
        for _ in range(5):
            self.answered(foreign)
        self.assertRaises(TooMany, self.house.rates.admit, self.proxy.id)
        self.house.rates.admit("z" * 26)

    def test_asks_at_once(self) -> None:
        """A Proxy has so many requests in work; another Proxy finds its own places."""
        rates = self.house.rates
        held = [rates.asking(self.proxy.id) for _ in range(9)]
        for one in held[:8]:
            one.__enter__()
        self.assertRaises(TooMany, held[8].__enter__)
        others = [rates.asking(name * 26) for name in "wxyz" for _ in range(8)]
        for one in others:
            one.__enter__()
        held[0].__exit__(None, None, None)
        with rates.asking(self.proxy.id):
            pass

    def test_records(self) -> None:
        """Whatever a Proxy brings, its records in a minute are bounded, and the rest is counted."""
        self.house.rates = self.house.new_rates(denials=Rate(6000, 1000))
        self.issuance = self.house.issuance()
        for _ in range(500):
            self.answered(evolve(self.ask(), signature=b"x"))
        self.assertEqual(len(self.house.records()), 60)
        self.assertEqual(self.summaries(), [(self.proxy.id, "records", 440)])


class SummaryTests(HouseTests):
    def records(self) -> list[dict[str, Any]]:
        return self.house.records("refusals.summary")

    def test_exact_over_minutes(self) -> None:
        """Each refusal is in one summary, whichever minute it fell in, and in no second."""
        for count in (2, 0, 5):
            for _ in range(count):
                self.house.rates.refusals.refusal("opens", Actor("person", EVE), 1.0)
            self.house.clock.advance(60)
            self.summaries()
        counts = [one["details"]["count"] for one in self.records()]
        self.assertEqual(counts, [2, 5])

    def test_an_answer_that_is_lost(self) -> None:
        """A summary that was written though the store did not say so is written once."""
        for mood in ("commits, then down", "down", "commits, then down", "well"):
            self.house.rates.refusals.refusal("opens", Actor("person", EVE), 1.0)
            self.house.store.mood = mood
            outcome(self.house.refusals.summarise())
        self.assertEqual(sum(one["details"]["count"] for one in self.records()), 4)
        self.summaries()
        self.assertEqual(sum(one["details"]["count"] for one in self.records()), 4)

    def test_at_the_stop(self) -> None:
        """What the last minute counted is on record when the role has stopped."""
        self.house.rates.refusals.refusal("opens", Actor("person", EVE), 1.0)
        last = FinalSummary(self.house.refusals)
        last.startService()
        self.successResultOf(last.stopService())
        self.assertEqual([one["details"]["count"] for one in self.records()], [1])

    def test_stop_without_a_store(self) -> None:
        """A store that is away keeps nobody from stopping."""
        self.house.rates.refusals.refusal("opens", Actor("person", EVE), 1.0)
        self.house.store.mood = "down"
        last = FinalSummary(self.house.refusals)
        last.startService()
        self.successResultOf(last.stopService())


class NodeTests(HouseTests):
    def test_renewals(self) -> None:
        """A node renews so often; past it nothing is signed, and another node renews."""
        house = self.house
        renewal = NodeRenewal(
            issuer=CertificateIssuer(house.world.keys),
            state_cache=house.state_cache,
            verifier=house.world.verifier,
            store=house.store,
            recorder=house.recorder,
            now=house.now,
            revoked=lambda node_id: None,
            renewals=house.rates.renewals,
        )
        renew = renewal.service().methods["Renew"]

        def renewed(holder: Any) -> Any:
            call = Call(house.peer(holder))
            csr = make_request(new_key())
            call.give(bootstrap_pb2.RenewRequest(csr=csr).SerializeToString(), None)
            return outcome(_served(renew, call))[0]

        key = [renewed(house.connector) for _ in range(4)]
        self.assertEqual(key[2].value.reason, TOO_MANY)
        written = house.store.written
        self.assertEqual(renewed(house.connector).value.reason, TOO_MANY)
        self.assertEqual(house.store.written, written)
        self.assertIsNone(renewed(house.proxy))


async def _served(serve: Any, call: Call) -> Any:
    return await serve(call)
