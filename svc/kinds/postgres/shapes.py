"""The shape of a plain statement: the same text with other integers in it does the same.

Pure.  A client that writes its values into its statements never sends a text twice, so each would
be given to the parser.  Of a shape are only texts of which every reader, ours and any server's,
finds the same tokens but for the values of integers: a SELECT, INSERT, UPDATE or DELETE without
quotes, comments, parameters and casts to ``float``, whose size the grammar itself looks at.
"""

from __future__ import annotations

import re

_INTEGER = re.compile(rb"(?<![\w.])[0-9]{1,9}(?![\w.])")
"""One that fits 32 bits, and is no part of a name or of another number."""

_PLAIN = re.compile(
    rb"\s*(?:select|insert|update|delete)\s(?!.*(?:--|float))[\w\s.,()=<>+*-]*",
    re.IGNORECASE | re.DOTALL,
)


def shape_of(text: bytes) -> bytes | None:
    """What texts have in common that differ in integers only; None: it is read by itself."""
    # Nothing optional is behind the last class: a text that does not fit costs one pass.
    if _PLAIN.fullmatch(text.rstrip().removesuffix(b";")) is None:
        return None
    return _INTEGER.sub(b"0", text)
