"""The targets of a Connector: those of its configuration, and those that its sources find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field

from svc.model.cluster.registration import MAX_RESOURCES, DeclaredResource
from svc.model.cluster.target import Target


@define(eq=False)
class ServedTargets(Mapping[str, Target]):
    """By resource id; what the configuration declares stands above what is found."""

    declared: Mapping[str, Target]
    _by_source: dict[str, dict[str, Target]] = field(factory=dict, init=False)
    _found: dict[str, Target] = field(factory=dict, init=False)

    def is_taken(self, source: str, resource_id: str) -> bool:
        """Whether this id is the configuration's, or another source's."""
        if resource_id in self.declared:
            return True
        return resource_id in self._found and resource_id not in self._by_source.get(source, {})

    def room(self, source: str) -> int:
        """How many targets a source may have, beside those of the others."""
        others = len(self._found) - len(self._by_source.get(source, {}))
        return MAX_RESOURCES - len(self.declared) - others

    def put(self, source: str, targets: Mapping[str, Target]) -> None:
        """Have these, in the place of what the source had."""
        for id in self._by_source.get(source, {}):
            del self._found[id]
        self._by_source[source] = dict(targets)
        self._found.update(targets)

    def of(self, source: str) -> Mapping[str, Target]:
        """What a source has now."""
        return self._by_source.get(source, {})

    def configured(self) -> tuple[DeclaredResource, ...]:
        """What a registration says of the targets of the configuration."""
        return tuple(DeclaredResource(one.id, one.kind) for one in self.declared.values())

    def found(self) -> tuple[DeclaredResource, ...]:
        """What a registration says of the targets that were found."""
        return tuple(
            DeclaredResource(one.id, one.kind, discovered=True) for one in self._found.values()
        )

    def __getitem__(self, resource_id: str) -> Target:
        found = self.declared.get(resource_id)
        return self._found[resource_id] if found is None else found

    def __iter__(self) -> Iterator[str]:
        yield from self.declared
        yield from self._found

    def __len__(self) -> int:
        return len(self.declared) + len(self._found)
