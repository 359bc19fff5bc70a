"""Persons, groups and memberships; each change counts in the catalog revision."""

from __future__ import annotations

from collections.abc import Collection

from attrs import evolve, frozen
from zope.interface import implementer

from svc.errors import AlreadyExists, NoSuchRow
from svc.interfaces.facets import IPeople, IPeopleChanges
from svc.model.cluster.person import Person, PersonState
from svc.store.sql.columns import RowColumns, RowInsert
from svc.store.sql.statements import Statements, next_revision

_PERSONS = RowColumns(Person, "persons", "id, name, state, salt", state=PersonState, salt=bytes)
_WITH_GROUPS = (
    f"SELECT {_PERSONS.listed}, group_name FROM persons"
    " LEFT JOIN memberships ON memberships.person_id = persons.id"
)
_ADD = RowInsert("persons", _PERSONS.listed, also="added_at")


@implementer(IPeople)
@frozen
class People:
    """See :class:`IPeople`."""

    _db: Statements

    def add(self, person: Person, at: float) -> None:
        self._require_groups(person.groups)
        if not _ADD(self._db, person, added_at=at):
            raise AlreadyExists(f"person {person.name}: the id or the name already exists")
        self._join(person.id, person.groups)
        next_revision(self._db)

    def get(self, person_id: str) -> Person | None:
        return self._person("WHERE id = ?", person_id)

    def named(self, name: str) -> Person | None:
        return self._person("WHERE name = ?", name)

    def all(self) -> tuple[Person, ...]:
        groups: dict[str, list[str]] = {}
        for person_id, group in self._db.all(
            "SELECT person_id, group_name FROM memberships ORDER BY person_id, group_name"
        ):
            groups.setdefault(person_id, []).append(group)
        found = _PERSONS.all(self._db, "ORDER BY name")
        return tuple(evolve(one, groups=tuple(groups.get(one.id, ()))) for one in found)

    def add_group(self, name: str, at: float) -> None:
        sql = "INSERT INTO person_groups (name, added_at) VALUES (?, ?) ON CONFLICT DO NOTHING"
        if not self._db.change(sql, name, at):
            raise AlreadyExists(f"group {name}: already exists")
        next_revision(self._db)

    def groups(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self._db.all("SELECT name FROM person_groups ORDER BY name"))

    def set_groups(self, person_id: str, groups: Collection[str]) -> None:
        self._require_groups(groups)
        if self.get(person_id) is None:
            raise NoSuchRow("store: there is no such person")
        self._db.change("DELETE FROM memberships WHERE person_id = ?", person_id)
        self._join(person_id, groups)
        next_revision(self._db)

    def revoke(self, person_id: str, at: float) -> bool:
        changed = self._db.change(
            "UPDATE persons SET state = 'revoked', revoked_at = ?"
            " WHERE id = ? AND state <> 'revoked'",
            at,
            person_id,
        )
        if changed:
            next_revision(self._db)
        return bool(changed)

    def _person(self, where: str, value: str) -> Person | None:
        """With its groups, in one statement: each session reads one."""
        rows = self._db.all(f"{_WITH_GROUPS} {where} ORDER BY group_name", value)
        if not rows:
            return None
        *person, first = rows[0]
        groups = () if first is None else tuple([row[-1] for row in rows])
        return _PERSONS.value(person, groups=groups)

    def _join(self, person_id: str, groups: Collection[str]) -> None:
        for group in sorted(set(groups)):
            self._db.change(
                "INSERT INTO memberships (person_id, group_name) VALUES (?, ?)", person_id, group
            )

    def _require_groups(self, groups: Collection[str]) -> None:
        """Refuse before anything is written: a caller may catch this and go on."""
        for group in groups:
            if self._db.one("SELECT 1 FROM person_groups WHERE name = ?", group) is None:
                raise NoSuchRow(f"store: there is no group {group!r}")


@implementer(IPeopleChanges)
@frozen
class PeopleChanges:
    """See :class:`IPeopleChanges`."""

    _db: Statements

    def disable(self, person_id: str) -> bool:
        return self._change_state(person_id, PersonState.ACTIVE, PersonState.DISABLED)

    def enable(self, person_id: str) -> bool:
        return self._change_state(person_id, PersonState.DISABLED, PersonState.ACTIVE)

    def forget_name(self, person_id: str, salt: bytes) -> bool:
        sql = "UPDATE persons SET name = id, salt = ? WHERE id = ? AND name <> id"
        changed = self._db.change(sql, salt, person_id)
        if changed:
            next_revision(self._db)
        return bool(changed)

    def remove_group(self, name: str) -> bool:
        changed = self._db.change("DELETE FROM person_groups WHERE name = ?", name)
        if changed:
            next_revision(self._db)
        return bool(changed)

    def _change_state(self, person_id: str, before: PersonState, after: PersonState) -> bool:
        sql = "UPDATE persons SET state = ? WHERE id = ? AND state = ?"
        changed = self._db.change(sql, after.value, person_id, before.value)
        if changed:
            next_revision(self._db)
        return bool(changed)
