"""Agents, as operators add, list and revoke them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.registry.rights import RightsCheck
from svc.authority.registry.tokens import TokenAdmin
from svc.authority.registry.words import (
    already_exists,
    checked_name,
    known_person,
    optional_note,
)
from svc.authority.state.credentials import recorded_of
from svc.authority.state.tables import AGENTS, DELEGATIONS, SignedRows, StateUnsigned
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import AGENT_ADD, AGENT_DELEGATE, AGENT_REVOKE
from svc.model.audit.record import Actor, rfc3339
from svc.model.cluster.agent import Agent, AgentState, Assertion, Delegation
from svc.model.cluster.node import TokenRecord, TokenRole
from svc.model.cluster.person import Person, require_active
from svc.model.ids import agent_id, is_agent_id, is_opaque_id, random_id
from svc.proto.gate.v1 import admin_pb2 as pb

DELEGATION_SECS = 30 * 86400
MOST_SECS = 366 * 86400
BY_CERTIFICATE = "certificate"
"""The route of agents that are known by certificates of their own."""

_MOST_PEOPLE = 16
_MOST_CLAIMS = 16
_LONGEST = 255
_WEB = "webConnect"


@define
class AgentAdmin:
    """Adds, lists and revokes agents.

    Attributes:
        actions: Those that open sessions, which alone may be delegated.
    """

    writer: StateWriter
    tokens: TokenAdmin
    actions: Callable[[], frozenset[str]]
    rights: RightsCheck

    async def add_agent(self, request: pb.AddAgentRequest, actor: Actor) -> pb.TokenResponse:
        """Add an agent, or a new token for one that is there, and give the token once.

        One that enrolls by its platform's assertions gets no token.
        """
        name, assertion, token = self._name(request), _assertion(request), self.tokens.new()
        id, ids = (
            agent_id(self.writer.entropy),
            [random_id(self.writer.entropy) for _ in request.persons],
        )
        actions = self._actions(request)
        ends = self.writer.now() + _lasts(request.delegation_secs)

        def add(tx: ITransaction) -> tuple[Agent, TokenRecord | None]:
            rows = self.writer.rows(tx)
            owner = require_active(known_person(rows, request.owner))
            self.rights.require_rights(tx, actor, [owner])
            known = self._known(tx, rows, Agent(id, name, owner.id, assertion=assertion), actor)
            for delegation_id, word in zip(ids, request.persons, strict=True):
                person = require_active(known_person(self.writer.rows(tx), word))
                self.rights.require_rights(tx, actor, [person])
                self._delegate(
                    tx,
                    Delegation(
                        id=delegation_id,
                        agent_id=known.id,
                        person_id=person.id,
                        actions=actions,
                        added_at=self.writer.now(),
                        expires_at=ends,
                    ),
                    actor,
                )
            if known.assertion.issuer:
                return known, None
            row = self.tokens.record(token, TokenRole.AGENT, known.id, request.ttl_secs)
            self.tokens.add(tx, row, actor)
            return known, row

        known, row = await self.writer.change("add an agent", add)
        if row is None:
            return pb.TokenResponse(ca_pin=self.tokens.ca_pin, id=known.id)
        return self.tokens.response(token, row, known.id)

    async def list_agents(
        self, request: pb.ListAgentsRequest, actor: Actor
    ) -> pb.ListAgentsResponse:
        """Every agent, with when it was seen last.

        By default that is what a Proxy told, which one of before does not.  By the route
        ``certificate`` it is the newest certificate of each, from the Authority's own records.
        """
        if request.route not in ("", BY_CERTIFICATE):
            raise Malformed(f"route: must be {BY_CERTIFICATE}")

        def look(tx: ITransaction) -> list[pb.AgentRow]:
            rows = self.writer.rows(tx)
            found = [self._row(tx, rows, one) for one in tx.agents.all()]
            if not request.route:
                seen = tx.agents.last_seen()
                for row in found:
                    row.seen = int(seen.get(row.id, 0))
                return found
            return [row for row in found if row.seen]

        return pb.ListAgentsResponse(agents=await self.writer.read("list agents", look))

    async def revoke_agent(
        self, request: pb.RevokeAgentRequest, actor: Actor
    ) -> pb.ChangePersonResponse:
        """Revoke an agent for good: its sessions end, and it opens none."""
        note = optional_note(request.note)

        def write(tx: ITransaction) -> tuple[Agent, bool, int]:
            known = self._revocable(tx, request.agent)
            sessions = len(tx.sessions.open_of_person(known.id))
            changed = known.state is AgentState.ACTIVE
            if changed:
                revoke_agent(tx, self.tokens, known, actor, note)
            return known, changed, sessions

        known, changed, sessions = await self.writer.change("revoke an agent", write)
        return pb.ChangePersonResponse(
            id=known.id, name=known.name, changed=changed, open_sessions=sessions
        )

    def _revocable(self, tx: ITransaction, word: str) -> Agent:
        """The agent of that name or id; one whose row was taken away or altered is revoked too."""
        rows = self.writer.rows(tx)
        try:
            return _known_agent(rows, word)
        except StateUnsigned:
            stored = tx.agents.get(word) if is_agent_id(word) else tx.agents.named(word)
            id = word if stored is None else stored.id
            subject = AGENTS.subject(id)
            owner = recorded_of(rows, {subject}).get(subject, {}).get("person_id")
            if owner is None or (stored is not None and stored.state is AgentState.REVOKED):
                raise
            if stored is None:
                tx.agents.add(Agent(id, id, owner))
            return Agent(id, id, owner)

    def _name(self, request: pb.AddAgentRequest) -> str:
        name = checked_name(request.name, "name")
        if is_opaque_id(name) or is_agent_id(name):
            raise Malformed("name: has the form of an id; choose another")
        if len(request.persons) > _MOST_PEOPLE:
            raise Malformed(f"agents: at most {_MOST_PEOPLE} people at once")
        return name

    def _actions(self, request: pb.AddAgentRequest) -> tuple[str, ...]:
        asked = tuple(sorted(set(request.actions)))
        if asked and not request.persons:
            raise Malformed("agents: an action is delegated by a person; name one (--for)")
        known = self.actions()
        for action in asked:
            if action not in known:
                raise Malformed(
                    f"action {action[:64]}: must be one that opens a session: "
                    f"{', '.join(sorted(known))}"
                )
        return asked or (_WEB,)

    def _known(self, tx: ITransaction, rows: SignedRows, wanted: Agent, actor: Actor) -> Agent:
        """The agent of that name and owner, which is added if it is not there."""
        known = rows.agent_named(wanted.name)
        if known is None:
            if rows.person_named(wanted.name) is not None:
                raise already_exists(f"agent {wanted.name}: a person has that name")
            return self._added(tx, wanted, actor)
        same = (known.owner, known.assertion, known.state)
        if same != (wanted.owner, wanted.assertion, AgentState.ACTIVE):
            raise already_exists(
                f"agent {wanted.name}: already exists, with another owner or assertion, or was "
                "revoked; choose another name"
            )
        return known

    def _added(self, tx: ITransaction, wanted: Agent, actor: Actor) -> Agent:
        added = Agent(
            id=wanted.id,
            name=wanted.name,
            owner=wanted.owner,
            assertion=wanted.assertion,
            added_at=self.writer.now(),
        )
        tx.agents.add(added)
        details = {"agent_id": added.id, "agent_name": added.name, "person_id": added.owner}
        if added.assertion.issuer:
            details["issuer"] = added.assertion.issuer
        state = [AGENTS.now(tx, added.id)]
        self.writer.append(tx, AGENT_ADD, actor, details=details, state=state)
        return added

    def _delegate(self, tx: ITransaction, delegation: Delegation, actor: Actor) -> None:
        tx.delegations.add(delegation)
        details = {
            "agent_id": delegation.agent_id,
            "delegation_id": delegation.id,
            "person_id": delegation.person_id,
            "actions": list(delegation.actions),
            "not_after": rfc3339(delegation.expires_at),
        }
        state = [DELEGATIONS.now(tx, delegation.id)]
        self.writer.append(tx, AGENT_DELEGATE, actor, details=details, state=state)

    def _row(self, tx: ITransaction, rows: SignedRows, one: Agent) -> pb.AgentRow:
        """One agent; as last seen when its newest certificate was issued."""
        at = self.writer.now()
        issued = [
            each.issued_at
            for each in tx.agent_certificates.of(one.id)
            if each.expires > at and rows.agent_certificate(each.sha256) is not None
        ]
        owner = tx.people.get(one.owner)
        row = pb.AgentRow(
            id=one.id,
            name=one.name,
            owner_id=one.owner,
            owner="" if owner is None else owner.known_name,
            state=_state(one, owner),
            issuer=one.assertion.issuer,
            seen=int(max(issued, default=0)),
        )
        for each in tx.delegations.unexpired(at):
            if each.agent_id == one.id and each.revoked_at is None:
                person = tx.people.get(each.person_id)
                row.delegations.add(
                    id=each.id,
                    person_id=each.person_id,
                    person="" if person is None else person.known_name,
                    actions=each.actions,
                    expires_at=int(each.expires_at),
                )
        return row


def revoke_agent(
    tx: ITransaction, tokens: TokenAdmin, known: Agent, actor: Actor, note: dict[str, str]
) -> None:
    """Revoke an active agent, its delegations and its tokens, each with its record."""
    writer = tokens.writer
    at = writer.now()
    tx.agents.revoke(known.id, at)
    theirs = [one for one in tx.delegations.unexpired(at) if one.agent_id == known.id]
    ended = [one.id for one in theirs if tx.delegations.revoke(one.id, at)]
    details = {"agent_id": known.id, "person_id": known.owner, **note}
    state = [AGENTS.now(tx, known.id), *(DELEGATIONS.now(tx, one) for one in ended)]
    writer.append(tx, AGENT_REVOKE, actor, details=details, state=state)
    for token in tokens.waiting_for(tx, known.id, TokenRole.AGENT):
        tokens.withdraw(tx, token.token, actor)


def revoke_agents_of(tx: ITransaction, tokens: TokenAdmin, owner: Person, actor: Actor) -> None:
    """Revoke what acts for an owner who is let go."""
    rows = tokens.writer.rows(tx)
    for one in tx.agents.of_owner(owner.id):
        if rows.is_signed(AGENTS.entry_of(one)):
            revoke_agent(tx, tokens, one, actor, {})


def _known_agent(rows: SignedRows, word: str) -> Agent:
    found = rows.agent(word) if is_agent_id(word) else rows.agent_named(word)
    if found is None:
        raise SvcError(
            f"agent {word}: does not exist; list them: svc authority agents list",
            reason="unknown_agent",
            fault=Fault.NOT_FOUND,
        )
    return found


def _state(agent: Agent, owner: Person | None) -> str:
    if agent.state is AgentState.ACTIVE and owner is not None and owner.state.value == "disabled":
        return "disabled"
    return agent.state.value


def _assertion(request: pb.AddAgentRequest) -> Assertion:
    claims = dict(request.claims)
    texts = (request.issuer, request.audience, *claims, *claims.values())
    if any(len(one) > _LONGEST or not one.isprintable() for one in texts):
        raise Malformed(f"agents: issuer, audience and claims have at most {_LONGEST} characters")
    if not request.issuer:
        if request.audience or claims:
            raise Malformed("agents: an audience or claims without an issuer")
        return Assertion()
    if not request.issuer.startswith("https://"):
        raise Malformed("agents: the issuer must be an https URL")
    if "sub" not in claims or "" in claims or len(claims) > _MOST_CLAIMS:
        raise Malformed(
            f"agents: an assertion is taken by its exact claims, of which `sub` must be one and "
            f"{_MOST_CLAIMS} the most"
        )
    return Assertion(request.issuer, request.audience, claims)


def _lasts(asked: int) -> float:
    if asked > MOST_SECS:
        raise Malformed(f"agents: a delegation lasts at most {MOST_SECS} seconds")
    return float(asked or DELEGATION_SECS)
