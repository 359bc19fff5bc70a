"""Loads newer versions of the keys this Authority signs with, and warns before they expire.

A purpose key (heads of the audit log, records of state, policy snapshots, grants) is good because
of its certificate, which travels with each signature.  So a newer one needs nobody's leave: it is
signed by the cluster's root, lies in ``keys/``, and is signed with from then on.  What the one
before has signed is judged by the time of its own.  Where the clock is set back to before the
newer one's beginning, the one before is signed with until then.  The root's key makes it, and
nothing that runs has that (rule R14): an operator does, in time, as the log and a metric say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field
from twisted.logger import Logger

from svc.errors import SvcError
from svc.pki.profile import DAY
from svc.pki.root import ClusterKeys, PurposeKey
from svc.runtime.threads import InThread

WARN_SECS = 30 * DAY
"""So long before its end a key is named in the log, once a day."""

URGENT_SECS = 7 * DAY
"""And as an error."""

_log = Logger(namespace="svc_authority")


@define
class SigningKeyRotation:
    """See the module.

    Attributes:
        keys: Given the newer ones.
        issuers: When the issuing CAs that are signed with end, by kind; their ends are told too.
        load: Reads the key in ``keys/`` where it is newer than this one; blocks, raises SvcError.
        taken: Told the word of each that is signed with from now on.
        is_stale: Told of each key whether another one lies in ``keys/`` that is not accepted.
        ends_in: Told of each key the seconds that are left; none or less: it has ended.
        is_paused: Whether rotation is paused: then no newer key is loaded, and ends are told still.
    """

    keys: ClusterKeys
    issuers: Callable[[], Mapping[str, float]]
    load: Callable[[PurposeKey], PurposeKey | None]
    now: Callable[[], float]
    in_thread: InThread
    taken: Callable[[str], object]
    is_stale: Callable[[str, bool], object]
    ends_in: Callable[[str, float], object]
    is_paused: Callable[[], bool]
    _former: dict[str, PurposeKey] = field(factory=dict)
    _unread: dict[str, str] = field(factory=dict)
    _named: dict[str, int] = field(factory=dict)

    async def follow(self) -> None:
        """One pass; a key that cannot be read is logged once, and the current key stays in use."""
        for word, used in tuple(self.keys.purposes.items()):
            newer = None if self.is_paused() else await self._newer(used)
            former = self._former.get(word)
            if newer is not None:
                self._former[word] = used
                self._take(newer)
                _log.info("signing with a newer key", key=word, days=self._days(newer.ends_at))
            elif former is not None and not self._is_good(used) and self._is_good(former):
                self._take(former)
                _log.warn("the clock was set back; signing with the previous key", key=word)
        ends = {word: one.ends_at for word, one in self.keys.purposes.items()}
        for word, at in {**ends, **self.issuers()}.items():
            self.ends_in(word, at - self.now())
            self._warn(word, at)

    def _take(self, key: PurposeKey) -> None:
        self.keys.take(key)
        self.taken(key.word)

    def _is_good(self, key: PurposeKey) -> bool:
        return key.begins_at <= self.now() < key.ends_at

    async def _newer(self, used: PurposeKey) -> PurposeKey | None:
        def load() -> PurposeKey | SvcError | None:
            try:
                return self.load(used)
            except SvcError as refused:
                return refused

        found = await self.in_thread(load)
        self.is_stale(used.word, isinstance(found, SvcError))
        if isinstance(found, SvcError):
            if self._unread.get(used.word) != found.text:
                _log.error("a key in keys/ was not accepted", key=used.word, reason=found.text)
            self._unread[used.word] = found.text
            return None
        self._unread.pop(used.word, None)
        return found

    def _warn(self, word: str, at: float) -> None:
        """Once a day, from a month before its end on."""
        left, today = at - self.now(), int(self.now() // DAY)
        if left > WARN_SECS:
            self._named.pop(word, None)
        elif self._named.get(word) != today:
            self._named[word] = today
            log = _log.warn if left > URGENT_SECS else _log.error
            log(
                "a key of the cluster is about to expire; create the next one with `svc "
                "authority keys renew`",
                key=word,
                days=self._days(at),
            )

    def _days(self, at: float) -> int:
        return int((at - self.now()) // DAY)
