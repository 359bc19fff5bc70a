"""What the resident tells about itself, over its control socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import asdict, define
from twisted.internet.interfaces import IReactorTime

from svc.client.heads import KnownHead
from svc.client.link import ProxyLink, no_proxy
from svc.client.own_certificate import check_own, identity_status
from svc.client.resident.handed import HandedSessions
from svc.client.resident.refused import RecentRefusals
from svc.client.resident.service import Resident
from svc.errors import Denied, Fault, Malformed, SvcError
from svc.interfaces.identity import IIdentity
from svc.model.audit.record import rfc3339
from svc.model.session.lacking import LACKING
from svc.runtime.services import bounded

_REFRESH_SECS = 15.0


async def _unknown() -> int | None:
    return None


@define
class StatusService:
    """Answers the questions of ``svc status`` and ``svc resources list``.

    Attributes:
        waiting: How many requests for access wait for the person's decision; None: not known.
        own_name: The name of the person or agent; empty where it is not known.
        renew: Takes the identity that ``svc join`` has written since, if it has.
    """

    resident: Resident
    handed: HandedSessions
    link: ProxyLink
    identity: IIdentity
    refusals: RecentRefusals
    clock: IReactorTime
    renew: Callable[[], object]
    renew_until: Callable[[], float] = float
    own_name: Callable[[], str] = str
    head: KnownHead | None = None
    waiting: Callable[[], Awaitable[int | None]] = _unknown

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The state of everything; fetched again first where the question says ``refresh``.

        Raises:
            SvcError: an unknown question, or the Proxy that is connected did not answer in time;
                at once where none would, because the certificate is not good now.
        """
        if question.get("ask") != "status":
            raise Malformed("control: unknown request")
        if question.get("refresh") is True:
            if self.identity.problem is not None:
                self.renew()
                check_own(self.identity)
            try:
                await bounded(self.clock, _REFRESH_SECS, self.link.refreshed(), "the Proxy")
            except SvcError as refusal:
                is_away = refusal.fault is Fault.DEADLINE and not self.link.proxy
                if not (isinstance(refusal, Denied) or is_away):
                    raise
                # The status says so: refused, or not connected and why.
        waiting = None if self.link.proxy == "" else await self.waiting()
        return {**self._status(), "requests_to_decide": waiting}

    def _no_new_sessions(self) -> list[dict[str, str]]:
        """Why no session opens now, as far as that is known."""
        why = {word: LACKING[word] for word in self.link.lacking}
        refusal: SvcError | None = self.link.denied
        if refusal is None and not self.link.proxy:
            refusal = no_proxy(self.link.problem)
        if refusal is not None:
            why[refusal.reason] = refusal.text
        standing = self.refusals.standing
        if standing is not None:
            why.setdefault(standing.reason, standing.text)
        return [{"reason": reason, "text": text} for reason, text in why.items()]

    def _status(self) -> dict[str, Any]:
        link = self.link
        is_connected = bool(link.proxy) and self.identity.problem is None
        # Who serves what is known by the list of a Proxy; what is kept of it is of before.
        endpoints = [
            {**one.public, "served": one.served and is_connected} for one in self.resident.endpoints
        ]
        return {
            "running": True,
            **identity_status(self.identity, self.renew_until(), self.own_name()),
            "proxy": {
                "connected": is_connected,
                "address": link.proxy,
                "problem": link.problem,
            },
            "no_new_sessions": self._no_new_sessions(),
            "endpoints": endpoints,
            "web": self.resident.listing,
            "sessions": self.resident.sessions + self.handed.count,
            **({} if self.head is None else {"audit": self.head.public}),
            "ended": [{**asdict(one), "at": rfc3339(one.at)} for one in self.resident.cuts.kept],
            "refused": [
                {
                    **asdict(one),
                    "at": rfc3339(one.at),
                    "first_at": rfc3339(one.first_at),
                    "policies": list(one.policies),
                }
                for one in self.refusals.kept
            ],
        }
