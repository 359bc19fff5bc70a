"""A source that is looked at again and again, and what is published of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from svc.connector.discovery.publish import Publisher, SourcePublication
from svc.connector.discovery.sources import FIND_SECS, WatchedSource
from svc.connector.discovery.targets import ServedTargets
from svc.errors import Fault, Malformed, SvcError, Unavailable
from svc.interfaces.discovery import FoundResource, IFinder
from svc.messages.discovery import (
    PublishAnswer,
    Refused,
    publication_digest,
    publish_response,
    read_publish_request,
)
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.registration import DeclaredResource
from svc.model.cluster.scope import MAX_PUBLISHED
from svc.model.cluster.target import Target
from svc.runtime.backoff import Backoff
from tests.kinds.served import ssh, tcp
from tests.support.logged import logged


@implementer(IFinder)
@define
class Given:
    """Finds what a test says."""

    answer: Any = ()

    async def find(self) -> Sequence[FoundResource]:
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, Deferred):
            await self.answer
        return self.answer  # type: ignore[no-any-return]


def found(id: str, kind: str = "tcp", address: str = "a.example:80", **more: Any) -> FoundResource:
    """One that a source finds."""
    return FoundResource(id=id, kind=kind, table={"address": address}, where=f"at {id}", **more)


class SourceCase(SynchronousTestCase):
    """One source, beside a target of the configuration."""

    def setUp(self) -> None:
        self.events = logged(self)
        self.clock = Clock()
        self.targets = ServedTargets({"db1": Target("db1", "tcp", "db.example:1")})
        self.changes = 0
        self.finder = Given()
        self.source = self.watched("rack", self.finder)

    def watched(self, name: str, finder: Given) -> WatchedSource:
        def changed() -> None:
            self.changes += 1

        return WatchedSource(
            name=name,
            finder=finder,
            targets=self.targets,
            kinds={"tcp": tcp, "ssh": ssh},
            clock=self.clock,
            on_change=changed,
        )

    def look(self, answer: Any, source: WatchedSource | None = None) -> list[str]:
        """One look; what was logged."""
        watched = self.source if source is None else source
        watched.finder.answer = answer  # type: ignore[attr-defined]
        before = len(self.events)
        self.successResultOf(Deferred.fromCoroutine(watched.look()))
        return [one["text"] for one in self.events[before:] if "text" in one]


class SourceTests(SourceCase):
    """What a look comes to."""

    def test_what_it_finds(self) -> None:
        """It is a target here, and published without its address."""
        self.assertEqual(self.look([found("r1", labels={"tier": "lab"})]), [])
        self.assertEqual(self.targets["r1"].address, "a.example:80")
        self.assertEqual(self.targets.found(), (DeclaredResource("r1", "tcp", discovered=True),))
        [row] = self.source.published
        self.assertEqual((row.id, row.kind, row.labels), ("r1", "tcp", {"tier": "lab"}))
        self.assertEqual((self.changes, sorted(self.targets)), (1, ["db1", "r1"]))
        self.look([found("r1", labels={"tier": "lab"})])
        self.assertEqual(self.changes, 1)
        self.look([found("r1", address="b.example:80", labels={"tier": "lab"})])
        self.assertEqual((self.changes, self.targets["r1"].address), (1, "b.example:80"))
        self.look([])
        self.assertEqual((self.changes, sorted(self.targets)), (2, ["db1"]))

    def test_what_cannot_be_read_changes_nothing(self) -> None:
        """The last that could be read stays; what is wrong is said once."""
        self.look([found("r1")])
        self.assertEqual(self.look(Malformed("no list")), ["no list"])
        self.assertEqual(self.look(Malformed("no list")), [])
        self.assertIn("r1", self.targets)
        twice = [found("r1"), found("r1")]
        self.assertEqual(self.look(twice), ["at r1: the id is listed twice"])
        many = [found(f"r{n}") for n in range(MAX_PUBLISHED + 1)]
        self.assertIn("more than", self.look(many)[0])
        self.assertIn("r1", self.targets)
        self.look([found("r2")])
        self.assertEqual(sorted(self.targets), ["db1", "r2"])

    def test_too_slow(self) -> None:
        """A source that does not answer is given up, and asked again."""
        self.finder.answer = Deferred()
        looking = Deferred.fromCoroutine(self.source.look())
        self.clock.advance(FIND_SECS + 1)
        self.successResultOf(looking)
        self.assertEqual(len(self.events), 1)

    def test_entries_that_cannot_be_used(self) -> None:
        """Each is named and left out; one that was good stays as it was; others are used."""
        self.look([found("r1"), found("r2")])
        other = self.watched("hall", Given())
        said = self.look(
            [
                found("r1", address="no port"),
                found("r2"),
                found("r3", kind="magic"),
                found("Bad"),
                found("db1"),
                found("r4", labels={"Tier": "x"}),
                found("r5", labels={"tier": "a\x1b[0m"}),
                found("r6", onward_auth="magic"),
                found("r7", onward_auth="certificate"),
                found("h1", kind="ssh", onward_auth="certificate"),
            ]
        )
        self.assertEqual(sorted(self.targets), ["db1", "h1", "r1", "r2"])
        self.assertEqual(self.targets["r1"].address, "a.example:80")
        self.assertEqual(len(said), 8)
        self.assertIn("it stays as it was", said[0])
        modes = {one.id: one.onward_auth for one in self.source.published}
        self.assertEqual(modes["h1"], OnwardAuth.CERTIFICATE)
        self.assertIn("another source", self.look([found("r2"), found("r9")], other)[0])
        self.assertEqual(sorted(other.targets.of("hall")), ["r9"])


@define
class Line:
    """A connection to an Authority that a test plays."""

    answers: list[PublishAnswer | SvcError]
    asked: list[Any] = field(factory=list)
    closed: int = 0

    async def dial(self) -> Any:
        return self

    async def close(self) -> None:
        self.closed += 1

    async def unary(self, method: str, message: Any, answer: Any, timeout: float) -> Any:
        self.asked.append(read_publish_request(message))
        given = self.answers.pop(0)
        if isinstance(given, SvcError):
            raise given
        return publish_response(given)


class PublisherTests(SourceCase):
    """What the Authority is told, and when."""

    def setUp(self) -> None:
        super().setUp()
        self.line = Line([])
        self.hurried = 0

        def published() -> None:
            self.hurried += 1

        self.publisher = Publisher(
            publications=[SourcePublication(self.source, Backoff(1, 60))],
            dial=self.line.dial,
            clock=self.clock,
            waits=Backoff(1, 60),
            published=published,
        )

    def publish(self, *answers: PublishAnswer | SvcError, seconds: float = 0) -> list[str]:
        """One pass; what was logged."""
        self.clock.advance(seconds)
        self.line.answers += answers
        before = len(self.events)
        self.successResultOf(Deferred.fromCoroutine(self.publisher.look()))
        self.assertEqual(self.line.answers, [], "asked as often as was thought")
        return [one["reason"] for one in self.events[before:] if one.get("reason")]

    def answer(self, *refused: Refused, again: bool = False) -> PublishAnswer:
        """An answer to what the source finds now."""
        digest = publication_digest(self.source.published)
        return PublishAnswer(lease_secs=90, refused=refused, digest=digest, again=again)

    def test_published_and_renewed(self) -> None:
        """A change is published whole, a lease renewed by its digest, three times as often."""
        self.publish()
        self.look([found("r1")])
        self.assertEqual(self.publish(self.answer(Refused("r1", "no_scope"))), ["no_scope"])
        self.assertEqual((self.hurried, self.line.closed), (1, 1))
        self.publish(seconds=29)
        self.assertEqual(self.publish(self.answer(Refused("r1", "no_scope")), seconds=2), [])
        first, second = self.line.asked
        self.assertEqual([one.id for one in first.resources], ["r1"])
        self.assertEqual(second.resources, ())
        self.assertEqual(second.unchanged, publication_digest(first.resources))
        again, whole = self.answer(again=True), self.answer()
        self.publish(again, whole, seconds=31)
        self.assertEqual([one.id for one in self.line.asked[-1].resources], ["r1"])
        self.assertEqual(self.hurried, 1)
        self.look([])
        self.publish(self.answer())
        self.assertEqual((self.line.asked[-1].resources, self.hurried), ((), 2))

    def test_refused_and_away(self) -> None:
        """A failure is logged, and tried again after a while that grows."""
        self.look([found("r1")])
        self.assertEqual(self.publish(Unavailable("away", reason="away")), ["away"])
        self.publish(seconds=0.5)
        self.assertEqual(self.publish(Unavailable("away", reason="away"), seconds=0.6), ["away"])
        self.publish(seconds=1.5)
        self.publish(self.answer(), seconds=0.6)
        self.assertEqual(self.line.closed, 3)

    def test_away_for_long(self) -> None:
        """However long it was away: it is tried as often as the lease has to be renewed."""
        self.look([found("r1")])
        short = PublishAnswer(lease_secs=6, digest=publication_digest(self.source.published))
        self.publish(short)
        for seconds in (2, *[1] * 20):
            self.clock.advance(seconds)
            self.line.answers = [Unavailable("away", reason="away")]
            self.successResultOf(Deferred.fromCoroutine(self.publisher.look()))
        asked = len(self.line.asked)
        self.assertGreaterEqual(asked, 1 + 22 // 2)
        self.line.answers = [short]
        self.publish(seconds=2)
        self.assertEqual(len(self.line.asked), asked + 1)

    def test_a_change_that_is_refused(self) -> None:
        """While it waits, what was published before is renewed: nothing of that departs."""
        self.look([found("r1")])
        kept = self.answer()
        self.publish(kept)
        self.look([found("r2")])
        full = SvcError("full", reason="full", fault=Fault.EXHAUSTED, retry_after=200)
        busy = SvcError("busy", reason="busy", fault=Fault.EXHAUSTED, retry_after=10)
        self.assertEqual(self.publish(full), ["full"])
        self.assertEqual(self.publish(busy, seconds=31), ["busy"])
        self.publish(seconds=9)
        for _ in range(5):
            self.publish(kept, seconds=31)
            self.assertEqual(self.line.asked[-1].unchanged, kept.digest)
        self.assertEqual(self.hurried, 1)
        self.publish(self.answer(), seconds=6)
        self.assertEqual([one.id for one in self.line.asked[-1].resources], ["r2"])
        self.assertEqual(self.hurried, 2)

    def test_a_change_that_is_refused_and_a_new_leader(self) -> None:
        """One that does not know what was published before is told all of what is found now."""
        self.look([found("r1")])
        self.publish(self.answer())
        self.look([found("r2")])
        self.publish(SvcError("full", reason="full", fault=Fault.EXHAUSTED, retry_after=200))
        self.publish(self.answer(again=True), self.answer(), seconds=31)
        self.assertEqual([one.id for one in self.line.asked[-1].resources], ["r2"])
        self.publish(seconds=29)
        self.assertEqual(self.hurried, 2)

    def test_one_that_is_refused(self) -> None:
        """A source that the Authority refuses waits alone: the leases of others are renewed."""
        self.look([found("r1")])
        self.publish(self.answer())
        hall = self.watched("hall", Given())
        self.look([found("r2")], hall)
        self.publisher.publications = [
            SourcePublication(hall, Backoff(1, 60)),
            *self.publisher.publications,
        ]
        full = SvcError("full", reason="full", fault=Fault.EXHAUSTED, retry_after=50)
        self.assertEqual(self.publish(full), ["full"])
        self.publish(self.answer(), seconds=31)
        self.publish(self.answer(), full, seconds=31)
        self.assertEqual(
            [one.source for one in self.line.asked[1:]], ["hall", *["rack"] * 2, "hall"]
        )
        self.publish(Unavailable("away", reason="away"), seconds=31)
        self.assertEqual(self.line.asked[-1].source, "rack")
