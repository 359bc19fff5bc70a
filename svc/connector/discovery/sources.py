"""Looks at one source again and again, and keeps the last that could be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, evolve, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.connector.discovery.targets import ServedTargets
from svc.errors import Malformed, SvcError
from svc.interfaces.discovery import FoundResource, IFinder
from svc.interfaces.kinds import ServedKind
from svc.model.cluster.labels import check_found_labels
from svc.model.cluster.onward import NEEDS_ONWARD_AUTH, read_onward_auth
from svc.model.cluster.scope import MAX_PUBLISHED, PublishedResource
from svc.model.cluster.target import Target
from svc.model.ids import is_resource_id
from svc.runtime.services import bounded

_log = Logger(namespace="svc_connector")

FIND_SECS = 30.0
_TOLD = 20
"""So many faults of one look are logged."""


@define
class WatchedSource:
    """One source of this Connector.

    Attributes:
        name: That the configuration gives it.
        kinds: Enabled here.
        on_change: Called when what it finds is something else than before.
        published: What it finds now, as it is published.
    """

    name: str
    finder: IFinder
    targets: ServedTargets
    kinds: Mapping[str, ServedKind]
    clock: IReactorTime
    on_change: Callable[[], object]
    published: tuple[PublishedResource, ...] = ()
    is_known: bool = field(default=False, init=False)
    _last: Sequence[FoundResource] | None = field(default=None, init=False)
    _rows: dict[str, PublishedResource] = field(factory=dict, init=False)
    _faults: list[str] = field(factory=list, init=False)

    async def look(self) -> None:
        """Look once; what cannot be read is told, and changes nothing."""
        try:
            found = await bounded(self.clock, FIND_SECS, self.finder.find(), "a discovery source")
            if len(found) > MAX_PUBLISHED:
                raise Malformed(f"it has more than {MAX_PUBLISHED} resources")
            _require_unique(found)
        except SvcError as refused:
            self._tell([refused.text], "a discovery source cannot be read; what it had last stays")
            return
        if self._last is not None and list(found) == list(self._last):
            return
        self._last = tuple(found)
        self._take(found)

    def _take(self, found: Sequence[FoundResource]) -> None:
        targets: dict[str, Target] = {}
        rows: dict[str, PublishedResource] = {}
        faults: list[str] = []
        for one in found:
            try:
                targets[one.id], rows[one.id] = self._read(one)
            except SvcError as refused:
                kept = self._kept(one)
                stays = "" if kept is None else "; it stays as it was"
                faults.append(f"{one.where or one.id}: {refused.text}{stays}")
                if kept is not None:
                    targets[one.id], rows[one.id] = kept
        room = self.targets.room(self.name)
        if len(targets) > room:
            faults.append(f"this Connector has room for {max(0, room)} more resources")
            for id in list(targets)[max(0, room) :]:
                del targets[id], rows[id]
        self._tell(faults, "a discovery source has resources that cannot be used")
        self.targets.put(self.name, targets)
        is_changed = rows != self._rows or not self.is_known
        self._rows, self.is_known = rows, True
        self.published = tuple(rows.values())
        if is_changed:
            self.on_change()

    def _read(self, one: FoundResource) -> tuple[Target, PublishedResource]:
        """The target, and how it is published.

        Raises:
            SvcError: it can be neither.
        """
        if not is_resource_id(one.id):
            raise Malformed("id must be one DNS label: a-z, 0-9 and -, at most 63")
        if self.targets.is_taken(self.name, one.id):
            raise Malformed("another source, or connector.resources, has a resource of this id")
        kind = self.kinds.get(one.kind)
        if kind is None:
            raise Malformed("its kind is not enabled in plugins.kinds")
        check_found_labels(one.labels)
        mode = read_onward_auth(one.onward_auth) if one.onward_auth else None
        if mode is not None and one.kind not in NEEDS_ONWARD_AUTH:
            raise Malformed("onward_auth: its kind has none")
        target = kind.dialer.parse(one.id, one.table, one.where or one.id)
        row = PublishedResource(id=one.id, kind=one.kind, labels=dict(one.labels), onward_auth=mode)
        return target, row

    def _kept(self, one: FoundResource) -> tuple[Target, PublishedResource] | None:
        """What the resource was before it was spoilt."""
        target, row = self.targets.of(self.name).get(one.id), self._rows.get(one.id)
        if target is None or row is None or self.targets.is_taken(self.name, one.id):
            return None
        return target, evolve(row)

    def _tell(self, faults: list[str], what: str) -> None:
        """Say so once, until it is something else."""
        told, self._faults = self._faults, faults
        if faults == told:
            return
        for fault in faults[:_TOLD]:
            _log.warn(what, source=self.name, text=fault)
        if not faults:
            _log.info("a discovery source can be read again", source=self.name)


def _require_unique(found: Sequence[FoundResource]) -> None:
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise Malformed(f"{one.where or one.id}: the id is listed twice")
        seen.add(one.id)
