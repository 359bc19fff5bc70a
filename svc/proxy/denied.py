"""The exact texts of requests that were just denied, for whoever sent them to ask for one of them.

They are kept in memory only, for a short time, and given to nobody else: no record has them.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime

from svc.errors import Fault, SvcError
from svc.messages.access import NO_DENIED_TEXT, DeniedRequest
from svc.proxy.sessions.gated import GatedOpen

KEPT_SECS = 600.0
MOST_OF_ONE = 16
"""Texts of one person."""

MOST = 1_000


@frozen
class _DeniedOnce:
    person_id: str
    until: float
    denied: DeniedRequest


@define
class DeniedTexts:
    """Those of this Proxy."""

    clock: IReactorTime
    _kept: OrderedDict[str, _DeniedOnce] = field(factory=OrderedDict, init=False)

    def keep_of(self, opened: GatedOpen, decision_id: str, action: str, text: bytes) -> None:
        """Keep the text of a request inside a session."""
        denied = DeniedRequest(
            resource=opened.request.resource,
            action=action,
            parameters=opened.facts,
            text=text,
        )
        self.keep(opened.person_id, decision_id, denied)

    def keep(self, person_id: str, decision_id: str, denied: DeniedRequest) -> None:
        """Keep one, in the place of the person's oldest or of the oldest of all."""
        now = self.clock.seconds()
        while self._kept and next(iter(self._kept.values())).until <= now:
            self._kept.popitem(last=False)
        own = [id for id, one in self._kept.items() if one.person_id == person_id]
        if len(own) >= MOST_OF_ONE:
            del self._kept[own[0]]
        elif len(self._kept) >= MOST:
            self._kept.popitem(last=False)
        self._kept[decision_id] = _DeniedOnce(person_id, now + KEPT_SECS, denied)

    def get(self, person_id: str, decision_id: str) -> DeniedRequest:
        """What the person was denied by this decision.

        Raises:
            SvcError: it is not kept here, or was somebody else's.
        """
        kept = self._kept.get(decision_id)
        if kept is None or kept.person_id != person_id or kept.until <= self.clock.seconds():
            raise SvcError(
                "this Proxy does not keep the text of that denial: it keeps your last "
                f"{MOST_OF_ONE} for {KEPT_SECS / 60:.0f} minutes, where an approval of the text "
                "would help, and a request has a text (a statement whose parameters are sent apart "
                "has none); send the request again, or give the text with --statement",
                reason=NO_DENIED_TEXT,
                fault=Fault.NOT_FOUND,
            )
        return kept.denied
