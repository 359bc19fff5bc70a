"""What every discovery source keeps.  Mix into a TestCase and name your drop-in.

::

    class RackTests(SourceContract, SynchronousTestCase):
        word = "rack"

        def table(self):
            return {"url": self.server.url}

        def offer(self, resources):
            self.server.answer_with(resources)

        def spoil(self):
            self.server.stop()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from svc.compose.discovery import SOURCE
from svc.errors import ConfigError, SvcError
from svc.interfaces.discovery import FoundResource, IDiscoverySource, IFinder, SourceTools
from svc.model.ids import is_resource_id
from svc.plugin import load
from svc.runtime.threads import inline

PATH = "connector.discovery_sources[0]"
FIRST = FoundResource(id="one", kind="tcp", table={"address": "one.example:80"})
SECOND = FoundResource(
    id="two", kind="tcp", table={"address": "two.example:80"}, labels={"tier": "lab"}
)


class SourceContract:
    """The contract.

    Attributes:
        word: What operators write as ``source``; the drop-in is ``source_<word>``.
        table: Gives a table that it accepts, of the source that ``offer`` fills.
        offer: Has the source find these resources, and nothing else.
        spoil: Has the source fail, until something is offered again.
    """

    word: str
    table: Callable[[], Mapping[str, object]]
    offer: Callable[[Sequence[FoundResource]], object]
    spoil: Callable[[], object]

    @property
    def source(self) -> Any:
        """The drop-in's object."""
        return load(IDiscoverySource, SOURCE, [self.word])[0].provider

    def opened(self) -> Any:
        """The source of :meth:`table`."""
        return self.source.open(self.table(), PATH, SourceTools(clock=Clock(), in_thread=inline))

    def found(self: Any, finder: Any) -> Sequence[FoundResource]:
        """What it finds now."""
        found: Sequence[FoundResource] = self.successResultOf(Deferred.fromCoroutine(finder.find()))
        return found

    def test_keeps_the_interfaces(self: Any) -> None:
        """The drop-in is a source of its name, and gives finders."""
        verifyObject(IDiscoverySource, self.source)
        self.assertEqual(self.source.name, self.word)
        verifyObject(IFinder, self.opened())

    def test_unknown_key(self: Any) -> None:
        """A key that the source does not know is refused, by its path."""
        with self.assertRaises(ConfigError) as refused:
            self.source.open(
                {**self.table(), "nonsense": 1}, PATH, SourceTools(clock=Clock(), in_thread=inline)
            )
        self.assertIn(f"{PATH}.nonsense", str(refused.exception))

    def test_finds_what_there_is(self: Any) -> None:
        """Each look tells everything that there is then, with what a Connector needs of it."""
        finder = self.opened()
        for wanted in ((), (FIRST,), (FIRST, SECOND), (SECOND,), ()):
            self.offer(wanted)
            found = {one.id: one for one in self.found(finder)}
            self.assertEqual(found.keys(), {one.id for one in wanted})
            for one in wanted:
                here = found[one.id]
                self.assertTrue(is_resource_id(here.id))
                self.assertEqual((here.kind, here.labels), (one.kind, one.labels))
                self.assertEqual(here.table["address"], one.table["address"])
                self.assertTrue(here.where, "where it stands helps to find a mistake")

    def test_same_again(self: Any) -> None:
        """What has not changed compares equal: nothing is published again for it."""
        finder = self.opened()
        self.offer([FIRST, SECOND])
        self.assertEqual(list(self.found(finder)), list(self.found(finder)))

    def test_failing(self: Any) -> None:
        """A source that cannot be read says so, as a refusal; it is read again once it can be."""
        finder = self.opened()
        self.offer([FIRST])
        self.found(finder)
        self.spoil()
        failed = self.failureResultOf(Deferred.fromCoroutine(finder.find()))
        self.assertTrue(issubclass(failed.type, SvcError), failed)
        self.offer([SECOND])
        self.assertEqual([one.id for one in self.found(finder)], ["two"])
