"""Makes the row of a batch from requests that were sealed (rule R29, ADR 36)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

from attrs import define, field, frozen

from svc.model.audit.batch import (
    MAX_ENTRIES,
    MAX_TEXT_BYTES,
    SALT_BYTES,
    batch_form,
    values_beside,
)
from svc.model.audit.decision_ids import greatest_id, least_id
from svc.model.audit.entry_tree import RequestPlace, entry_leaves
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.plain_json import write_plain
from svc.model.audit.request import SealedRequest, SessionNumbers
from svc.model.canonical import Json
from svc.model.ids import Entropy

_HEADER_BYTES = 384
"""Of a session's header, at most."""

_MOST = min(MAX_ENTRIES, MAX_TEXT_BYTES // _HEADER_BYTES)
"""Entries of a batch: each may bring a header of its own."""


@frozen
class BatchParts:
    """What the signed row says of a batch, and what stands beside it."""

    form: Mapping[str, Json]
    decision_id: str
    beside: tuple[PersonalValue, ...]


@define
class OpenBatch:
    """Requests that are put together; the numbers in it are given once it is durable.

    Attributes:
        numbers: The newest number of each session, with those of this commit.
    """

    numbers: dict[SessionNumbers, int]
    _texts: list[str] = field(factory=list, init=False)
    _values: list[str] = field(factory=list, init=False)
    _headers: list[str] = field(factory=list, init=False)
    _spans: list[list[int]] = field(factory=list, init=False)
    _newest: dict[SessionNumbers, tuple[tuple[int, str, str], int]] = field(
        factory=dict, init=False
    )
    _ids: list[str] = field(factory=list, init=False)

    def add(self, requests: Iterable[SealedRequest], entropy: Entropy) -> None:
        """The next entries."""
        texts, newest, known_numbers = self._texts, self._newest, self.numbers
        for sealed in requests:
            numbers, common = sealed.numbers, sealed.common
            n = known_numbers.get(numbers, numbers.last) + 1
            known_numbers[numbers] = n
            known = newest.get(numbers)
            if known is None or known[0] != common:
                at = len(self._headers)
                self._headers.append(_header_text(numbers.session_uid, common, entropy(SALT_BYTES)))
                self._spans.append([n, n])
                newest[numbers] = (common, at)
            else:
                at = known[1]
                self._spans[at][1] = n
            for value in sealed.values:
                self._values.append(f"[{len(texts)},{value}]")
            texts.append(sealed.text(at, n))
            self._ids.append(sealed.decision_id)

    def parts(self, place: RequestPlace) -> BatchParts:
        """The batch at its place."""
        leaves = entry_leaves(place, [one.encode() for one in self._texts])
        last_id = greatest_id(max(self._ids))
        return BatchParts(
            form=batch_form(self._headers, self._spans, leaves, last_id),
            decision_id=least_id(min(self._ids)),
            beside=values_beside(self._headers, self._texts, self._values),
        )


def _header_text(session_uid: str, common: tuple[int, str, str], salt: bytes) -> str:
    """The canonical text of a ``RequestHeader``, to which the signed row holds a commitment."""
    version, digest, type_ = common
    return (
        f'{{"entities_digest":"{digest}","policy_version":{version},'
        f'"resource_type":{_quoted(type_)},"salt":"{salt.hex()}","session_uid":"{session_uid}"}}'
    )


_quoted = lru_cache(256)(write_plain)
"""Types of resources are few."""


class _Sized(Protocol):
    @property
    def sealed(self) -> SealedRequest: ...


_Request = TypeVar("_Request", bound=_Sized)


def in_batches(requests: Sequence[_Request]) -> Iterator[Sequence[_Request]]:
    """*requests* in runs that one batch may hold: each of its texts has a length at most."""
    begin = entries = values = 0
    for at, one in enumerate(requests):
        sealed = one.sealed
        beside = sealed.beside
        entry = sealed.size - beside
        if (
            at - begin == _MOST
            or entries + entry > MAX_TEXT_BYTES
            or values + beside > MAX_TEXT_BYTES
        ):
            yield requests[begin:at]
            begin, entries, values = at, 0, 0
        entries += entry
        values += beside
    if requests:
        yield requests[begin:]
