"""Ids of the decisions that a Proxy makes on requests.

They have the form of every decision id, 32 hex digits, and are found among many million entries
by one row of an index for each batch: ten digits name the Proxy, twelve the millisecond, and the
last ten are random.  A batch is filed under the least id that its entries can have.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from attrs import define, field

from svc.model.ids import Entropy

_DOMAIN = b"svc-decision-id-v1\0"
_ORIGIN = 5
RANDOM_BYTES = 5
"""Of an id."""

_PLACED = 2 * (_ORIGIN + 6)
_LATEST = 2**48 - 1


def origin_digits(origin: str) -> str:
    """How every id of the decisions of that Proxy begins."""
    return sha256(_DOMAIN + origin.encode()).hexdigest()[: 2 * _ORIGIN]


def least_id(decision_id: str) -> str:
    """The least id of the same millisecond and Proxy."""
    return decision_id[:_PLACED] + "0" * 2 * RANDOM_BYTES


def greatest_id(decision_id: str) -> str:
    """The greatest id of the same millisecond and Proxy."""
    return decision_id[:_PLACED] + "f" * 2 * RANDOM_BYTES


@define
class DecisionIds:
    """Draws ids; they never go back in time, whatever the clock does."""

    origin: str
    now: Callable[[], float]
    entropy: Entropy
    _digits: str = field(init=False)
    _last: int = field(default=0, init=False)
    _placed: str = field(init=False)

    @_digits.default
    def _of_origin(self) -> str:
        return origin_digits(self.origin)

    @_placed.default
    def _at_first(self) -> str:
        return f"{self._digits}{0:012x}"

    def next(self) -> str:
        """A new id."""
        at = int(self.now() * 1000)
        if at > self._last:
            self._last = min(at, _LATEST)
            self._placed = f"{self._digits}{self._last:012x}"
        return self._placed + self.entropy(RANDOM_BYTES).hex()
