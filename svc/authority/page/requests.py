"""*Requests*: those of others that wait for the person's decision, and the person's own.

An approval is a signature by the person's own key (ADR 43).  A page does not have
it: it shows exactly what would be allowed, and the command to type.
"""

from __future__ import annotations

from typing import Any

from attrs import define

from svc.authority.access.records import Asker
from svc.authority.access.requests import AccessRequestService
from svc.authority.page.html import (
    Content,
    code,
    heading,
    moment,
    number_of,
    older,
    paragraph,
    table,
    text,
)
from svc.authority.page.pages import Visit
from svc.messages.access import AccessEntry
from svc.model.clocks import since

MOST_SHOWN = 50
_WAITING = (
    "Each allows exactly what its row says, and its document is what you sign.  Decide in a"
    " terminal, which shows the same document and its SHA-256 before it asks you."
)


@define
class RequestsPage:
    """The page."""

    requests: AccessRequestService

    path = "/requests"
    title = "Requests"

    async def content(self, visit: Visit) -> Content:
        """Two tables, of each fifty requests at a time, the oldest first."""
        visitor, begin = visit.visitor, number_of(visit.given, "from")
        asker = Asker(visitor.person, factor_at=visitor.factor_at)
        waiting, own = await self.requests.to_decide(asker), await self.requests.own(asker)
        found: list[Any] = [
            heading("Waiting for your decision"),
            paragraph(_WAITING),
            table(
                ("Person", *_HEADS, "Decide"),
                ([_person(one), *_cells(one), _decide(one)] for one in _part(waiting, begin)),
                "Nothing waits for your decision.",
            ),
            heading("Asked for by you"),
            table(
                ("State", *_HEADS, "In a terminal"),
                ([_state(one), *_cells(one), _withdraw(one)] for one in _part(own, begin)),
                "You have asked for nothing that has not ended.  To ask: svc request RESOURCE",
            ),
        ]
        end = begin + MOST_SHOWN
        if max(len(waiting), len(own)) > end:
            found.append(older(self.path, "More requests", **{"from": end}))
        return found


_HEADS = ("Resource", "Action", "Parameters", "For", "Sessions", "Reason", "Asked", "Until")


def _part(entries: list[AccessEntry], begin: int) -> list[AccessEntry]:
    return entries[begin : begin + MOST_SHOWN]


def _cells(entry: AccessEntry) -> list[Any]:
    terms = entry.terms
    parameters, secs, uses = terms.get("parameters"), terms.get("secs"), terms.get("uses")
    named = parameters if isinstance(parameters, dict) else {}
    given = ", ".join(f"{name}={value}" for name, value in sorted(named.items()))
    asked_at = terms.get("asked_at")
    return [
        text(f"{terms.get('resource')} ({terms.get('kind')})"),
        text(f"{terms.get('action')}, one exact text" if entry.is_exact else terms.get("action")),
        text(given or "any that the policy allows"),
        text(since(secs) if isinstance(secs, int) else secs),
        "any number" if uses is None else text(f"{uses}, of which {entry.used} are used"),
        text(terms.get("reason")),
        moment(asked_at) if isinstance(asked_at, int) else "",
        moment(entry.ends_at),
    ]


def _person(entry: AccessEntry) -> str:
    return text(f"{entry.terms.get('person_name')} ({entry.terms.get('person')})")


def _decide(entry: AccessEntry) -> list[Any]:
    name = entry.terms.get("id")
    digest = paragraph("SHA-256 of the document: ", code(entry.document_sha256.hex()))
    commands = (f"svc requests {word} {name}" for word in ("approve", "deny"))
    return [*(paragraph(code(one)) for one in commands), digest]


def _state(entry: AccessEntry) -> str:
    return text(f"{entry.state} by {entry.decided_by}" if entry.decided_by else entry.state)


def _withdraw(entry: AccessEntry) -> Any:
    is_live = entry.state in ("open", "approved")
    return code(f"svc requests withdraw {entry.terms.get('id')}") if is_live else ""
