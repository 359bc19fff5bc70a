"""Say which rows of the requirements checklist a test proves.

The mark is read from the source by ``contrib/conformance.py``, never by
running the test: so the ids must be literal strings in the decorator's call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Marked = TypeVar("_Marked", bound=Callable[..., object])


def proves(*ids: str) -> Callable[[_Marked], _Marked]:
    """Mark a test function or a test class as the proof of checklist rows.

    Args:
        ids: Row ids such as ``"G-TEL-07"``; each must stand in
            ``docs/requirements.ids``.

    Returns:
        A decorator that gives the test back unchanged but for an attribute
        ``proves``, the tuple of ids.
    """

    def mark(test: _Marked) -> _Marked:
        test.proves = ids  # type: ignore[attr-defined]
        return test

    return mark
