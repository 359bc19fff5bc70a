"""What a policy is asked, what it answers, and the entities it uses.

Values only: nothing here knows Cedar, a store or a wire.  The one form in
which a request enters an audit record is made here (:func:`request_form`), so
that replay reads back exactly what was decided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import in_

from svc.errors import Malformed

ContextValue = bool | int | str | tuple[str, ...] | frozenset[str] | Mapping[str, "ContextValue"]
"""What a context attribute may hold: never a float, never bytes, never nothing."""

RequestKind = Literal["connect", "db_connect", "db_query", "kube", "web", "view", "admin"]
"""The sort of request."""

SESSION_REQUESTS: frozenset[str] = frozenset({"connect", "db_connect", "db_query", "kube", "web"})
"""What an action of a resource kind counts as: the label of the decision counter."""

OPENING_REQUESTS = SESSION_REQUESTS - {"db_query"}
"""What an action that opens a session counts as; a statement is of a session that is open."""

REQUEST_KINDS = SESSION_REQUESTS | {"view", "admin"}

Verdict = Literal["allow", "deny", "error"]

LARGEST_INTEGER = 1 << 53
"""Integers of a request lie within ± this, so that every JSON reader keeps them."""

MAX_LEVELS = 4
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _sealed(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(values))


@frozen(cache_hash=True, order=True)
class EntityUid:
    """The name of one entity: its type and its id, never joined into one text."""

    type: str
    id: str

    def form(self) -> dict[str, str]:
        """The JSON form: an object of two strings."""
        return {"type": self.type, "id": self.id}


def _ordered(uids: Any) -> tuple[EntityUid, ...]:
    return tuple(sorted(set(uids)))


@frozen(hash=False)
class Entity:
    """One entity as the policy sees it.

    ``attrs`` hold what the vocabulary declares for the type, ``parents`` the
    entities it is a direct member of, ``tags`` a resource's labels.
    """

    uid: EntityUid
    attrs: Mapping[str, ContextValue] = field(default=_NOTHING, converter=_sealed)
    parents: tuple[EntityUid, ...] = field(default=(), converter=_ordered)
    tags: Mapping[str, str] = field(default=_NOTHING, converter=_sealed)

    @cached_property
    def text(self) -> bytes:
        """The canonical JSON that Cedar reads and digests cover.

        Made once: an entity that no change concerns is the same object in every revision.

        Raises:
            Malformed: a value has no such form.
        """
        return canonical(entity_form(self))

    @cached_property
    def leaf(self) -> bytes:
        """The hash of the text, by which the entity enters the digest of a slice."""
        return sha256(self.text).digest()


def canonical(form: Any) -> bytes:
    """Deterministic JSON bytes: sorted keys, no spaces, ASCII.

    Raises:
        Malformed: when *form* holds a float or anything JSON has no form for.
    """
    try:
        text = json.dumps(
            form, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
        )
    except (TypeError, ValueError, RecursionError):
        raise Malformed("a value has no canonical form") from None
    return text.encode("ascii")


def entity_form(entity: Entity) -> dict[str, Any]:
    """The JSON form: Cedar's own, sets and parents sorted."""
    return {
        "uid": entity.uid.form(),
        "attrs": {name: _attribute_form(value) for name, value in sorted(entity.attrs.items())},
        "parents": [parent.form() for parent in entity.parents],
        "tags": dict(sorted(entity.tags.items())),
    }


def entity_from_form(form: Any) -> Entity:
    """The entity that :func:`entity_form` wrote.

    Raises:
        Malformed: when *form* is not of that shape.
    """
    if not isinstance(form, Mapping) or set(form) != {"uid", "attrs", "parents", "tags"}:
        raise Malformed("entity: it is not an object with the four fields of an entity")
    attrs, parents, tags = form["attrs"], form["parents"], form["tags"]
    if not isinstance(attrs, Mapping) or not isinstance(parents, list):
        raise Malformed("entity: its attributes or parents are malformed")
    if not isinstance(tags, Mapping) or not all(isinstance(tag, str) for tag in tags.values()):
        raise Malformed("entity: its tags are not text")
    return Entity(
        uid=uid_from_form(form["uid"]),
        attrs={name: _attribute_of(value) for name, value in attrs.items()},
        parents=tuple(uid_from_form(parent) for parent in parents),
        tags=tags,
    )


def _attribute_form(value: ContextValue) -> Any:
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {name: _attribute_form(item) for name, item in value.items()}
    return sorted(value)


def _attribute_of(value: Any) -> ContextValue:
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise Malformed("entity: an attribute is malformed")


