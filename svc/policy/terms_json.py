"""Terms as JSON values, for snapshots and for the guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import asdict

from svc.errors import Malformed
from svc.model.policy.terms import ActionGroupTerm, ActionTerm, AttributeTerm, EntityTerm, Terms

_T = TypeVar("_T")


def terms_form(terms: Terms) -> dict[str, Any]:
    """The terms as JSON values."""
    return asdict(terms)


def terms_from_form(form: Any) -> Terms:
    """The terms that :func:`terms_form` wrote.

    Raises:
        Malformed: when *form* is not of that shape; a fact without its class
            is such a case.
    """
    try:
        return Terms(
            entities=_each(form["entities"], _entity),
            groups=_each(form["groups"], lambda group: ActionGroupTerm(**group)),
            facts=_each(form["facts"], _attribute),
            actions=_each(form["actions"], _action),
        )
    except (TypeError, ValueError, KeyError, RecursionError):
        raise Malformed("vocabulary: malformed") from None


def _each(items: Any, make: Callable[[Any], _T]) -> tuple[_T, ...]:
    if not isinstance(items, (list, tuple)):
        raise TypeError("not a list")
    return tuple(make(item) for item in items)


def _attribute(form: Any) -> AttributeTerm:
    own = form["type"]
    type_ = own if isinstance(own, str) else _each(own, _attribute)
    return AttributeTerm(**{**form, "type": type_})


def _entity(form: Any) -> EntityTerm:
    return EntityTerm(
        **{
            **form,
            "member_of": tuple(form["member_of"]),
            "attributes": _each(form["attributes"], _attribute),
        }
    )


def _action(form: Any) -> ActionTerm:
    tuples = {name: tuple(form[name]) for name in ("principals", "resources", "groups", "context")}
    return ActionTerm(**{**form, **tuples})
