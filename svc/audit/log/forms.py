"""Checks the form of a sealed record's values.  Pure."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

from svc.audit.log.record import MAX_TEXTS, is_tidy
from svc.errors import Malformed
from svc.model.audit.record import Shape
from svc.model.canonical import Json

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z\Z")
_SECONDS = len("2026-01-01T00:00:00")


def text(value: Json) -> str:
    """A text, tidy.  Raises Malformed."""
    found = exact_text(value)
    if not is_tidy(found):
        raise Malformed("audit row: a text is too long, or was not sealed")
    return found


def exact_text(value: Json) -> str:
    """A text that is kept as it was.  Raises Malformed."""
    if not isinstance(value, str):
        raise Malformed("audit row: a text member is missing")
    return value


def mapping(value: Json) -> dict[str, Json]:
    """An object.  Raises Malformed."""
    if not isinstance(value, dict):
        raise Malformed("audit row: a member is not an object")
    return value


def listed(value: Json) -> list[Json]:
    """A list.  Raises Malformed."""
    if not isinstance(value, (list, tuple)):
        raise Malformed("audit row: a member is not a list")
    return list(value)


def check_time(time: str) -> None:
    """Return if *time* is one.  Raises Malformed."""
    if _TIME.match(time) is None or not is_second(time[:_SECONDS]):
        raise Malformed("audit row: the time is malformed")


@lru_cache(maxsize=1024)
def is_second(time: str) -> bool:
    """Whether there is such a second; the records that come together are of few."""
    try:
        datetime.fromisoformat(time)
    except ValueError:
        return False
    return True


def is_shaped(shape: Shape, value: Json) -> bool:
    """Whether a field of the details has its shape."""
    if shape is Shape.TEXTS:
        return (
            isinstance(value, list)
            and len(value) <= MAX_TEXTS + 1
            and all(isinstance(one, str) and is_tidy(one) for one in value)
        )
    if shape is Shape.TEXT:
        return isinstance(value, str) and is_tidy(value)
    return type(value) is (int if shape is Shape.NUMBER else bool)
