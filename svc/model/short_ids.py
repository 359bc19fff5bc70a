"""Ids that people shorten: the one that begins so, or a refusal that names all that do.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from svc.errors import Fault, SvcError

LEAST_PREFIX = 4
"""Digits of an id below which it is not looked for."""

LEAST_DECISION = 8
"""The same of a decision's id, of which a log has millions."""

LEAST_REQUEST = 22
"""The same of a request in a session, at a busy Proxy: ten digits of the Proxy, twelve of the time.

Ids of requests that begin so were made by one Proxy in one millisecond.
"""

LEAST_KEY_DIGITS = 16
"""The same of a receiver key's digest: so many that nobody makes a key whose digest begins so."""

DECISION = "decision or session"
"""What a decision is found by, its own id or that of the session that it let open."""

_SHOWN = 5
_BEGINNING = re.compile(rf"[0-9a-f]{{{LEAST_DECISION},31}}")


class AmbiguousId(SvcError):
    """The ids of several begin so."""

    fault = Fault.INVALID
    reason = "ambiguous_id"


def is_beginning(text: str) -> bool:
    """Whether a decision's id can begin so, and is looked for; a whole id is none."""
    return _BEGINNING.fullmatch(text) is not None


def whole_id(what: str, word: str, ids: Iterable[str]) -> str | None:
    """The id among *ids* that is *word* or begins so; None where there is none.

    Args:
        what: The noun, for the refusal: ``request``.

    Raises:
        AmbiguousId: several begin so.
    """
    if len(word) < LEAST_PREFIX:
        return None
    found = sorted({one for one in ids if one.startswith(word)})
    if word in found:
        return word
    if len(found) > 1:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise AmbiguousId(
            f"{what} {word}: the ids of {len(found)} begin so: {', '.join(found[:_SHOWN])}{more}; "
            "type more digits"
        )
    return found[0] if found else None
