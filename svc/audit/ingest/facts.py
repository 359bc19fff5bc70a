"""Checks that facts are as sealing leaves them: classified, and hidden where personal.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from svc.audit.log.record import PERSONAL
from svc.errors import Malformed
from svc.model.canonical import Json
from svc.model.policy.terms import AttributeTerm

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def check_context(
    path: str, values: Mapping[str, Json], facts: Mapping[str, AttributeTerm]
) -> None:
    """As sealing left it: all is classified, and what is personal is hidden (rule R9)."""
    for name, value in values.items():
        term = facts.get(name)
        if term is None:
            raise Malformed(f"audit row: {path}.{name} is not classified")
        if term.classified != "public":
            require_marker(f"{path}.{name}", value)
        elif not isinstance(value, dict):
            continue
        elif isinstance(term.type, tuple):
            check_context(f"{path}.{name}", value, {each.name: each for each in term.type})
        else:
            raise Malformed(f"audit row: {path}.{name} contains a record that is not classified")


def is_marker(value: Json) -> bool:
    """Whether *value* stands in a record for a personal value."""
    if not isinstance(value, dict) or set(value) != {PERSONAL}:
        return False
    digest = value[PERSONAL]
    return isinstance(digest, str) and _DIGEST.match(digest) is not None


def require_marker(path: str, value: Json) -> None:
    """Return if *value* hides a personal value.  Raises Malformed."""
    if not is_marker(value):
        raise Malformed(f"audit row: {path} is personal and must be hidden")
