"""The seam to traces: how rooms begin, describe and hand on a span.

A room is given these as plain callables and need not know whether anybody
collects; the defaults here do nothing and cost next to nothing.  This page
must not know OpenTelemetry, and nothing of it may change what a call answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from attrs import frozen

from svc.interfaces.rpc import Metadata, MetadataValue

TRACEPARENT = "traceparent"

Traced = Callable[[str, Mapping[str, MetadataValue]], AbstractContextManager[object]]
"""``traced(method, metadata)`` is entered around the handler of a served call; never raises."""

Headers = Callable[[], Metadata]
"""What each outgoing call carries beside its own metadata; never raises."""


class Note(Protocol):
    """Says something of the span that is current; these facts and no others (document 1).

    Never a secret, a person's id, or a body.  An empty fact is left out.
    """

    def __call__(
        self, *, action: str = "", resource: str = "", decision: str = "", session_uid: str = ""
    ) -> None:
        """Add to what was said before, or replace it."""


class Span(Protocol):
    """One piece of work; current from its beginning until ``end``."""

    @property
    def traceparent(self) -> str:
        """The W3C header of this span; empty if there is none."""

    @property
    def note(self) -> Note:
        """Describes this span."""

    def end(self, error: BaseException | None = None) -> None:
        """It is over, well or by *error*; what follows is no part of it.  Idempotent."""


Spans = Callable[[str, Mapping[str, MetadataValue]], Span]
"""``spans(name, headers)`` begins a span whose parent those headers name; never raises.

Whoever begins one ends it, also where its work fails.
"""


def no_note(
    *, action: str = "", resource: str = "", decision: str = "", session_uid: str = ""
) -> None:
    """A :class:`Note` that does nothing."""


class _NoSpan:
    """The one span there is while nobody collects."""

    traceparent = ""
    note: Note = staticmethod(no_note)

    def end(self, error: BaseException | None = None) -> None:
        """Nothing."""


def no_trace() -> str:
    """The trace id if there is no trace."""
    return ""


_NO_SPAN = _NoSpan()


def no_span(name: str, headers: Mapping[str, MetadataValue]) -> Span:
    """A :class:`Spans` that makes none."""
    return _NO_SPAN


@frozen
class Traces:
    """Everything a role's rooms are given; without arguments, nothing is traced.

    Attributes:
        traced: For servers; None costs a call nothing.
        headers: For channels to our own services; None likewise.
        trace_id: Of the span that is current, 32 hex digits; empty where there is none.
    """

    traced: Traced | None = None
    headers: Headers | None = None
    spans: Spans = no_span
    note: Note = no_note
    trace_id: Callable[[], str] = no_trace


NO_TRACES = Traces()
