"""How long to stay away from something that failed: twice as long each time, up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from attrs import define

from svc.model.ids import Entropy


def share(entropy: Entropy) -> float:
    """A number from 0 up to 1, each as likely, for a jitter."""
    return int.from_bytes(entropy(4), "big") / 2**32


@define
class Backoff:
    """The waits between one try and the next.

    Attributes:
        first: Seconds to wait after the first failure.
        longest: The most that is ever waited, before the jitter.
        jitter: Makes the wait out of the seconds due; None waits just these.
        failures: How many there were in a row.
    """

    first: float
    longest: float
    jitter: Callable[[float], float] | None = None
    failures: int = 0

    def next(self, at_most: float = inf) -> float:
        """Count one more failure; the seconds to wait after it.

        Args:
            at_most: Shortens the longest wait this time.
        """
        # 2.0 ** 1024 would overflow; the limit is reached long before.
        doubled = self.first * 2.0 ** min(self.failures, 63)
        self.failures += 1
        due = min(self.longest, at_most, doubled)
        return due if self.jitter is None else self.jitter(due)

    def reset(self) -> None:
        """A try succeeded: the next failure is the first again."""
        self.failures = 0
