"""Requests for access: the service, the calls that reach it, and what sessions use of it."""

from __future__ import annotations

from attrs import define

from svc.authority.access.approved import ApprovedRequests
from svc.authority.access.calls import AccessCalls
from svc.authority.access.offer import AccessOffers
from svc.authority.access.records import AccessRecords
from svc.authority.access.requests import AccessRequestService
from svc.authority.access.uses import RequestApprovals
from svc.authority.limits import AskRates
from svc.authority.policy.active import PolicyInForce
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.parts import Parts, engine_of


@define
class AccessWiring:
    """What an Authority has for requests for access."""

    requests: AccessRequestService
    calls: AccessCalls
    offers: AccessOffers
    uses: RequestApprovals


def approved_requests(p: Parts, state_cache: ClusterStateCache) -> ApprovedRequests:
    """Wire what sessions use."""
    return ApprovedRequests(
        cluster=p.settings.cluster, state_cache=state_cache, store=p.store, now=p.runtime.now
    )


def access_wiring(
    p: Parts,
    state_cache: ClusterStateCache,
    policy: PolicyInForce,
    rates: AskRates,
    approvals: ApprovedRequests,
) -> AccessWiring:
    """Wire it."""
    most, now = int(p.settings.access.max_secs), p.runtime.now

    def told(word: str) -> None:
        p.metrics.counter("svc_access_requests_total", event=word).inc()

    requests = AccessRequestService(
        cluster=p.settings.cluster,
        state_cache=state_cache,
        engine=engine_of(policy),
        kinds=p.kinds.by_name,
        store=p.store,
        records=AccessRecords(p.recorder),
        verifier=p.identity.verifier,
        now=now,
        entropy=p.runtime.entropy,
        max_secs=most,
        told=told,
    )
    calls = AccessCalls(
        cluster=p.settings.cluster,
        requests=requests,
        state_cache=state_cache,
        verifier=p.identity.verifier,
        rates=rates,
        clock=p.runtime.reactor,
        now=now,
    )
    offers = AccessOffers(approvals=approvals, now=now, max_secs=most, told=told)
    uses = RequestApprovals(
        approvals=approvals,
        state_cache=state_cache,
        store=p.store,
        recorder=p.recorder,
        told=told,
        rates=rates,
    )
    return AccessWiring(requests=requests, calls=calls, offers=offers, uses=uses)
