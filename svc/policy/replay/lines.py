"""The lines in which recorded requests go to the process that decides them again.

The first line is the job.  A question (``Q``) is all of a request but what differs in nearly
each: its record and the fact :data:`VOLATILE`.  It has a number, by which a line of requests
(``R``) names it for each request of a record that asks it: most ask what was asked before.
Before the first question over it comes each slice of entities (``S``).  Both ends keep a
:class:`SliceWindow` and a :class:`QuestionWindow`, and so agree, without a word, what need not be
sent again.  Where a turn ends, :data:`TURN_END` says so.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from json import encoder
from typing import Any, Generic, TypeVar

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


VOLATILE = "now"
MOST_SLICES = 4096
MOST_BYTES = 64 * 1024 * 1024

MOST_ASKED = 8 * 1024 * 1024
"""Characters of questions that are remembered."""

_LARGEST = 10**15
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


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


@define
class QuestionWindow(Generic[_K, _V]):
    """What is known of the questions that were sent last, to a size of their texts."""

    kept: OrderedDict[_K, _V] = field(factory=OrderedDict, init=False)
    _sizes: OrderedDict[_K, int] = field(factory=OrderedDict, init=False)
    _size: int = field(default=0, init=False)

    def add(self, key: _K, value: _V, size: int) -> list[_V]:
        """One more was sent, of so many characters; the oldest, which are let go."""
        self.kept[key], self._sizes[key] = value, size
        self._size += size
        gone = list[_V]()
        while self._size > MOST_ASKED and len(self.kept) > 1:
            oldest, length = self._sizes.popitem(last=False)
            self._size -= length
            gone.append(self.kept.pop(oldest))
        return gone


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


@frozen(hash=False)
class ReplayQuestion:
    """What is asked.

    Attributes:
        text: Its JSON.
        now: The volatile fact, for which another number may stand in the text; empty where the
            text is all.
    """

    text: str
    now: str

    @classmethod
    def of(
        cls,
        digest: str,
        form: Mapping[str, Any],
        erased: Sequence[str],
        decided: tuple[str, Sequence[str], int],
    ) -> ReplayQuestion:
        """That of a request.

        Args:
            decided: The decision, its policies and the policy's version.
        """
        context, now = form["context"], ""
        apart = context.get(VOLATILE)
        if type(apart) is int and 0 <= apart < _LARGEST:
            now, context = str(apart), {**context, VOLATILE: 0}
        decision, policies, version = decided
        entry = {
            "action": form["request_kind"],
            "cedar_action": form["action"],
            "context": context,
            "decision": decision,
            "policies": policies,
        }
        sides = {"principal": form["principal"], "resource": form["resource"]}
        return cls.of_entry(
            (digest, sides_text(sides), version), _dumps(entry), now, _dumps(erased)
        )

    @classmethod
    def of_entry(
        cls, asked: tuple[str, str, int], entry: str, now: str, erased: str = "[]"
    ) -> ReplayQuestion:
        """That of a request which stands in an entry of a batch.

        Args:
            asked: The digest of the slice, what :func:`sides_text` gives, the policy's version.
            entry: As JSON, with its personal values.
        """
        digest, sides, version = asked
        assert digest.isalnum(), digest  # it is a hash: nothing in it ends the text
        is_apart = "true" if now else "false"
        return cls(f'["{digest}",{sides},{entry},{erased},{version},{is_apart}]', now)

    def line(self, number: str) -> bytes:
        """The line that gives it this number."""
        return f"Q{number}\t{self.text}\n".encode()


def sides_text(sides: Mapping[str, Any]) -> str:
    """Person and resource of a request, as JSON."""
    return _dumps(sides)


def requests_line(seq: int, numbers: Sequence[str], nows: Sequence[str]) -> bytes:
    """Requests of one record: the number of each one's question, and the volatile fact of each."""
    return f"R{seq}\t{' '.join(numbers)}\t{' '.join(nows)}\n".encode("ascii")
