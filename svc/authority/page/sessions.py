"""*Live sessions*: the person's own, and everybody's where the policy lets the person see them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from attrs import define, frozen

from svc.authority.page.html import (
    Content,
    FormButton,
    Link,
    code,
    moment,
    older,
    paragraph,
    table,
    text,
)
from svc.authority.page.pages import Visit
from svc.authority.registry.operators import Operators
from svc.authority.sessions.admin import SessionAdmin, caller_name
from svc.authority.state.recorder import person
from svc.errors import Denied, Fault, SvcError
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.model.ids import is_random_id
from svc.model.session.ending import ENDED_BY_OPERATOR, ENDED_BY_PERSON
from svc.model.session.session import Session

MANAGE_SESSIONS = "manageSessions"
END, ID = "end-session", "session"
PATH, END_PATH = "/sessions", "/sessions/end"
MOST_SHOWN = 100


@frozen
class _SessionRow:
    session: Session
    person: str
    proxy: str


@define
class SessionsPage:
    """The list."""

    store: IReadOnlyStore
    operators: Operators

    path = PATH
    title = "Live sessions"

    async def content(self, visit: Visit) -> Content:
        """Oldest first, a hundred at a time, each with a button that ends it."""
        me, is_of_all = visit.visitor.person.id, visit.given.get("of") == "all"
        may_manage = self.operators.allows(me, MANAGE_SESSIONS, visit.visitor.factor_at)
        if is_of_all and not may_manage:
            raise Denied("the policy does not let you see the sessions of others")
        after = visit.given.get("after", "")
        rows = await self.store.read(
            "live sessions", lambda tx: _rows(tx, "" if is_of_all else me, after)
        )
        shown, more = rows[:MOST_SHOWN], len(rows) > MOST_SHOWN
        found: list[Any] = []
        if may_manage:
            other = Link(PATH, "Only mine") if is_of_all else Link(f"{PATH}?of=all", "Everybody's")
            found.append(paragraph(other.tag()))
        found.append(
            table(
                ("Begun", "Person", "Resource", "Kind", "Proxy", "Session", ""),
                (_cells(one, visit, is_of_all) for one in shown),
                "No session is open.",
            )
        )
        if more:
            query = {"of": "all"} if is_of_all else {}
            found.append(older(PATH, "More sessions", after=_place(shown[-1].session), **query))
        return found


@define
class EndSession:
    """The button."""

    sessions: SessionAdmin
    operators: Operators

    path = END_PATH
    name = END
    subject = ID

    async def act(self, visit: Visit) -> str:
        """End it; its Proxy is told with the next snapshot."""
        me, uid = visit.visitor.person.id, visit.given.get(ID, "")
        factor = visit.visitor.factor_at

        def may_end(session: Session) -> str:
            if session.person_id == me:
                return ENDED_BY_PERSON
            if self.operators.allows(me, MANAGE_SESSIONS, factor):
                return ENDED_BY_OPERATOR
            raise _NotTheirs("the session is another person's")

        try:
            found = is_random_id(uid) and await self.sessions.end_session(uid, person(me), may_end)
        except _NotTheirs:
            # The person had a form of this session and lost the right to it, or made one up.
            with suppress(Denied):
                await self.operators.authorize_person(me, MANAGE_SESSIONS, factor)
            found = None
        if not found:
            raise SvcError(
                "no such session is open; it may have ended meanwhile",
                reason="unknown_session",
                fault=Fault.NOT_FOUND,
            )
        return f"{PATH}?of=all" if visit.given.get("of") == "all" else PATH


class _NotTheirs(Denied):
    """A session of somebody else, which this person may not end."""


def _rows(tx: ITransaction, person_id: str, after: str) -> list[_SessionRow]:
    """One more than are shown."""
    found = tx.sessions.open_of_person(person_id) if person_id else tx.sessions.open()
    left = [one for one in found if _place(one) > after][: MOST_SHOWN + 1]
    return [_SessionRow(one, caller_name(tx, one.person_id), _proxy(tx, one)) for one in left]


def _proxy(tx: ITransaction, session: Session) -> str:
    known = tx.nodes.get(session.proxy_id)
    return session.proxy_id if known is None else known.name


def _place(session: Session) -> str:
    """In the order in which they began."""
    return f"{session.started_at:020.6f}-{session.uid}"


def _cells(row: _SessionRow, visit: Visit, is_of_all: bool) -> list[Any]:
    one = row.session
    return [
        moment(one.started_at),
        text(row.person or one.person_id),
        text(one.resource_id),
        text(one.kind),
        text(row.proxy),
        code(one.uid),
        _button(one, visit, {"of": "all"} if is_of_all else {}),
    ]


def _button(session: Session, visit: Visit, more: Mapping[str, str]) -> Any:
    if session.end_reason:
        return "is being ended"
    if session.uid == visit.visitor.session_uid:
        return "this page"
    token = visit.browser.form_token(END, session.uid)
    fields = [(ID, session.uid), ("token", token), *more.items()]
    return FormButton(END_PATH, "End", fields).tag()
