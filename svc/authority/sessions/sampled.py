"""Decides a sample of the requests again that Proxies say the policy allowed (rule R25).

Checkpoints show that a Proxy recorded what it passed on.  They do not show that the policy allowed
it: a Proxy could record "allow" for anything.  So the leader takes some of the records as they
enter the log, at random, and asks the policy itself.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping

from attrs import define, evolve, field
from twisted.logger import Logger

from svc.audit.ingest.sampled import SampledAllow
from svc.authority.access.approved import UsedApproval
from svc.authority.policy.recent import RecentEngines
from svc.authority.sessions.checkpoints import GatedSessions
from svc.errors import StoreUnavailable, SvcError
from svc.model.clocks import MAX_APART_SECS
from svc.model.ids import Entropy
from svc.model.policy.requested import APPROVED_REQUEST
from svc.model.policy.requests import caller

_log = Logger(namespace="svc_authority")

WRONG_ALLOW = "wrong_allow"
"""The mismatch of a Proxy that says "allow" where the policy says otherwise."""

ONE_IN = 64
"""Of this many allowed requests one is decided again, which takes some 0.2 ms: less than a
fiftieth of what judging and writing their records takes."""


MOST_CLAIMED = 10_000
"""Uses of approvals by sessions that are counted; past these the one used longest ago is not."""

MOST_WAITING = 4096
"""Requests that wait for a store that does not answer; each is some 2 KiB."""

HELD_SECS = 180.0
"""A request that was decided reaches the Connector sooner: 90 s of silence end the
session, and clocks are up to 30 s apart."""


def at_random(entropy: Entropy, one_in: int = ONE_IN) -> Callable[[], bool]:
    """Picks one in *one_in*, up to 256, each by a byte that nobody can guess."""
    return lambda: entropy(1)[0] * one_in < 256


@define
class SampledAllows:
    """Decides again.

    Attributes:
        approvals: Gives each approval that requests of an action in a session may have stood on,
            as Authority's own records have it, given the session's uid and the action.

    An approval of a number of uses may stand in no more allowed requests than Authority counted
    for the session.  What was recorded before another Authority led is not counted.
    """

    engines: RecentEngines
    gated: GatedSessions
    approvals: Callable[[str, str], Awaitable[list[UsedApproval]]]
    _waiting: deque[SampledAllow] = field(factory=deque, init=False)
    _claims: OrderedDict[tuple[str, str, str], set[str]] = field(factory=OrderedDict, init=False)

    async def decide_again(self, sampled: Iterable[SampledAllow]) -> None:
        """Hold each against the policy; a session with a wrong one ends, and its Proxy with it.

        What cannot be decided because the store does not answer is decided at a later call.

        Raises:
            SvcError: what was found is not on record yet; the next checkpoint writes it.
        """
        failed = None
        for one in map(self._held, map(self._placed, sampled)):
            # By the policy at once: the engines of its time are not kept for long.
            if one.is_picked and self._is_wrong(one):
                failed = await self._dispute(one) or failed
            elif APPROVED_REQUEST in one.request.context:
                self._wait_for_store(one)
        await self.decide_waiting()
        if failed is not None:
            raise failed

    def _wait_for_store(self, one: SampledAllow) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(one)
            return
        _log.error(
            "an allowed request is not decided again: too many wait for the store",
            proxy=one.proxy_id,
            session=one.session_uid,
            decision_id=one.decision_id,
        )

    async def decide_waiting(self) -> None:
        """Look whether the approvals exist that requests stood on; called again and again.

        Raises:
            SvcError: what was found is not on record yet; the next checkpoint writes it.
        """
        waiting, self._waiting = self._waiting, deque()
        known: dict[tuple[str, str], list[UsedApproval]] = {}
        failed, left = None, deque[SampledAllow]()
        try:
            while waiting:
                try:
                    is_approved = await self._is_approved(waiting[0], known)
                except SvcError as e:
                    _log_undecided(waiting[0], e)
                    if isinstance(e, StoreUnavailable):
                        break
                    left.append(waiting.popleft())
                    continue
                one = waiting.popleft()
                if not is_approved:
                    failed = await self._dispute(one) or failed
        finally:
            self._waiting = deque([*waiting, *left, *self._waiting])
        if failed is not None:
            raise failed

    async def _dispute(self, one: SampledAllow) -> SvcError | None:
        """End the session of a wrong one; why that is not on record yet, where it is not."""
        _log.error(
            "a Proxy says that the policy allowed what it does not allow",
            proxy=one.proxy_id,
            session=one.session_uid,
            decision_id=one.decision_id,
        )
        try:
            await self.gated.disputed(one.session_uid, one.proxy_id, WRONG_ALLOW)
        except SvcError as failed:
            return failed  # the others are looked at all the same
        return None

    def _placed(self, one: SampledAllow) -> SampledAllow:
        """The request, decided no earlier than it can have been.

        The time is the Proxy's word, and an earlier one would choose the engine.  Records come
        in order, so what no settled checkpoint covers was passed on after the last one was made.
        """
        settled_at = self.gated.settled_at(one.session_uid)
        return one if settled_at is None else evolve(one, at=max(one.at, settled_at - HELD_SECS))

    def _held(self, one: SampledAllow) -> SampledAllow:
        """The request, as that of whose session it is by the grant.

        It was made out by the record of the session's opening, which was not held to the grant.
        """
        asked, holder = one.request, self.gated.holder(one.session_uid)
        if holder is None or holder == (asked.principal.id, asked.resource.id):
            return one
        _log.error("the record of a session is not what was granted", session=one.session_uid)
        person_id, resource = holder
        request = evolve(
            asked,
            principal=caller(person_id),
            resource=evolve(asked.resource, id=resource),
        )
        return evolve(one, request=request)

    async def _is_approved(
        self, one: SampledAllow, known: dict[tuple[str, str], list[UsedApproval]]
    ) -> bool:
        """Whether the approval that the Proxy says it stood on, if it says so, is none of its own.

        The policy believes the fact, so nobody but Authority may have made it.
        """
        fact = one.request.context.get(APPROVED_REQUEST)
        if fact is None:
            return True
        ends_at = fact.get("expires") if isinstance(fact, Mapping) else None
        if not isinstance(ends_at, int) or one.at > ends_at + MAX_APART_SECS:
            return False
        place = (one.session_uid, one.request.action)
        if place not in known:
            known[place] = await self.approvals(*place)
        used = next((each for each in known[place] if each.fact == fact), None)
        return used is not None and self._is_within(one, used)

    def _is_within(self, one: SampledAllow, used: UsedApproval) -> bool:
        """Whether no more requests stood on it than uses were counted, before they passed."""
        if used.most is None:
            return True
        place = (one.session_uid, one.request.action, used.id)
        claims = self._claims.setdefault(place, set())
        self._claims.move_to_end(place)
        if len(claims) <= used.most:
            claims.add(one.decision_id)
        while len(self._claims) > MOST_CLAIMED:
            self._claims.popitem(last=False)
        return len(claims) <= used.most

    def _is_wrong(self, one: SampledAllow) -> bool:
        """Whether no engine that the Proxy can have had allows it.

        An engine over the very entities that the Proxy names has the last word.  Where entities
        changed meanwhile and none names them, all engines of that time have to agree, and so where
        none of them is of the version that it names; a request from before the oldest one known is
        not judged.
        """
        found = [
            engine.decide(one.request)
            for engine in self.engines.at(one.at)
            if engine.version == one.policy_version
        ]
        if any(decision.allowed for decision in found):
            return False
        if any(decision.entities_digest == one.entities_digest for decision in found):
            return True
        return self.engines.are_all_known(one.at)


def _log_undecided(one: SampledAllow, failed: SvcError) -> None:
    _log.warn(
        "an allowed request is not decided again yet",
        session=one.session_uid,
        decision_id=one.decision_id,
        reason=failed.reason,
    )
