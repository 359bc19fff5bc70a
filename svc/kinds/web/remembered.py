"""What a gate read of a connection's requests, for those that come again (ADR 56).

Pages ask for the same in the same words, many times.  What was read of a head is the same each
time, and so are the facts of two heads that differ in what no policy reads: as one object, they
are decided once in a second (ADR 53).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType

from attrs import define, field, frozen

from svc.kinds.web.head import HttpRequest, read_request
from svc.kinds.web.reading import RequestReading
from svc.model.policy.access import ContextValue

MOST_BYTES = 8 * 1024
"""Of heads that one connection remembers."""

MOST_FACTS = 64


@frozen
class AskedRequest:
    """What was read of a head.

    Attributes:
        action: What it is decided by.
        facts: Nobody may change them.
        text: What an approval of exactly this request shows and binds.
    """

    head: HttpRequest
    action: str
    facts: Mapping[str, ContextValue]
    text: bytes


@define(eq=False)
class RememberedRequests:
    """Of one connection; nothing of it outlives that."""

    reading: RequestReading
    _known: dict[bytes, AskedRequest] = field(factory=dict, init=False)
    _size: int = field(default=0, init=False)
    _facts: dict[Hashable, Mapping[str, ContextValue]] = field(factory=dict, init=False)

    def read(self, raw: bytes) -> AskedRequest:
        """What this head asks.  Raises BadHead: it is not taken, or the kind has no such request.

        Args:
            raw: Up to and with the empty line, or the line feed that spoils it.
        """
        known = self._known.get(raw)
        if known is None:
            head = read_request(raw, self.reading.protocols)
            action, facts = self.reading.asked(head)
            known = AskedRequest(
                head=head,
                action=action,
                facts=self._shared(action, facts),
                text=exact_text(head),
            )
            self._keep(raw, known)
        return known

    @property
    def kept_bytes(self) -> int:
        """Of heads that are remembered."""
        return self._size

    @property
    def kept_facts(self) -> int:
        """How many requests' facts are."""
        return len(self._facts)

    def forget(self) -> None:
        """Keep nothing: no other request may follow, for days."""
        self._known.clear()
        self._facts.clear()
        self._size = 0

    def _keep(self, raw: bytes, asked: AskedRequest) -> None:
        if asked.head.upgrades:
            self.forget()
            return
        if self._size + len(raw) > MOST_BYTES:
            self._known.clear()
            self._size = 0
        if len(raw) <= MOST_BYTES:
            self._known[raw] = asked
            self._size += len(raw)

    def _shared(self, action: str, facts: Mapping[str, ContextValue]) -> Mapping[str, ContextValue]:
        """The same facts as one object."""
        key = (action, tuple(facts.items()))
        try:
            known = self._facts.get(key)
        except TypeError:  # a fact that is itself a mapping
            return MappingProxyType(dict(facts))
        if known is None:
            if len(self._facts) >= MOST_FACTS:
                self._facts.clear()
            known = self._facts[key] = MappingProxyType(dict(facts))
        return known


def exact_text(head: HttpRequest) -> bytes:
    """What an approval of exactly this request shows and binds: method and target.

    A body is not read before the decision, so where there is one, the text says so.
    """
    text = head.method + b" " + head.target
    if head.upgrades:
        return text + b"\n(and whatever is sent after it, as " + head.protocol + b")"
    return text if head.body.length == 0 else text + b"\n(with any body)"
