"""Agents that enroll by an ID token of the platform they run on.

An operator named the platform's issuer, the audience and the exact claims when the agent was
added; those alone decide which agent a token is of.  What is read before the token is verified
only chooses whose keys, and which audience, it is verified by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import define, field

from svc.authority.enroll.agents import AgentCertificates
from svc.authority.signin.assertion import TakenAssertions
from svc.authority.signin.attempts import Flow
from svc.authority.signin.entrance import Bound, Entrance
from svc.authority.signin.http import ProviderHttp
from svc.authority.signin.id_token import ExpectedToken, read_token
from svc.authority.signin.provider import Provider
from svc.authority.signin.refusals import SignInRefused
from svc.authority.signin.strict_json import read_object
from svc.errors import Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.certificate import NewCertificate
from svc.model.cluster.agent import Agent, AgentState
from svc.proto.gate.v1 import sign_in_pb2 as pb

MAX_PLATFORMS = 64


@define
class Platforms:
    """The issuers of agents' assertions, each with its keys.

    Attributes:
        http: Reaches them, within the same limits as the people's provider.
    """

    http: ProviderHttp
    now: Callable[[], float]
    _known: dict[str, Provider] = field(factory=dict, init=False)

    def of(self, issuer: str) -> Provider:
        """The one of an issuer that an operator named."""
        if issuer not in self._known and len(self._known) >= MAX_PLATFORMS:
            del self._known[next(iter(self._known))]
        return self._known.setdefault(
            issuer,
            Provider(
                issuer=issuer,
                client_id="",
                http=self.http,
                clock=self.http.clock,
                now=self.now,
                signs_in=False,
            ),
        )


@define
class AgentAssertions:
    """Enrolls agents by assertions."""

    entrance: Entrance
    platforms: Platforms
    taken: TakenAssertions
    now: Callable[[], float]

    def agent_of(self, token: str) -> Agent | None:
        """The agent that a token claims to be of; None: it is of no agent's issuer.

        Raises:
            SignInRefused: it is no token, or is of none or of several of that issuer's agents.
        """
        try:
            claims = read_object(read_token(token).payload)
        except ValueError:
            return None  # refused by whoever reads it in earnest
        agents = self.entrance.state_cache.state.agents.values()
        theirs = [
            one
            for one in agents
            if one.assertion.issuer and one.assertion.issuer == claims.get("iss")
        ]
        found = [one for one in theirs if _is_of(one, claims)]
        # A revoked one is refused as that: its token must not make it a person.
        found = [one for one in found if one.state is AgentState.ACTIVE] or found[:1]
        provider = self.entrance.provider
        if not theirs or (not found and provider and provider.issuer == claims.get("iss")):
            return None
        if len(found) != 1:
            raise SignInRefused(
                "the token has the claims of no agent, or of several; see `svc authority agents "
                "list` and the claims that they were added with",
                reason="assertion_agent",
            )
        return found[0]

    async def enroll(self, agent: Agent, request: pb.SignInAssertRequest) -> pb.SignInResponse:
        """A certificate for the agent that a token claims to be of.

        Raises:
            SvcError: the token is refused, or the agent is not in force; that is recorded.
        """
        entrance = self.entrance
        key = entrance.issuer.examine(request.csr)
        bound = Bound(Flow.TOKEN, request.csr, key.sha256)
        try:
            await self._verify(agent, request.id_token)
            issued = await entrance.store.run(
                "enroll an agent", partial(self._enroll, agent=agent, csr=request.csr)
            )
        except SvcError as refusal:
            await entrance.record(bound, refusal)
            raise
        await entrance.refresh()
        return entrance.agent_answer(issued, agent.name)

    async def _verify(self, agent: Agent, token: str) -> None:
        assertion = agent.assertion
        expected = ExpectedToken(
            issuer=assertion.issuer,
            audience=assertion.audience or self.entrance.rules.cluster,
            only_audience=True,
        )
        claims = await self.platforms.of(assertion.issuer).verified(token, expected)
        if not _is_of(agent, claims):
            raise Malformed("the token is read in two ways")
        self.taken.take(token, claims)

    def _enroll(self, tx: ITransaction, agent: Agent, csr: bytes) -> NewCertificate:
        entrance = self.entrance
        agents = AgentCertificates(entrance.issuer, entrance.recorder, self.now)
        known = agents.require(tx, agent.id)
        if known.assertion != agent.assertion:
            raise SignInRefused("the agent changed meanwhile", reason="assertion_agent")
        return agents.enroll(tx, known, csr, issuer=agent.assertion.issuer)


def _is_of(agent: Agent, claims: Mapping[str, Any]) -> bool:
    """Whether each claim that the operator named is there with just that text."""
    wanted = agent.assertion.claims
    return bool(wanted) and all(claims.get(name) == text for name, text in wanted.items())
