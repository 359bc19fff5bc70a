"""A person's own certificate: whether it is valid now, and warnings before it expires.

A certificate that came by a token is not renewed; who wants to go on joins again
with a new one, or signs in.  So the resident says in its log, twice, that the end is near, and
every command says of a certificate that has ended what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svc.errors import SvcError
from svc.interfaces.identity import IIdentity
from svc.model.audit.record import rfc3339
from svc.model.certificate import EXPIRED, NOT_YET_VALID, CertificateFacts, CertificateRefused
from svc.model.clocks import ClockWrong, since, utc
from svc.model.principal import Role
from svc.runtime.dial_failure import VERIFY_FAILED

_log = Logger(namespace="svc_client")

FIRST_SECS, FIRST_SHARE = 3600.0, 1 / 2
LAST_SECS, LAST_SHARE = 600.0, 1 / 12
"""When the warnings come, in seconds before the end, and the most of a certificate's life that
this may be: for a life of less than two hours the warnings come at the half and at a twelfth."""

HOW_TO_GO_ON = (
    "run `svc join` with a new token from your operator, or sign in again with `svc login`"
)
_ENDS_SOON = f"your certificate expires soon; {HOW_TO_GO_ON}"
_HAS_ENDED = f"your certificate has expired; {HOW_TO_GO_ON}"
_LOOK_AGAIN = 60.0
"""The longest sleep in seconds: a clock that was set is noticed within it."""


def check_own(identity: IIdentity) -> None:
    """Refuse to continue with a certificate that no server would accept.

    Raises:
        CertificateRefused: it has ended; the text says when, and how to go on.
        ClockWrong: this machine's clock says a time before it began.
    """
    problem = identity.problem
    if problem is None:
        return
    if problem.reason == EXPIRED:
        ended = identity.facts.not_after
        raise CertificateRefused(
            f"your certificate expired at {utc(ended)}, {since(-identity.seconds_left())} ago "
            f"by this machine's clock; {HOW_TO_GO_ON}",
            reason=EXPIRED,
        )
    if problem.reason == NOT_YET_VALID:
        raise ClockWrong(f"your certificate is not valid yet: {problem.text}")
    raise problem


def dial_refusal(failed: SvcError, refused: Sequence[SvcError], directory: Path) -> SvcError:
    """Why a Proxy could not be dialed, for the person whose identity is in *directory*.

    Args:
        refused: What our own checks of its certificate refused.
    """
    if refused:
        return refused[-1]
    if VERIFY_FAILED not in failed.text:
        return failed
    return CertificateRefused(
        f"this Proxy is not of the cluster that the identity in {directory} has joined; use the "
        f"identity of its cluster (--dir), or join or sign in there with `svc join` or `svc login`"
    )


def first_warning(facts: CertificateFacts) -> float:
    """Seconds before the end at which a person is first warned."""
    return min(FIRST_SECS, facts.lifetime * FIRST_SHARE)


def last_warning(facts: CertificateFacts) -> float:
    """Seconds before the end at which a person is warned once more."""
    return min(LAST_SECS, facts.lifetime * LAST_SHARE)


def ends_soon(identity: IIdentity) -> bool:
    """Whether the first warning is due and the end has not come."""
    return 0 < identity.seconds_left() <= first_warning(identity.facts)


def identity_status(
    identity: IIdentity, renew_until: float = 0.0, name: str = ""
) -> dict[str, Any]:
    """Who the person or agent is here, until when, and what is wrong with the certificate now.

    Args:
        renew_until: Until when `svc up` renews the certificate; 0: it does not.  An agent's is
            renewed for as long as the agent is in force, whatever this says.
        name: Of the person or agent; empty where it is not known.
    """
    facts = identity.facts
    is_agent = facts.principal.role is Role.AGENT
    reason = problem = ""
    try:
        check_own(identity)
    except (CertificateRefused, ClockWrong) as refusal:
        reason, problem = refusal.reason, refusal.text
    return {
        "cluster": facts.principal.cluster,
        "person": "" if is_agent else facts.principal.id,
        "agent": facts.principal.id if is_agent else "",
        "name": name,
        "certificate": {
            "expires_at": rfc3339(facts.not_after),
            "seconds_left": int(identity.seconds_left()),
            "ends_soon": ends_soon(identity),
            "is_renewed": bool(renew_until),
            "renew_until": rfc3339(renew_until) if renew_until and not is_agent else "",
            "reason": reason,
            "problem": problem,
        },
    }


@define(slots=False, eq=False)
class EndWarnings(Service):
    """Says in the log when the certificate's end is near, and when it has come; each once.

    Args:
        identity: The person's; a new one that is taken is watched from then on.
    """

    identity: IIdentity
    clock: IReactorTime
    _reported: float | None = field(default=None, init=False)
    """The moment before the end that was spoken of last; None: none of this certificate."""
    _timer: IDelayedCall | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.identity.on_renewed(self._renewed)

    def startService(self) -> None:
        """Start watching; give a warning that is already due at once."""
        Service.startService(self)
        self._look()

    def stopService(self) -> None:
        """Watch no more."""
        Service.stopService(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _renewed(self, _: CertificateFacts) -> None:
        self._reported = None
        if self._timer is not None:
            self._timer.reset(0)

    def _look(self) -> None:
        facts = self.identity.facts
        left = self.identity.seconds_left()
        moments = (first_warning(facts), last_warning(facts), 0.0)
        due = [moment for moment in moments if left <= moment]
        if due and (self._reported is None or due[-1] < self._reported):
            self._reported = due[-1]
            self._report(left)
        ahead = [left - moment for moment in moments if left > moment]
        self._timer = self.clock.callLater(min([_LOOK_AGAIN, *ahead]), self._look)

    def _report(self, left: float) -> None:
        _log.warn(
            _ENDS_SOON if left > 0 else _HAS_ENDED,
            not_after=utc(self.identity.facts.not_after),
            seconds_left=int(left),
            reason="certificate_ends_soon" if left > 0 else EXPIRED,
        )


def identity_watch(
    take: Callable[[], bool],
    chain_on_disk: Callable[[], Sequence[bytes]],
    identity: IIdentity,
    name: str = "",
) -> Callable[[], Coroutine[Any, Any, None]]:
    """What ``svc up`` calls now and then: it takes a new identity, and warns of somebody else's.

    Args:
        take: Uses what lies on disk if it is the same person's; whether it was new.
        chain_on_disk: Of the identity there; empty where there is none.
        identity: The one in use.
        name: Whose it is; empty where only the id is known.
    """
    told: list[tuple[bytes, ...]] = []

    async def look() -> None:
        if take():
            return
        chain = tuple(chain_on_disk())
        if chain and chain != tuple(identity.chain) and chain not in told:
            told[:] = [chain]
            _log.warn(
                "somebody else has joined or signed in here; svc up goes on as before: restart it, "
                "or give each person a directory of their own with --dir",
                person=name or identity.facts.principal.id,
            )

    return look
