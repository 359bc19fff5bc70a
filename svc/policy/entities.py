"""Converts what the gateway knows to the entities that policies use.

Pure functions over small frozen facts: the store's own types stay out, so the
same entities are made from a catalog, from a snapshot and in a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from attrs import field, frozen

from svc.model.cluster.labels import DISCOVERED, as_discovered
from svc.model.policy.access import Entity, EntityUid
from svc.policy.refusals import EntitiesRefused

MAX_ENTITIES = 200_000


@frozen
class PersonFacts:
    """A person: opaque id, name, group ids."""

    id: str
    name: str
    groups: tuple[str, ...] = ()


@frozen
class AgentFacts:
    """An agent, and the id of the person who owns it; it is in none of that one's groups.

    ``acts_for`` has a text of each delegation: see Delegation.
    """

    id: str
    name: str
    owner: str
    acts_for: tuple[str, ...] = ()


@frozen
class GroupFacts:
    """A group, by the id that policies name."""

    id: str


@frozen(hash=False)
class ResourceFacts:
    """A resource of the catalog.

    ``labels`` are the catalog's own and carry access; ``discovered`` are what
    others said about it and reach policies only as ``discovered.<key>``.
    """

    id: str
    entity_type: str
    kind: str
    labels: Mapping[str, str] = field(factory=dict)
    discovered: Mapping[str, str] = field(factory=dict)


@frozen
class NodeFacts:
    """A node of the registry and its role."""

    id: str
    role: str


@frozen
class OperatorFacts:
    """Who may speak over the control socket: ``local:<uid>``."""

    id: str
    groups: tuple[str, ...] = ()


Facts = PersonFacts | AgentFacts | GroupFacts | ResourceFacts | NodeFacts | OperatorFacts


def cluster_uid(cluster: str) -> EntityUid:
    """The resource of administrative actions."""
    return EntityUid("Cluster", cluster)


def entity_of(facts: Facts) -> Entity:
    """The entity for *facts*.

    Raises:
        EntitiesRefused: a catalog label claims to be a discovered one.
    """
    match facts:
        case PersonFacts(id, name, groups):
            return Entity(EntityUid("User", id), {"name": name}, _groups(groups))
        case AgentFacts(id, name, owner, acts_for):
            attributes = {"name": name, "owner": owner, "acts_for": acts_for}
            return Entity(EntityUid("Agent", id), attributes)
        case GroupFacts(id):
            return Entity(EntityUid("Group", id))
        case NodeFacts(id, role):
            return Entity(EntityUid("Node", id), {"role": role})
        case OperatorFacts(id, groups):
            return Entity(EntityUid("Operator", id), parents=_groups(groups))
        case ResourceFacts():
            return Entity(
                EntityUid(facts.entity_type, facts.id), {"kind": facts.kind}, tags=_tags(facts)
            )


def entities_of(facts: Iterable[Facts], cluster: str) -> tuple[Entity, ...]:
    """Every entity of the gateway, sorted by name; the cluster is one of them.

    Raises:
        EntitiesRefused: two facts name one entity, or there are too many.
    """
    return in_order([Entity(cluster_uid(cluster)), *map(entity_of, facts)])


def in_order(entities: Iterable[Entity]) -> tuple[Entity, ...]:
    """The entities, sorted by name.

    Raises:
        EntitiesRefused: one name stands twice, or there are too many.
    """
    # By tuples of texts: names would be compared with each other in Python.
    return tuple(sorted(by_uid(entities).values(), key=lambda one: (one.uid.type, one.uid.id)))


def by_uid(entities: Iterable[Entity]) -> dict[EntityUid, Entity]:
    """The entities under their names.

    Raises:
        EntitiesRefused: one name stands twice, or there are too many.
    """
    found: dict[EntityUid, Entity] = {}
    for entity in entities:
        if entity.uid in found:
            raise EntitiesRefused(
                f"entity of type {entity.uid.type}: two entities have the same id"
            )
        found[entity.uid] = entity
    if len(found) > MAX_ENTITIES:
        raise EntitiesRefused(f"more than {MAX_ENTITIES} entities")
    return found


def slice_digest(entities: Iterable[Entity]) -> str:
    """The digest that a decision over these entities carries (SHA-256, hex)."""
    return digest_of_leaves(one.leaf for one in entities)


def digest_of_leaves(leaves: Iterable[bytes]) -> str:
    """The digest of a slice from the hashes of its entities, in any order."""
    return sha256(b"".join(sorted(set(leaves)))).hexdigest()


class EntityView:
    """One revision of the entities, and what a decision asks of it again and again.

    Immutable to its users; what it remembers (ancestors) follows from
    the entities alone and is made when first asked for.
    """

    def __init__(self, entities: Iterable[Entity]) -> None:
        self.entities = by_uid(entities)
        self._above: dict[EntityUid, tuple[EntityUid, ...]] = {}
        self._people: dict[str, EntityUid | None] | None = None

    def upwards(self, uid: EntityUid) -> tuple[EntityUid, ...]:
        """The entity itself and all it is a member of, near ones first."""
        known = self._above.get(uid)
        if known is not None:
            return known
        found = {uid: None}
        waiting = [uid]
        for current in waiting:  # grows while it is walked
            entity = self.entities.get(current)
            for parent in entity.parents if entity is not None else ():
                if parent not in found:
                    found[parent] = None
                    waiting.append(parent)
        above = tuple(found)
        if uid in self.entities:  # names that do not exist must not fill the memory
            self._above[uid] = above
        return above

    def person_named(self, name: str) -> EntityUid | None:
        """The person of this name; None where it is none, or several."""
        if self._people is None:
            self._people = {}
            for uid, entity in self.entities.items():
                called = entity.attrs.get("name")
                if uid.type == "User" and isinstance(called, str) and called:
                    self._people[called] = None if called in self._people else uid
        return self._people.get(name)

    def closure(self, uids: Iterable[EntityUid]) -> tuple[EntityUid, ...]:
        """The existing entities among *uids* and everything above them, sorted."""
        found = {above for uid in uids for above in self.upwards(uid)}
        return tuple(sorted(uid for uid in found if uid in self.entities))

    def above(self, uids: Iterable[EntityUid]) -> frozenset[EntityUid]:
        """The entities *uids* and all that they are members of, also those that do not exist."""
        return frozenset(above for uid in uids for above in self.upwards(uid))

    def digest(self, above: Iterable[EntityUid]) -> str:
        """The slice digest of those that exist, given all of :meth:`above`."""
        return digest_of_leaves(one.leaf for one in self._existing(above))

    def text(self, above: Iterable[EntityUid]) -> str:
        """Those that exist, as Cedar reads them, given all of :meth:`above`.

        Raises:
            Malformed: when a value has no JSON form.
        """
        return cedar_json(self._existing(above))

    def _existing(self, uids: Iterable[EntityUid]) -> list[Entity]:
        return [found for uid in uids if (found := self.entities.get(uid)) is not None]

    def follow(self, former: EntityView) -> frozenset[EntityUid]:
        """Take over the entities that are as they were: their texts are made already.

        Returns:
            The others, and those that are only in one of the two.
        """
        entities, known = self.entities, former.entities
        changed = set(known.keys() - entities.keys())
        for uid, entity in entities.items():
            before = known.get(uid)
            if before is entity:
                continue
            if before is None or before != entity:
                changed.add(uid)
            else:
                entities[uid] = before
        return frozenset(changed)


def cedar_json(entities: Iterable[Entity]) -> str:
    """The entities as Cedar reads them.

    Raises:
        Malformed: when a value has no JSON form.
    """
    return "[" + b",".join(one.text for one in entities).decode("ascii") + "]"


def _groups(ids: Iterable[str]) -> tuple[EntityUid, ...]:
    return tuple(EntityUid("Group", group) for group in ids)


def _tags(facts: ResourceFacts) -> dict[str, str]:
    if any(key.startswith(DISCOVERED) for key in facts.labels):
        raise EntitiesRefused(f"resource {facts.id}: a label may not start with {DISCOVERED!r}")
    return {**facts.labels, **as_discovered(facts.discovered)}
