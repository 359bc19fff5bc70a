"""Requests for access: the service, the calls that reach it, and what sessions use of it."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.access.approved import ApprovedRequests
from svc.authority.access.approvers import Approvers
from svc.authority.access.calls import AccessCalls
from svc.authority.access.offer import AccessOffers
from svc.authority.access.records import AccessRecords
from svc.authority.access.requests import AccessRequestService
from svc.authority.access.texts import SealedTexts
from svc.authority.access.uses import RequestApprovals
from svc.authority.limits import AskRates
from svc.authority.policy.active import PolicyInForce
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.parts import Parts, engine_of
from svc.pki.credentials import load_credential_seal


@define
class AccessWiring:
    """What an Authority has for requests for access."""

    requests: AccessRequestService
    calls: AccessCalls
    offers: AccessOffers
    uses: RequestApprovals


def approved_requests(
    p: Parts, state_cache: ClusterStateCache, policy: PolicyInForce
) -> ApprovedRequests:
    """Wire what sessions use."""
    approvers = Approvers(engine_of(policy), p.kinds.by_name)
    return ApprovedRequests(
        cluster=p.settings.cluster,
        state_cache=state_cache,
        store=p.store,
        now=p.runtime.now,
        may_approve=approvers.may_still,
    )


def _texts(p: Parts) -> SealedTexts:
    seal = load_credential_seal(p.state / "keys", p.runtime.entropy)
    return SealedTexts(p.settings.cluster, seal)


def _counted(p: Parts) -> Callable[[str], None]:
    def counted(word: str) -> None:
        p.metrics.counter("svc_access_requests_total", event=word).inc()

    return counted


def _uses(
    p: Parts, state_cache: ClusterStateCache, rates: AskRates, approvals: ApprovedRequests
) -> RequestApprovals:
    return RequestApprovals(
        cluster=p.settings.cluster,
        verifier=p.identity.verifier,
        approvals=approvals,
        state_cache=state_cache,
        store=p.store,
        recorder=p.recorder,
        on_event=_counted(p),
        rates=rates,
    )


def access_wiring(
    p: Parts,
    state_cache: ClusterStateCache,
    policy: PolicyInForce,
    rates: AskRates,
    approvals: ApprovedRequests,
) -> AccessWiring:
    """Wire it."""
    cluster, most, now = p.settings.cluster, int(p.settings.access.max_secs), p.runtime.now
    counted = _counted(p)
    requests = AccessRequestService(
        cluster=cluster,
        state_cache=state_cache,
        engine=engine_of(policy),
        kinds=p.kinds.by_name,
        store=p.store,
        records=AccessRecords(p.recorder),
        verifier=p.identity.verifier,
        now=now,
        entropy=p.runtime.entropy,
        max_secs=most,
        on_event=counted,
        texts=_texts(p),
    )
    calls = AccessCalls(
        cluster=cluster,
        requests=requests,
        state_cache=state_cache,
        verifier=p.identity.verifier,
        rates=rates,
        clock=p.runtime.reactor,
        now=now,
    )
    offers = AccessOffers(approvals=approvals, now=now, max_secs=most, on_event=counted)
    uses = _uses(p, state_cache, rates, approvals)
    return AccessWiring(requests=requests, calls=calls, offers=offers, uses=uses)
