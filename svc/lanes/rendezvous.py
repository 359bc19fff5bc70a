"""Matches the two halves of a direct lane, by one token each (rule R20).

A token is 32 random bytes, bound to its rendezvous and its side, good for ten
seconds and consumed by the first connection that shows it.  Nothing is sent to
a half before the other is there; a rendezvous that does not come about closes
what had come, and whoever arranged it goes on without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from socket import MSG_PEEK
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from svc.errors import Fault, SvcError
from svc.lanes.pipes import Pipes
from svc.lanes.preface import GO, Preface, Side
from svc.lanes.splice import Splice, SpliceEnded
from svc.messages.session import LANE_TOKEN_BYTES

RENDEZVOUS_SECS = 10.0
MAX_OF_OWNER = 16
"""Rendezvous one person may have arranged at a time: 32 halves that may wait."""
MAX_CALLED_OFF = 1024
"""Tokens of cancelled rendezvous that are remembered, the latest ones."""


@define(eq=False)
class Rendezvous:
    """One lane to be.

    Attributes:
        tokens: What each side has to show.
        spliced: Fires with the :class:`~svc.lanes.splice.Splice`, not started yet;
            fails with SvcError where the halves did not meet.  Cancel it to call
            the rendezvous off.
    """

    owner: str
    tokens: dict[Side, bytes] = field(repr=False)
    spliced: Deferred[Splice]
    too_late: IDelayedCall
    halves: dict[Side, Any] = field(factory=dict)


@define(eq=False)
class RendezvousTable:
    """Those of one Proxy.

    Attributes:
        reactor: Keeps time, and drives what is joined.
        entropy: For the tokens.
        on_outcome: Hears ``joined``, ``missed`` (a half did not come), ``refused`` (a token that
            is wrong, late, used or of the other side; not one whose session ended while
            its half was on the way, as every short session's may).
        most: Lanes there may be, those included whose halves are expected.
    """

    reactor: Any
    entropy: Callable[[int], bytes]
    on_outcome: Callable[[str], object]
    most: int
    pipes: Pipes = field(factory=Pipes)
    # By the hash: what a stranger guesses is never compared with a token byte by byte.
    _expected: dict[bytes, tuple[Rendezvous, Side]] = field(factory=dict, init=False)
    _called_off: dict[bytes, None] = field(factory=dict, init=False)
    _of_owner: Counter[str] = field(factory=Counter, init=False)
    _lanes: int = field(default=0, init=False)

    @property
    def expected(self) -> int:
        """How many halves may still come."""
        return len(self._expected)

    @property
    def lanes(self) -> int:
        """How many there are, or are to be."""
        return self._lanes + self._of_owner.total()

    def arrange(self, owner: str) -> Rendezvous:
        """Expect two halves from now on.

        Args:
            owner: Who has so many at a time: a person's id.

        Raises:
            SvcError: ``too_many_lanes``.
        """
        if self._of_owner[owner] >= MAX_OF_OWNER or self.lanes >= self.most:
            raise SvcError(
                "too many direct lanes are there, or of one person on their way",
                reason="too_many_lanes",
                fault=Fault.EXHAUSTED,
            )
        self._of_owner[owner] += 1
        tokens = {side: self.entropy(LANE_TOKEN_BYTES) for side in Side}
        spliced: Deferred[Splice] = Deferred(lambda _: self._over(rendezvous, "called_off"))
        too_late = self.reactor.callLater(RENDEZVOUS_SECS, lambda: self._over(rendezvous, "missed"))
        rendezvous: Rendezvous = Rendezvous(
            owner=owner, tokens=tokens, spliced=spliced, too_late=too_late
        )
        for side, token in tokens.items():
            self._expected[sha256(token).digest()] = (rendezvous, side)
        return rendezvous

    def arrived(self, preface: Preface, transport: Any) -> bool:
        """Accept a half; False if nobody expects it, and then the caller closes it.

        The transport must hold nothing unread and nothing unsent.
        """
        digest = sha256(preface.token).digest()
        found = self._expected.pop(digest, None)
        if found is None:
            if digest in self._called_off:
                del self._called_off[digest]
            else:
                self.on_outcome("refused")
            return False
        rendezvous, side = found
        if side is not preface.side:
            self.on_outcome("refused")
            self._over(rendezvous, "missed")
            return False
        transport.stopReading()
        rendezvous.halves[side] = transport
        if len(rendezvous.halves) == len(Side):
            self._join(rendezvous)
        return True

    def _join(self, rendezvous: Rendezvous) -> None:
        self._forget(rendezvous)
        person, connector = rendezvous.halves[Side.PERSON], rendezvous.halves[Side.CONNECTOR]
        if not (_is_silent(person) and _is_silent(connector)):
            # Gone, or speaking before its turn: told so now, the other one moves nothing.
            self._end(rendezvous, "missed")
            return
        splice = Splice(reactor=self.reactor, first=person, second=connector, pipes=self.pipes)
        self._lanes += 1
        splice.done.addCallback(self._left)
        self.on_outcome("joined")
        rendezvous.spliced.callback(splice)
        try:
            for transport in (person, connector):
                # Nothing was ever sent on it, so there is room for all of it.
                transport.getHandle().send(GO)
        except OSError:
            splice.abort()
        else:
            splice.start()

    def _over(self, rendezvous: Rendezvous, why: str) -> None:
        if not rendezvous.spliced.called:
            if why == "called_off":
                self._remember(rendezvous)
            self._forget(rendezvous)
            self._end(rendezvous, why)

    def _end(self, rendezvous: Rendezvous, why: str) -> None:
        for transport in rendezvous.halves.values():
            transport.abortConnection()
        if why == "missed":
            self.on_outcome(why)
        refusal = SvcError("the direct lane could not be opened", reason=why)
        rendezvous.spliced.errback(refusal)

    def _remember(self, rendezvous: Rendezvous) -> None:
        """Keep the tokens that were not shown yet, to know them where they still come."""
        digests = (sha256(token).digest() for token in rendezvous.tokens.values())
        self._called_off.update((one, None) for one in digests if one in self._expected)
        while len(self._called_off) > MAX_CALLED_OFF:
            del self._called_off[next(iter(self._called_off))]

    def _left(self, ended: SpliceEnded) -> SpliceEnded:
        self._lanes -= 1
        return ended

    def _forget(self, rendezvous: Rendezvous) -> None:
        if rendezvous.too_late.active():
            rendezvous.too_late.cancel()
        for token in rendezvous.tokens.values():
            self._expected.pop(sha256(token).digest(), None)
        self._of_owner[rendezvous.owner] -= 1
        if not self._of_owner[rendezvous.owner]:
            del self._of_owner[rendezvous.owner]


def _is_silent(transport: Any) -> bool:
    """Whether a half is still there and has said nothing since its preface."""
    try:
        transport.getHandle().recv(1, MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
