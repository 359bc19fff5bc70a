"""The terms of policies, as values.

A resource kind brings its own words by giving :class:`Terms`; the policy room
joins them with the built-in ones into one vocabulary and makes the schema.
Nothing here knows Cedar's grammar beyond the names of its types.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from attrs import field, frozen
from attrs.validators import in_

ValueType = Literal["Bool", "Long", "String", "ipaddr", "Set<String>"]
VALUE_TYPES: frozenset[str] = frozenset({"Bool", "Long", "String", "ipaddr", "Set<String>"})

Classified = Literal["public", "personal"]
"""How a fact is kept in the audit log: ``personal`` can be erased.

There is no third word on purpose: a secret never becomes a fact.
"""


@frozen
class AttributeTerm:
    """One fact: an attribute of a context, of a record in it, or of an entity.

    Args:
        name: An identifier in ``lower_snake_case``.
        type: One of Cedar's types, or the attributes of a record.
        classified: ``public`` or ``personal``; there is no default, so that
            nobody forgets to decide.
        help: One sentence for the reference page.
        ticking: Whether the value changes with every second, so that an
            answer which read it is never kept.
        claimed: Whether it is the client's word alone, which nothing on the way
            enforces: no policy may rest on it (``svc.policy.claims``).  Only a
            fact of a request can be.
    """

    name: str
    type: ValueType | tuple[AttributeTerm, ...]
    classified: Classified = field(validator=in_(("public", "personal")))
    help: str
    ticking: bool = False
    claimed: bool = False

    @cached_property
    def members(self) -> Mapping[str, AttributeTerm] | None:
        """The attributes of a record, by name; None where it is no record."""
        return {each.name: each for each in self.type} if isinstance(self.type, tuple) else None


@frozen
class EntityTerm:
    """One entity type: what it may be a member of, its attributes, its tags."""

    name: str
    help: str
    member_of: tuple[str, ...] = ()
    attributes: tuple[AttributeTerm, ...] = ()
    tagged: bool = False


@frozen
class ActionGroupTerm:
    """A name under which a policy may speak of several actions at once."""

    name: str
    help: str


@frozen
class ActionTerm:
    """One action: who may be asked for it, on what, and the facts it comes with.

    ``context`` names facts of the shared list (:attr:`Terms.facts`); an action
    adds a fact of its own by putting it there.  All facts are optional.
    """

    name: str
    request_kind: str
    principals: tuple[str, ...]
    resources: tuple[str, ...]
    help: str
    groups: tuple[str, ...] = ()
    context: tuple[str, ...] = ()


@frozen
class Terms:
    """What one kind, or the core, adds to the vocabulary."""

    entities: tuple[EntityTerm, ...] = ()
    groups: tuple[ActionGroupTerm, ...] = ()
    facts: tuple[AttributeTerm, ...] = ()
    actions: tuple[ActionTerm, ...] = ()
