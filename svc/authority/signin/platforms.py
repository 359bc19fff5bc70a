"""Agents that enroll by an ID token of the platform they run on.

An operator named the platform's issuer, the audience and the exact claims when the agent was
added; those alone decide which agent a token is of.  What is read before the token is verified
only chooses whose keys it is verified by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError

from svc.authority.enroll.agents import AgentCertificates
from svc.authority.signin.assertion import AssertionUse, TakenAssertions
from svc.authority.signin.attempts import Flow
from svc.authority.signin.entrance import Bound, Entrance
from svc.authority.signin.http import ProviderHttp
from svc.authority.signin.id_token import (
    ExpectedToken,
    check_claims,
    check_times,
    read_token,
)
from svc.authority.signin.once import IssuedOnce
from svc.authority.signin.provider import Provider
from svc.authority.signin.refusals import SignInRefused
from svc.authority.signin.strict_json import read_object
from svc.errors import SvcError
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

    async def enrolled(self, request: pb.SignInAssertRequest) -> pb.SignInResponse | None:
        """A certificate for the agent that a token is of.

        Until the token is verified only its issuer is looked at, so that nobody learns by a token
        of their own making which claims an agent was added with (rule R16).

        Returns:
            None: the token is of no agent's issuer, or of a person of one.

        Raises:
            SvcError: the token is refused, or the agent is not in force; that is recorded.
        """
        entrance, issuer = self.entrance, self._issuer_of(request.id_token)
        if issuer is None:
            return None
        key = entrance.issuer.examine(request.csr)
        use = self.taken.use(request.id_token, key.sha256)
        try:
            verified = await self._verified(issuer, request.id_token, use)
            if verified is None:
                return None
            found, once = verified
            issued = await entrance.store.run(
                "enroll an agent", partial(self._enroll, agent=found, csr=request.csr, once=once)
            )
        except CancelledError as broken_off:
            use.failed(broken_off)
            raise
        except SvcError as refusal:
            use.failed(refusal)
            await entrance.record(Bound(Flow.TOKEN, request.csr, key.sha256), refusal)
            raise
        await entrance.refresh()
        return entrance.agent_answer(issued, found.name)

    def _issuer_of(self, token: str) -> str | None:
        """The issuer that a token names, if it is one of agents'."""
        try:
            named = read_object(read_token(token).payload).get("iss")
        except (ValueError, SignInRefused):
            return None  # refused, and recorded, by whoever reads it in earnest
        return named if isinstance(named, str) and self._of_issuer(named) else None

    def _of_issuer(self, issuer: str) -> list[Agent]:
        agents = self.entrance.state_cache.state.agents.values()
        return [one for one in agents if issuer and one.assertion.issuer == issuer]

    async def _verified(
        self, issuer: str, token: str, use: AssertionUse
    ) -> tuple[Agent, IssuedOnce] | None:
        """The agent that a token is of, which is taken; None: it may be a person's."""
        claims = await self.platforms.of(issuer).signed_claims(token)
        check_times(claims, self.now())
        agent = self._agent_of(issuer, claims)
        if agent is None:
            return None
        expected = ExpectedToken(
            issuer=issuer,
            audience=agent.assertion.audience or self.entrance.rules.cluster,
            only_audience=True,
        )
        check_claims(claims, expected, self.now())
        return agent, use.take(claims, agent.id)

    def _agent_of(self, issuer: str, claims: Mapping[str, Any]) -> Agent | None:
        """The agent of verified claims; None: of no agent, and people have this issuer too."""
        found = [one for one in self._of_issuer(issuer) if _is_of(one, claims)]
        # A revoked one is refused as that: its token must not make it a person.
        found = [one for one in found if one.state is AgentState.ACTIVE] or found[:1]
        provider = self.entrance.provider
        if not found and provider is not None and provider.issuer == issuer:
            return None
        if len(found) != 1:
            raise SignInRefused(
                "the token has the claims of no agent, or of several; see `svc authority agents "
                "list` and the claims that they were added with",
                reason="assertion_agent",
            )
        return found[0]

    def _enroll(
        self, tx: ITransaction, agent: Agent, csr: bytes, once: IssuedOnce
    ) -> NewCertificate:
        entrance = self.entrance
        agents = AgentCertificates(entrance.issuer, entrance.recorder, self.now)
        known = agents.require(tx, agent.id)
        if known.assertion != agent.assertion:
            raise SignInRefused("the agent changed meanwhile", reason="assertion_agent")
        enroll = partial(agents.enroll, agent=known, csr=csr, issuer=agent.assertion.issuer)
        issued: NewCertificate = once.issue(tx, enroll)
        return issued


def _is_of(agent: Agent, claims: Mapping[str, Any]) -> bool:
    """Whether each claim that the operator named is there with just that text."""
    wanted = agent.assertion.claims
    return bool(wanted) and all(claims.get(name) == text for name, text in wanted.items())
