"""The lines in which recorded requests go to the process that decides them again.

The first line is the job.  Then come requests (``R``) and, before the first that was
decided over it, each slice of entities (``S``).  Both ends keep a :class:`SliceWindow`
and so agree, without a word, which slices need not be sent again.  A request is its number,
the facts that differ in nearly each (:data:`VOLATILE`), and the rest, with tabs between: the
rest of many is the same, and is decided once.  Where a turn ends, :data:`TURN_END` says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json import encoder
from typing import Any

from attrs import asdict, define, field, frozen

from svc.errors import Malformed
from svc.policy.prescan import PolicyLimits
from svc.policy.terms_json import terms_form
from svc.policy.vocabulary import Vocabulary

MAX_LINE = 8 * 1024 * 1024
TURN_END = "T\n"

_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_make: Any = getattr(encoder, "c_make_encoder", None)
# Made once: the encoder itself makes one for each call.
_CHUNKS: Any = (
    None
    if _make is None
    else _make(
        None,
        _ENCODER.default,
        encoder.encode_basestring_ascii,
        None,
        ":",
        ",",
        False,
        False,
        True,
    )
)


def _dumps(value: object) -> str:
    return _ENCODER.encode(value) if _CHUNKS is None else "".join(_CHUNKS(value, 0))


VOLATILE = frozenset({"now"})
MOST_SLICES = 4096
MOST_BYTES = 64 * 1024 * 1024


@define
class SliceWindow:
    """The texts of the slices that were sent last, to a number and a size."""

    _texts: dict[str, str] = field(factory=dict, init=False)
    _size: int = field(default=0, init=False)

    def add(self, digest: str, text: str) -> None:
        """One more was sent; the oldest are let go, this one never."""
        self._texts[digest] = text
        self._size += len(text)
        while len(self._texts) > MOST_SLICES or (self._size > MOST_BYTES and len(self._texts) > 1):
            self._size -= len(self._texts.pop(next(iter(self._texts))))

    def get(self, digest: str) -> str | None:
        """The text, if it is kept."""
        return self._texts.get(digest)


@frozen(hash=False)
class ReplayJob:
    """What is to be compared.

    Attributes:
        text: The candidate.
        active: The text in force, and its version: the other side of the comparison.
    """

    text: str
    active: str
    active_version: int

    def line(self, vocabulary: Vocabulary, limits: PolicyLimits) -> bytes:
        """The job as the first line."""
        form = {**asdict(self), "terms": terms_form(vocabulary.terms), "limits": asdict(limits)}
        return _dumps(form).encode("ascii") + b"\n"


def slice_line(digest: str, text: str) -> bytes:
    """A slice of entities, as the store has it.

    Raises:
        Malformed: it is none: too long, or no single line.
    """
    line = f"S{digest} {text}\n".encode()
    if len(line) > MAX_LINE or "\n" in text or " " in digest:
        raise Malformed("policy replay: a slice of entities is malformed")
    return line


def request_line(
    seq: int,
    digest: str,
    form: Mapping[str, Any],
    erased: Sequence[str],
    decided: tuple[str, Sequence[str], int],
) -> bytes:
    """A request, and how it was decided: the decision, its policies and the policy's version."""
    context = form["context"]
    apart = {name: context[name] for name in VOLATILE if name in context}
    if apart:
        kept = {name: value for name, value in context.items() if name not in apart}
        form = {**form, "context": kept}
    rest = _dumps([digest, form, erased, *decided])
    return f"R{seq}\t{_dumps(apart)}\t{rest}\n".encode("ascii")
