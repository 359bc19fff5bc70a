"""*Live sessions*: the person's own, and everybody's where the policy lets the person see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from svc.authority.sessions.admin import SessionAdmin
from svc.authority.state.recorder import MAX_POLICIES, Recorder, person
from svc.errors import Denied, Fault, SvcError
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import IReadOnlyStore, IStore, ITransaction
from svc.model.audit.events import OPERATOR_REFUSED
from svc.model.ids import is_random_id, random_id
from svc.model.policy.access import AccessRequest, Decision, EntityUid
from svc.model.policy.requests import context_at, user
from svc.model.session.ending import ENDED_BY_OPERATOR, ENDED_BY_PERSON
from svc.model.session.session import Session

MANAGE_SESSIONS = "manageSessions"
END, ID = "end-session", "session"
PATH, END_PATH = "/sessions", "/sessions/end"
MOST_SHOWN = 100


@define
class SessionRights:
    """Whether a person may manage the sessions of others."""

    cluster: str
    engine: Callable[[], IPolicyEngine | None]
    now: Callable[[], float]

    def decide(self, person_id: str) -> Decision | None:
        """The policy's answer; None while no policy is in force."""
        engine = self.engine()
        if engine is None:
            return None
        request = AccessRequest(
            request_kind="admin",
            principal=user(person_id),
            action=MANAGE_SESSIONS,
            resource=EntityUid("Cluster", self.cluster),
            context=context_at(self.now()),
        )
        return engine.decide(request)

    def may_manage(self, person_id: str) -> bool:
        """Whether the policy lets this person see and end everybody's sessions."""
        decision = self.decide(person_id)
        return decision is not None and decision.allowed


@frozen
class _SessionRow:
    session: Session
    person: str
    proxy: str


@define
class SessionsPage:
    """The list."""

    store: IReadOnlyStore
    rights: SessionRights

    path = PATH
    title = "Live sessions"

    async def content(self, visit: Visit) -> Content:
        """Oldest first, a hundred at a time, each with a button that ends it."""
        me, is_of_all = visit.visitor.person.id, visit.given.get("of") == "all"
        may_manage = self.rights.may_manage(me)
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
    store: IStore
    recorder: Recorder
    rights: SessionRights

    path = END_PATH
    name = END
    subject = ID

    async def act(self, visit: Visit) -> str:
        """End it; its Proxy is told with the next snapshot."""
        me, uid = visit.visitor.person.id, visit.given.get(ID, "")

        def may_end(session: Session) -> str:
            if session.person_id == me:
                return ENDED_BY_PERSON
            if self.rights.may_manage(me):
                return ENDED_BY_OPERATOR
            raise _NotTheirs("the session is another person's")

        try:
            found = is_random_id(uid) and await self.sessions.end_session(uid, person(me), may_end)
        except _NotTheirs:
            await self._record_refusal(me)
            found = None
        if not found:
            raise SvcError(
                "no such session is open; it may have ended meanwhile",
                reason="unknown_session",
                fault=Fault.NOT_FOUND,
            )
        return f"{PATH}?of=all" if visit.given.get("of") == "all" else PATH

    async def _record_refusal(self, me: str) -> None:
        """The person had the form of a session that it may not end."""
        decision = self.rights.decide(me)
        await self.store.run(
            "refuse an end of a session",
            lambda tx: self.recorder.append(
                tx,
                OPERATOR_REFUSED,
                person(me),
                cedar_action=MANAGE_SESSIONS,
                decision="deny" if decision is None else decision.decision,
                decision_id=random_id(self.recorder.entropy),
                policies=() if decision is None else decision.policies[:MAX_POLICIES],
                policy_version=None if decision is None else decision.policy_version,
                request=None if decision is None else decision.request,
                reason="no_policy" if decision is None else "denied",
            ),
        )


class _NotTheirs(Denied):
    """A session of somebody else, which this person may not end."""


def _rows(tx: ITransaction, person_id: str, after: str) -> list[_SessionRow]:
    """One more than are shown."""
    found = tx.sessions.open_of_person(person_id) if person_id else tx.sessions.open()
    names: dict[str, str] = {}

    def name(id: str, get: Callable[[str], Any], attribute: str) -> str:
        if id not in names:
            one = get(id)
            names[id] = id if one is None else getattr(one, attribute) or id
        return names[id]

    left = [one for one in found if _place(one) > after][: MOST_SHOWN + 1]
    return [
        _SessionRow(
            one,
            name(one.person_id, tx.people.get, "known_name"),
            name(one.proxy_id, tx.nodes.get, "name"),
        )
        for one in left
    ]


def _place(session: Session) -> str:
    """In the order in which they began."""
    return f"{session.started_at:020.6f}-{session.uid}"


def _cells(row: _SessionRow, visit: Visit, is_of_all: bool) -> list[Any]:
    one = row.session
    return [
        moment(one.started_at),
        text(row.person),
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
