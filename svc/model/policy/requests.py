"""The questions that the Proxy's gate and the Authority both ask the policy.

One place makes them, so that the two decide the same request (D11).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from attrs import evolve

from svc.model.ids import is_agent_id
from svc.model.policy.access import AccessRequest, ContextValue, EntityUid
from svc.model.policy.requested import APPROVED_REQUEST, ApprovedAccess

NAMED_PERSON = "named_person"
"""The fact of a request that its person asks to be made as another one.  A gate says that one's
name; policies and records have the id."""

REQUESTED_ACTION = "requested_action"
"""The fact of ``approveAccess``: what the request is for."""

_LONGEST_ADDRESS = 45
_MOST_ADDRESSES = 4096
_MOST_CALLERS = 4096
"""Looked up again for each request: those of the people who are connected."""


def user(person_id: str) -> EntityUid:
    """A person as the policy names it."""
    return EntityUid("User", person_id)


@lru_cache(_MOST_CALLERS)
def caller(id: str) -> EntityUid:
    """A person or an agent as the policy names it."""
    return EntityUid("Agent", id) if is_agent_id(id) else user(id)


FACTOR_AGE = "mfa_age_seconds"
"""How long ago the person presented a second factor, at their sign-in."""


def context_at(
    now: float,
    source_address: str = "",
    asked: Mapping[str, str] | None = None,
    factor_at: float | None = None,
) -> dict[str, ContextValue]:
    """The facts of a request made at *now* (Unix seconds).

    Args:
        source_address: As a Proxy reports it; left out where it is no address.
        asked: Parameters of the session that policies may read.
        factor_at: When the person presented a second factor; None where nobody knows.
    """
    moment = datetime.fromtimestamp(now, UTC)
    facts: dict[str, ContextValue] = {
        "now": int(now),
        "hour": moment.hour,
        "weekday": moment.isoweekday(),
    }
    facts |= asked or {}
    if is_address(source_address):
        facts["proxy_reported"] = {"source_address": source_address}
    if factor_at is not None:
        facts[FACTOR_AGE] = max(0, int(now - factor_at))
    return facts


def with_new_factor(asked: AccessRequest) -> AccessRequest:
    """The same request, as if the person had just presented a second factor."""
    return evolve(asked, context={**asked.context, FACTOR_AGE: 0})


def is_address(text: str) -> bool:
    """Whether *text* is an IPv4 or IPv6 address without a zone."""
    return len(text) <= _LONGEST_ADDRESS and _reads_as_address(text)


@lru_cache(_MOST_ADDRESSES)
def _reads_as_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def may_open(
    request_kind: str,
    action: str,
    person_id: str,
    target: EntityUid,
    context: Mapping[str, ContextValue],
) -> AccessRequest:
    """May this person or agent open a session to *target*?"""
    kind: Any = request_kind  # AccessRequest checks it
    return AccessRequest(
        request_kind=kind,
        principal=caller(person_id),
        action=action,
        resource=target,
        context=context,
    )


def may_open_at(
    now: float,
    *,
    request_kind: str,
    action: str,
    person_id: str,
    target: EntityUid,
    source_address: str,
    asked: Mapping[str, str],
    factor_at: float | None,
    approved: ApprovedAccess | None = None,
) -> AccessRequest:
    """May this person or agent open a session to *target* now, or keep it?

    Args:
        asked: Parameters of the session that policies may read.
        approved: What the session stands on, where an approved request is all that allows it.

    The others are those of :func:`may_open` and :func:`context_at`.
    """
    context = context_at(now, source_address, asked, factor_at)
    if approved is not None:
        context[APPROVED_REQUEST] = approved.fact
    return may_open(request_kind, action, person_id, target, context)


def may_approve(
    person_id: str, target: EntityUid, action: str, now: float, factor_at: float | None = None
) -> AccessRequest:
    """May this person decide about others' requests for this action on *target*?

    Args:
        factor_at: When the person presented a second factor; None where nobody knows.
    """
    return AccessRequest(
        request_kind="admin",
        principal=user(person_id),
        action="approveAccess",
        resource=target,
        context={**context_at(now, factor_at=factor_at), REQUESTED_ACTION: action},
    )


def may_act_as(person_id: str, named_id: str, context: Mapping[str, ContextValue]) -> AccessRequest:
    """May this person make requests in the name of another one?"""
    return AccessRequest(
        request_kind="connect",
        principal=caller(person_id),
        action="actAs",
        resource=user(named_id),
        context=context,
    )


def may_administer(
    principal: EntityUid,
    action: str,
    cluster: str,
    now: float,
    source_address: str = "",
    factor_at: float | None = None,
) -> AccessRequest:
    """May this person, or this user of the control socket, administer the gateway?

    Args:
        factor_at: When the person presented a second factor; None where nobody knows.
    """
    context = context_at(now, source_address, factor_at=factor_at)
    return AccessRequest(
        request_kind="admin",
        principal=principal,
        action=action,
        resource=EntityUid("Cluster", cluster),
        context=context,
    )


def may_view(
    person_id: str, target: EntityUid, now: float, source_address: str = ""
) -> AccessRequest:
    """May this person know that *target* exists?"""
    return AccessRequest(
        request_kind="view",
        principal=caller(person_id),
        action="view",
        resource=target,
        context=context_at(now, source_address),
    )
