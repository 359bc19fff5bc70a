"""Who may open the admin lane, by this Proxy's own snapshot (rule R18).

Asked before Authority is dialed, so that whoever may administer nothing never
reaches it.  What each command does is decided there, by Authority: here it is
enough that the policy lets the person do any one of the administrative actions.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve

from svc.errors import Denied, Fault, SvcError, Unauthenticated
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import Peer
from svc.model.policy.requests import may_administer, user
from svc.model.principal import Principal, Role
from svc.policy.engine import CompiledPolicy
from svc.proxy.sessions.limits import PersonRates

ADMINISTER = "administer"
"""The group of all administrative actions."""

_JUST_NOW = {"mfa_age_seconds": 0}
"""No Proxy knows when a person presented the second factor: a policy that requires it is asked
as if that had been just now.  Authority decides by what it knows."""


@define
class AdminAdmission:
    """Admits people to the admin lane.

    Attributes:
        engine: Gives the engine in force, or raises while there is none fresh.
        check_person: Raises Denied for a person or certificate that Authority revoked.
        rates: Of people's calls: a lane costs what an open costs, and a refusal is a denial.
    """

    cluster: str
    engine: Callable[[], CompiledPolicy]
    verifier: IChainVerifier
    check_person: Callable[[Principal, bytes, str], object]
    rates: PersonRates
    now: Callable[[], float]

    def admit(self, peer: Peer) -> Principal:
        """The person who calls, if the policy lets them administer anything.

        Raises:
            SvcError: without TLS, without a person's certificate, revoked, or not allowed.
        """
        if not peer.tls:
            # Whoever ends TLS in front of us could claim anybody's certificate in a header.
            raise SvcError(
                "this listener has no TLS, so nobody can administer the gateway through it; use "
                "a Proxy with TLS, or the control socket on the Authority's host",
                reason="plaintext_listener",
                fault=Fault.PRECONDITION,
            )
        if not peer.chain:
            raise Unauthenticated(
                "the admin lane requires a person's certificate; sign in with `svc login`"
            )
        facts = self.verifier.verify(peer.chain, {Role.USER})
        person = facts.principal
        self.rates.spend(person, "Admin")
        try:
            self.check_person(person, facts.sha256, "")
            self._check_allowed(person.id, peer.host)
        except Denied:
            self.rates.kept_out(person)
            raise
        return person

    def _check_allowed(self, person_id: str, source: str) -> None:
        engine = self.engine()
        for action in sorted(engine.vocabulary.members[ADMINISTER]):
            asked = may_administer(user(person_id), action, self.cluster, self.now(), source)
            factor = evolve(asked, context={**asked.context, **_JUST_NOW})
            if engine.decide(asked).allowed or engine.decide(factor).allowed:
                return
        raise Denied(
            "the policy lets you administer nothing on this cluster; an administrator can "
            "change that",
            reason="denied",
        )
