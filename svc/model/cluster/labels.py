"""What a label of a resource may be, whoever gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from svc.errors import Malformed

DISCOVERED = "discovered."
"""What the names of labels begin with that a Connector gave; an operator's never do (rule R15)."""

MAX_LABELS = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]{0,62}\Z")
_MAX_VALUE = 256


def check_labels(labels: Mapping[str, str]) -> None:
    """Return if each may be a label of a resource.

    Raises:
        Malformed: one may not, or there are too many.
    """
    if len(labels) > MAX_LABELS:
        raise Malformed(f"labels: at most {MAX_LABELS}")
    for name, value in labels.items():
        if _NAME.match(name) is None or name.startswith(DISCOVERED):
            raise Malformed("label: lower-case letters, digits and . _ / -, at most 63")
        if len(value) > _MAX_VALUE:
            raise Malformed(f"label {name}: its value is longer than {_MAX_VALUE}")


def check_found_labels(labels: Mapping[str, str]) -> None:
    """As :func:`check_labels`, of labels that something found rather than an operator wrote.

    Raises:
        Malformed: one may not be a label, or would not be shown as it is.
    """
    check_labels(labels)
    for name, value in labels.items():
        if not value.isprintable():
            raise Malformed(f"label {name}: its value has control characters")


def as_discovered(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels that a Connector gave, under the names by which policies see them."""
    return {DISCOVERED + name: value for name, value in labels.items()}


def discovered_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Of a resource's labels those that a Connector gave, under its own names."""
    return {
        name.removeprefix(DISCOVERED): value
        for name, value in labels.items()
        if name.startswith(DISCOVERED)
    }


def given_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Of a resource's labels those that an operator gave."""
    return {name: value for name, value in labels.items() if not name.startswith(DISCOVERED)}
