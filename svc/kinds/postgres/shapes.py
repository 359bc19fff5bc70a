"""The shape of a plain statement: the same text with other integers in it does the same.

Pure.  A client that writes its values into its statements never sends a text twice, so each would
be given to the parser.  Of a shape are only texts of which every reader, ours and any server's,
finds the same tokens but for the values of integers: a SELECT, INSERT, UPDATE or DELETE without
quotes, comments, parameters and casts to ``float``, whose size the grammar itself looks at.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from svc.kinds.postgres.effects import TextEffects

_MOST = 4096
_known: dict[bytes, TextEffects] = {}

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


def by_shape(text: bytes, read: Callable[[bytes], TextEffects]) -> TextEffects:
    """What a text would do; of texts of one shape only the first is read."""
    shape = shape_of(text)
    if shape is None:
        return read(text)
    known = _known.get(shape)
    if known is None:
        known = read(text)
        if known.incomplete:
            return known  # why it cannot be read may be of this text alone
        if len(_known) >= _MOST:
            _known.clear()
        _known[shape] = known
    return known
