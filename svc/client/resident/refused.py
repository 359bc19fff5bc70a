"""Sessions that were refused, kept for the person to see."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from svc.client.own_options import OWN_COMMANDS, with_options
from svc.errors import SvcError
from svc.messages.snapshot import REVOCATIONS
from svc.model.audit.record import rfc3339
from svc.model.ids import is_random_id
from svc.model.policy.requested import known_command, why_command
from svc.ratelimit.repeats import RepeatCounter

_log = Logger(namespace="svc_client")

KEPT = 64

GATEWAY_WIDE = frozenset(
    {
        "audit_head_unsigned",
        "audit_spool_full",
        "audit_spool_unavailable",
        "audit_unavailable",
        "authority_unconfigured",
        "authority_unreachable",
        "disabled_owner",
        "disabled_person",
        "no_policy",
        "no_snapshot",
        "policy_stale",
        "policy_unavailable",
        "revoked",
        "revoked_agent",
        "revoked_person",
        "store_full",
        "store_unavailable",
    }
)
"""Reasons that concern no single resource: until a session opens, none is expected to."""

TOLD_BY_A_LIST = frozenset(
    {
        *REVOCATIONS,
        "audit_spool_full",
        "audit_spool_unavailable",
        "authority_unreachable",
        "no_snapshot",
        "policy_stale",
        "revoked_person",
    }
)
"""Reasons of which a Proxy tells by itself: it lists nothing to who is shut out, and says with a
list what it lacks."""


@frozen
class RecentRefusal:
    """One refusal, or the same one several times.

    Attributes:
        at: Unix seconds; of the last time.
        decision_id: Of the last time; empty where nothing was decided.
        first_at: Of the first time.
        count: How often.
        request_hint: What to type to ask for access, without options; empty where no approval
            would turn it.
    """

    at: float
    resource: str
    reason: str
    text: str
    decision_id: str = ""
    policies: tuple[str, ...] = ()
    first_at: float = 0.0
    count: int = 1
    request_hint: str = ""

    @property
    def key(self) -> Hashable:
        """What makes two of them the same; a text may name times, and is the latest one's."""
        return self.resource, self.reason, self.policies


@define
class RecentRefusals:
    """The newest refusals, each of them once; a log line is where a person sees one first.

    What a client tries again and again is counted, and is a log line once a minute.

    Attributes:
        options: What the commands in a log line end with, to use this identity.
        standing: The latest refusal for a reason that concerns every resource; None once a
            session has opened since, or a list has come that would have told of the reason.
    """

    now: Callable[[], float]
    options: str = ""
    kept: deque[RecentRefusal] = field(factory=lambda: deque(maxlen=KEPT), init=False)
    standing: RecentRefusal | None = field(default=None, init=False)
    _repeats: RepeatCounter = field(init=False)

    @_repeats.default
    def _counting(self) -> RepeatCounter:
        return RepeatCounter(self.now)

    def note(self, resource: str, error: SvcError) -> RecentRefusal:
        """Remember and log one; returns it."""
        now = self.now()
        refused = RecentRefusal(
            at=now,
            resource=resource,
            reason=error.reason,
            text=error.text,
            decision_id=error.details.get("decision_id", ""),
            policies=policies_of(error),
            first_at=now,
            request_hint=known_command(error.details.get("request", "")),
        )
        for one in self.kept:
            if one.key == refused.key:
                self.kept.remove(one)
                refused = evolve(refused, first_at=one.first_at, count=one.count + 1)
                break
        self.kept.append(refused)
        if refused.reason in GATEWAY_WIDE:
            self.standing = refused
        series = self._repeats.note(refused.key)
        if series is not None:
            _log.warn(
                "session refused",
                resource=resource,
                reason=refused.reason,
                decision_id=refused.decision_id,
                policies=",".join(refused.policies),
                text=with_options(refused.text, self.options),
                **self._commands(refused),
                **(
                    {}
                    if series.count == 1
                    else {"times": series.unreported, "since": rfc3339(series.first)}
                ),
            )
        return refused

    def _commands(self, refused: RecentRefusal) -> dict[str, str]:
        """What to type next, as fields of a log line."""
        commands = {}
        if is_random_id(refused.decision_id):  # a Proxy said it
            commands["to_see_why"] = why_command(refused.decision_id, self.options)
        if refused.request_hint:
            commands["to_ask"] = f"{refused.request_hint}{self.options}"
        return commands

    def opened(self) -> None:
        """A session has opened."""
        self.standing = None

    def listed(self) -> None:
        """A Proxy has listed what the person may view."""
        if self.standing is not None and self.standing.reason in TOLD_BY_A_LIST:
            self.standing = None


def policies_of(error: SvcError) -> tuple[str, ...]:
    """The policies a refusal names, by ``@id``; none where they may not be known."""
    return tuple(name for name in error.details.get("policies", "").split(",") if name)


_UNKNOWN, _LISTING = "unknown", "svc resources list"
_NOT_NAMED, _ACCOUNT = "missing_parameter", "login_user"


def wrong_kind(resource: str, kind: str, found: str, refusal: SvcError) -> SvcError:
    """The refusal of a session of *kind*, for a resource that is of the kind *found*."""
    if found in ("", kind):
        return refusal
    own = OWN_COMMANDS.get(found)
    instead = f"use `{own.format(resource)}`, or run this" if own else "run this"
    return SvcError(
        f"{resource}: is a {found} resource; {instead} with --kind {found}",
        reason=refusal.reason,
        fault=refusal.fault,
        details=refusal.details,
    )


def refused_text(resource: str, error: SvcError, options: str = "") -> str:
    """A refusal as one line for a person; not yet escaped.

    *options* name the identity that was refused, in the commands that it tells to type.
    """
    text = with_options(error.text.removeprefix(f"{resource}: "), options)
    parts = [f"{resource}: {text}", f"reason {error.reason}"]
    policies = policies_of(error)
    if policies:
        parts.append(f"policies {', '.join(policies)}")
    if error.reason == _NOT_NAMED and _ACCOUNT in error.text:
        parts.append(
            f"name the account: ssh ACCOUNT@{resource}, with the fragment that svc up writes, or "
            f"svc proxy-ssh{options} --user ACCOUNT {resource}"
        )
    if error.reason == _UNKNOWN and _LISTING not in error.text:
        parts.append(f"see what you may use: {_LISTING}{options}")
    command = known_command(error.details.get("request", ""))
    if command:
        parts.append(f"to ask for access: {command}{options}")
    decision_id = error.details.get("decision_id", "")
    if is_random_id(decision_id):  # a Proxy said it
        parts.append(f"to see why: {why_command(decision_id, options)}")
    return "; ".join(parts)
