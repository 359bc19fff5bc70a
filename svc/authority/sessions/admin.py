"""Open sessions, as operators list and end them.

The end is noted and recorded first, and then told to every Proxy with the next snapshot; it is
told until the session's Proxy reports the end, also by the next Authority that leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping

from attrs import define, evolve
from twisted.logger import Logger

from svc.authority.ingest.notes import checked_note
from svc.authority.registry.peers import PeerProxies
from svc.authority.state.recorder import Recorder
from svc.authority.state.unreadable import require_store
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import SESSION_ASKED_END
from svc.model.audit.record import Actor
from svc.model.audit.standing import StandingSession
from svc.model.canonical import Json
from svc.model.cluster.agent import Agent
from svc.model.cluster.person import Person
from svc.model.ids import is_agent_id
from svc.model.session.ending import ENDED_BY_OPERATOR
from svc.model.session.session import Session, SessionState
from svc.model.short_ids import whole_id
from svc.proto.gate.v1 import admin_pb2 as pb

_log = Logger(namespace="svc_authority")

MOST = 1000
"""Sessions that one command ends."""


@define
class SessionAdmin:
    """Lists and ends open sessions.

    Attributes:
        asked: The sessions that are to end, with the reason.
        publish: Tells the Proxies.
        peers: Knows which Proxies are here.
    """

    store: IStore
    recorder: Recorder
    asked: MutableMapping[str, str]
    publish: Callable[[], object]
    peers: PeerProxies

    async def list_sessions(
        self, request: pb.ListSessionsRequest, actor: Actor
    ) -> pb.ListSessionsResponse:
        """Open sessions, oldest first; of one person or resource, where the request names it."""

        def look(tx: ITransaction) -> list[pb.SessionRow]:
            rows = [_row(tx, one) for one in _chosen(tx, request.person, request.resource)]
            for row in rows:
                row.away = not self.peers.streams(row.proxy_id)
            return rows

        return pb.ListSessionsResponse(sessions=await self.store.read("list sessions", look))

    async def end_sessions(
        self, request: pb.EndOpenSessionsRequest, actor: Actor
    ) -> pb.EndOpenSessionsResponse:
        """End sessions by uid, or all of one person or resource; which they are.

        Raises:
            SvcError: ``unknown_session``: a uid names no open session, or several.
        """
        if not (request.sessions or request.person or request.resource):
            raise Malformed("sessions: name sessions, a person or a resource")
        note: dict[str, Json] = {"note": checked_note(request.note)} if request.note else {}

        def ask(tx: ITransaction) -> list[Session]:
            found = _chosen(tx, request.person, request.resource)
            if request.sessions:
                found = [_named(found, word) for word in dict.fromkeys(request.sessions)]
            if len(found) > MOST:
                raise Malformed(f"sessions: more than {MOST}; name a person or a resource")
            for one in found:
                self._ask(tx, one, actor, ENDED_BY_OPERATOR, note)
            return found

        found = await self.store.run("end sessions for an operator", ask)
        self._tell(found, ENDED_BY_OPERATOR)
        return pb.EndOpenSessionsResponse(sessions=[one.uid for one in found])

    async def end_session(
        self, uid: str, actor: Actor, may_end: Callable[[Session], str]
    ) -> Session | None:
        """End one open session at a person's request; None where no session of that uid is open.

        Args:
            may_end: Gives the reason that the session's own person is told, or raises SvcError.
        """

        def ask(tx: ITransaction) -> Session | None:
            found = tx.sessions.get(uid)
            if found is None or found.state is not SessionState.OPEN:
                return None
            reason = may_end(found)
            self._ask(tx, found, actor, reason, {})
            return evolve(found, end_reason=reason)

        found = await self.store.run("end a session for a person", ask)
        if found is not None:
            self._tell([found], found.end_reason)
        return found

    async def end_standing(
        self, find: Callable[[ITransaction], list[StandingSession]], actor: Actor, reason: str
    ) -> None:
        """End the sessions that *find* gives, whatever their rows say; told this reason."""

        def ask(tx: ITransaction) -> list[str]:
            found = find(tx)
            for one in found:
                session = _readable(tx, one.uid)
                if session is not None and session.state is SessionState.OPEN:
                    self._ask(tx, session, actor, reason, {})
                else:
                    details: dict[str, Json] = {"proxy_id": one.proxy_id}
                    self.recorder.append(
                        tx,
                        SESSION_ASKED_END,
                        actor,
                        session_uid=one.uid,
                        reason=reason,
                        details=details,
                    )
            return [one.uid for one in found]

        uids = await self.store.run("end sessions", ask)
        self.asked.update(dict.fromkeys(uids, reason))
        self.publish()

    def _ask(
        self,
        tx: ITransaction,
        session: Session,
        actor: Actor,
        reason: str,
        more: Mapping[str, Json],
    ) -> None:
        tx.sessions.ask_end(session.uid, reason)
        self.recorder.append(
            tx,
            SESSION_ASKED_END,
            actor,
            session_uid=session.uid,
            resource_id=session.resource_id,
            resource_kind=session.kind,
            decision_id=session.decision_id,
            reason=reason,
            details={
                "person_id": session.person_id,
                "proxy_id": session.proxy_id,
                "connector_id": session.connector_id,
                **more,
            },
        )

    def _tell(self, found: Iterable[Session], reason: str) -> None:
        self.asked.update({one.uid: reason for one in found})
        self.publish()


def _readable(tx: ITransaction, uid: str) -> Session | None:
    """A session's row; None also where it says what no session is."""
    try:
        return tx.sessions.get(uid)
    except Exception:
        require_store(tx)
        _log.failure("the row of a session cannot be read", session=uid)
        return None


def _chosen(tx: ITransaction, person: str, resource: str) -> list[Session]:
    if person:
        known = _called(tx, person)
        if known is None:
            raise SvcError(
                f"person {person}: does not exist; list them: svc authority persons list",
                reason="unknown_person",
                fault=Fault.NOT_FOUND,
            )
        found = tx.sessions.open_of_person(known.id)
    else:
        found = tx.sessions.open()
    return [one for one in found if resource in ("", one.resource_id)]


def _named(found: list[Session], word: str) -> Session:
    """The session of that uid, or whose uid begins so."""
    uid = whole_id("session", word, (one.uid for one in found))
    if uid is None:
        raise SvcError(
            f"session {word}: no open session has an id that begins so; list them: svc authority "
            "sessions list",
            reason="unknown_session",
            fault=Fault.NOT_FOUND,
        )
    return next(one for one in found if one.uid == uid)


def _row(tx: ITransaction, one: Session) -> pb.SessionRow:
    proxy = tx.nodes.get(one.proxy_id)
    return pb.SessionRow(
        uid=one.uid,
        person_id=one.person_id,
        person=caller_name(tx, one.person_id),
        resource=one.resource_id,
        kind=one.kind,
        proxy_id=one.proxy_id,
        proxy=proxy.name if proxy is not None else "",
        decision_id=one.decision_id,
        started_at=int(one.started_at),
        ending=bool(one.end_reason),
    )


def _called(tx: ITransaction, word: str) -> Person | Agent | None:
    """The person or agent of that id or name."""
    return (
        tx.people.get(word) or tx.people.named(word) or tx.agents.get(word) or tx.agents.named(word)
    )


def caller_name(tx: ITransaction, id: str) -> str:
    """What a person or an agent is called; empty where nobody knows it any more."""
    if is_agent_id(id):
        agent = tx.agents.get(id)
        return "" if agent is None else agent.name
    person = tx.people.get(id)
    return "" if person is None else person.known_name
