"""Settings by which a server reads a text; the gate's parser knows one value of each.

With another value a server finds other statements in the same bytes than the gate has decided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from svc.errors import Malformed
from svc.kinds.postgres.messages import text_at
from svc.model.session.ending import READING_CHANGED

READING: Mapping[str, str] = {"client_encoding": "UTF8", "standard_conforming_strings": "on"}
"""They are part of the session's start, so RESET, SET DEFAULT and DISCARD ALL lead back to them,
whatever the defaults of the server, the database and the role are."""

_SAME: Mapping[str, frozenset[str]] = {
    "client_encoding": frozenset({"utf8", "unicode"}),
    "standard_conforming_strings": frozenset({"on", "true"}),
    "backslash_quote": frozenset(),
}
_NOT_IN_A_WORD = re.compile(r"[^a-z0-9]")


def changes_reading(name: str, value: str | None) -> bool:
    """Whether giving a setting this value may change how the server reads a text.

    Args:
        value: None: it is not known.
    """
    same = _SAME.get(name.lower())
    if same is None:
        return False
    return value is None or _NOT_IN_A_WORD.sub("", value.lower()) not in same


def check_reported(body: bytes) -> None:
    """Look at a ParameterStatus.

    Raises:
        Malformed: the server reads what comes next in another way than the gate does.
    """
    name, after = text_at(body)
    wanted = READING.get(name.decode("ascii", "replace"))
    if wanted is not None and text_at(body, after)[0] != wanted.encode("ascii"):
        setting = name.decode("ascii")
        raise Malformed(
            f"{setting} of the session is no longer {wanted}, so statements cannot be decided; "
            f"connect again, and leave {setting} as it is",
            reason=READING_CHANGED,
        )
