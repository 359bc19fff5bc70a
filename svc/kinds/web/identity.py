"""The field ``svc-identity``: what a person asks for in it, and what a target is told by it.

A person may name another one in it, in whose name a request is to be made.  A target gets a token
of the same name, whatever came (rule R34).
"""

from __future__ import annotations

import re

from svc.kinds.web.head import Headers

FIELD = b"svc-identity"

SPELLINGS = frozenset({FIELD, FIELD.replace(b"-", b"_")})
"""In lower case, all that a program behind might take for the field."""

_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._@\-]{0,127}\Z")

NOBODY = ""
"""What a request names that names several people, or none that could be one."""


def is_identity(name: bytes) -> bool:
    """Whether a field is this one, in any spelling that a program behind might take for it."""
    return name.lower() in SPELLINGS


def named_by(headers: Headers) -> str | None:
    """The person that a request names, or :data:`NOBODY`; None where it names none."""
    if headers.has_none_of(SPELLINGS):
        return None
    values = [value for name, value in headers.fields if is_identity(name)]
    (first, *others) = values
    if others or not _NAME.match(first):
        return NOBODY
    return first.decode("ascii")
