"""The seam of discovery: a drop-in ``source_<name>`` finds resources for a Connector.

A source only tells what there is.  Whether any of it becomes a resource of the cluster is an
operator's scope's to say, and who may use it the policy's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from twisted.internet.interfaces import IReactorTime
from zope.interface import Attribute, Interface


@frozen(kw_only=True)
class FoundResource:
    """One resource that a source finds.

    Attributes:
        id: A DNS label, unique in the cluster.
        kind: The word of a resource kind.
        labels: What the source says of it; they may select a scope, and grant nothing.
        onward_auth: How its target is signed on to, as a word; empty: the source does not say.
        table: The keys that the kind's table in ``connector.resources`` has: ``address``, and
            those of the kind.
        where: Where it stands in the source, for people who look for a mistake.
    """

    id: str
    kind: str
    table: Mapping[str, object] = field(repr=False, hash=False)
    labels: Mapping[str, str] = field(factory=dict, hash=False)
    onward_auth: str = ""
    where: str = ""


@frozen(kw_only=True)
class SourceTools:
    """What a source may use.

    Attributes:
        clock: The reactor, for time and for connections.
        in_thread: Runs a function that blocks, such as reading a file.
    """

    clock: IReactorTime
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]


class IFinder(Interface):
    """One configured source."""

    async def find() -> Sequence[FoundResource]:
        """Everything that there is now; what is not among it any more departs.

        Called again and again, never twice at once, and given up after 30 seconds.  It holds no
        more than ``svc.model.cluster.scope.MAX_PUBLISHED`` resources, and bounds what it reads
        before it parses it.

        Raises:
            SvcError: that cannot be said now: what was found last stays.
        """


class IDiscoverySource(Interface):
    """What a drop-in ``source_<name>`` offers."""

    name: str = Attribute("The word that operators write in `source` and in `plugins.sources`.")

    def open(table: Mapping[str, object], path: str, tools: SourceTools) -> IFinder:
        """The source that a table of ``connector.discovery_sources`` describes.

        Called at start, before the reactor runs; does no I/O.

        Args:
            table: The raw table but for ``name``, ``source`` and ``every_secs``.
            path: Where it stands; refusals name the key below it.

        Raises:
            ConfigError: naming the key.
        """