@frozen(hash=False)
class AccessRequest:
    """One question to the policy: may this principal do this here, now.

    ``context`` holds facts under the names of the action's closed list (see
    ``svc.model.policy.terms``); an attribute outside the list makes the decision an
    error.  Sets are tuples or frozensets of text; addresses are text.
    """

    request_kind: RequestKind = field(validator=in_(REQUEST_KINDS))
    principal: EntityUid
    action: str
    resource: EntityUid
    context: Mapping[str, ContextValue] = field(default=_NOTHING, converter=_sealed)


@frozen(hash=False)
class Decision:
    """The answer to one request.

    Only ``allowed`` opens anything.  ``decision`` says which sort of answer it
    was: ``error`` means that the policy could not be evaluated cleanly, and
    denies.  ``policies`` are the ``@id`` of the determining policies, sorted;
    ``errors`` are stable words, at most with an ``@id`` or the name of a
    context attribute, never the text of a policy.  ``entities_digest`` is the
    SHA-256 (hex) of the entities this answer could depend on.
    """

    allowed: bool
    decision: Verdict
    policies: tuple[str, ...]
    errors: tuple[str, ...]
    policy_version: int
    entities_digest: str
    request: AccessRequest


def request_form(request: AccessRequest) -> dict[str, Any]:
    """The request as plain JSON values, for the audit record and for replay.

    Sets become sorted arrays, so one request has one form.

    Raises:
        Malformed: when a value cannot stand in canonical JSON: a float, an
            integer past ±2^53, text that is not UTF-8, or nesting past four.
    """
    return {
        "request_kind": request.request_kind,
        "principal": _uid_form(request.principal),
        "action": _text(request.action),
        "resource": _uid_form(request.resource),
        "context": _record(request.context, MAX_LEVELS),
    }


def context_form(context: Mapping[str, ContextValue]) -> dict[str, Any]:
    """The facts of a request as :func:`request_form` writes them.  Raises Malformed."""
    return _record(context, MAX_LEVELS)


def request_from_form(form: Any) -> AccessRequest:
    """The request that :func:`request_form` wrote.

    Raises:
        Malformed: when *form* is not of that shape.
    """
    keys = {"request_kind", "principal", "action", "resource", "context"}
    if not isinstance(form, Mapping) or set(form) != keys:
        raise Malformed("request: it is not an object with the five fields")
    if form["request_kind"] not in REQUEST_KINDS:
        raise Malformed("request: unknown kind")
    if not isinstance(form["context"], Mapping):
        raise Malformed("request: its context is not an object")
    return AccessRequest(
        request_kind=form["request_kind"],
        principal=uid_from_form(form["principal"]),
        action=_text(form["action"]),
        resource=uid_from_form(form["resource"]),
        context={
            _text(name): fact_from_form(value, MAX_LEVELS)
            for name, value in form["context"].items()
        },
    )


def uid_from_form(form: Any) -> EntityUid:
    """The name that :meth:`EntityUid.form` wrote.

    Raises:
        Malformed: when *form* is not an object of the two texts.
    """
    if not isinstance(form, Mapping) or set(form) != {"type", "id"}:
        raise Malformed("entity name: it is not an object with type and id")
    return EntityUid(_text(form["type"]), _text(form["id"]))


def _uid_form(uid: EntityUid) -> dict[str, str]:
    return {"type": _text(uid.type), "id": _text(uid.id)}


def _record(values: Mapping[str, ContextValue], depth: int) -> dict[str, Any]:
    return {
        name if type(name) is str and name.isascii() else _text(name): (
            value if type(value) is str and value.isascii() else _plain(value, depth)
        )
        for name, value in sorted(values.items())
    }


def _plain(value: ContextValue, depth: int) -> Any:
    kind = type(value)  # else it is an abstract class that is asked for
    if kind is str:
        return _text(value)
    if kind is int:
        return _integer(value)  # type: ignore[arg-type]
    if kind is dict and depth > 1:
        return _record(value, depth - 1)  # type: ignore[arg-type]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, str):
        return _text(value)
    if depth > 1 and isinstance(value, Mapping):
        return _record(value, depth - 1)
    if isinstance(value, (tuple, list, set, frozenset)):
        return sorted({_text(item) for item in value})
    raise Malformed("request: a context value has a form that cannot be recorded")


def fact_from_form(value: Any, levels: int) -> ContextValue:
    """The value of a fact that :func:`request_form` wrote.

    Args:
        levels: How many it may have.

    Raises:
        Malformed: when *value* is not of that shape.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return tuple(_text(item) for item in value)
    if levels > 1 and isinstance(value, Mapping):
        return {_text(name): fact_from_form(item, levels - 1) for name, item in value.items()}
    raise Malformed("request: a context value has a form that cannot be recorded")


def _integer(value: int) -> int:
    if not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        raise Malformed("request: an integer lies outside ±2^53")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Malformed("request: a value must be text")
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed("request: a text is not Unicode") from None
    return value
