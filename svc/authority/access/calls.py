"""``Control/Access``: verifies who signed a call about requests for access, and makes it."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from math import ceil
from typing import assert_never

from attrs import define, field
from twisted.internet.interfaces import IReactorTime

from svc.authority.access.records import Asker
from svc.authority.access.refusals import call_used
from svc.authority.access.requests import AccessRequestService
from svc.authority.limits import AskRates
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import person
from svc.errors import Denied, SvcError, TooMany
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.store import ITransaction
from svc.messages.access import (
    AccessCall,
    AccessDecide,
    AccessEntry,
    AccessList,
    AccessShow,
    AccessWithdraw,
    SignedAccessCall,
    decode_access_call,
)
from svc.model.certificate import CertificateFacts
from svc.model.cluster.node import Node
from svc.model.ids import RANDOM_ID_BYTES
from svc.model.policy.requested import AccessAsk
from svc.model.principal import Role
from svc.model.session.grant import OPEN_WITHIN_MS
from svc.model.session.request import is_fresh, stale
from svc.model.signing import Purpose, Signed, verify
from svc.ratelimit.limits import Buckets, Rate

_CHANGES = Rate(per_minute=10, burst=20)
"""Requests that one person files and withdraws: each is a row, and records that are kept."""

_REQUEST_ID = b"svc-access-request-id-v1\0"


@define(kw_only=True)
class AccessCalls:
    """Answers what persons ask through Proxies; a Proxy is a courier here too (rule R1)."""

    cluster: str
    requests: AccessRequestService
    state_cache: ClusterStateCache
    verifier: IChainVerifier
    rates: AskRates
    clock: IReactorTime
    now: Callable[[], float]
    _seen: dict[bytes, float] = field(factory=dict, init=False)
    _changes: Buckets = field(factory=lambda: Buckets(_CHANGES), init=False)

    async def answer(self, signed: SignedAccessCall, proxy: Node) -> list[AccessEntry]:
        """What came of a call.

        Raises:
            SvcError: it is not a person's own, fresh and new, or was refused.
        """
        try:
            certificate = self.verifier.verify(signed.chain, {Role.USER})
        except SvcError:
            self.rates.disproved(proxy.id, None)
            raise
        person_id = certificate.principal.id
        self.rates.claims(proxy.id, person_id)
        try:
            call = self._proven(signed, proxy, certificate)
        except TooMany:
            raise
        except SvcError:
            self.rates.disproved(proxy.id, person_id)
            raise
        asker = Asker(
            person=self.state_cache.person(certificate.principal),
            proxy_id=proxy.id,
            source_address=signed.source_address,
            factor_at=certificate.factor_at,
        )
        if isinstance(call.call, AccessAsk | AccessWithdraw):
            self._spend(person_id)
        with self.rates.writing(person_id):
            await self._check_certificate(certificate.sha256)
            return await self._made(asker, call, signed)

    def _proven(
        self, signed: SignedAccessCall, proxy: Node, certificate: CertificateFacts
    ) -> AccessCall:
        verify(certificate.public_key, Purpose.ACCESS_CALL, signed.call, signed.signature)
        call = decode_access_call(signed.call)
        right = (self.cluster, proxy.id, certificate.sha256)
        if (call.cluster, call.proxy_id, call.certificate_sha256) != right:
            raise Denied("the request was made for another Proxy", reason="request_wrong_proxy")
        if not is_fresh(call.issued_at_ms, self.now()):
            raise Denied(stale(call.issued_at_ms, self.now()), reason="request_stale")
        self._take_once(sha256(signed.call).digest())
        self.rates.proven(certificate.principal.id)
        return call

    def _take_once(self, digest: bytes) -> None:
        """A call is good for one use; remembered as long as it could be fresh.

        Another Authority, or this one after a restart, does not remember it; what changes something
        is refused there by its row.
        """
        horizon = self.clock.seconds() - 2 * OPEN_WITHIN_MS / 1000
        while self._seen and next(iter(self._seen.values())) < horizon:
            del self._seen[next(iter(self._seen))]
        if digest in self._seen:
            raise call_used()
        self._seen[digest] = self.clock.seconds()

    def _spend(self, person_id: str) -> None:
        """Count one request that is filed or withdrawn.

        Raises:
            TooMany: the person did so too often.
        """
        wait = self._changes.take(person_id, self.clock.seconds())
        if wait:
            self.rates.refusals.count("asks", person(person_id))
            raise TooMany(
                "you ask for access and withdraw more than "
                f"{_CHANGES.per_minute:g} times a minute; try again in {ceil(wait)} s",
                retry_after=wait,
            )

    async def _check_certificate(self, digest: bytes) -> None:
        def look(tx: ITransaction) -> bool:
            issued = self.state_cache.rows(tx).certificate(digest)
            return issued is not None and issued.revoked_at is None

        if not await self.requests.store.read("the caller's certificate", look):
            raise Denied("the certificate was revoked", reason="revoked_certificate")

    async def _made(
        self, asker: Asker, call: AccessCall, signed: SignedAccessCall
    ) -> list[AccessEntry]:
        requests = self.requests
        match call.call:
            case AccessAsk() as ask:
                return [await requests.ask(asker, ask, request_id=_request_id(signed.call))]
            case AccessList(to_decide=to_decide):
                return await (requests.to_decide(asker) if to_decide else requests.own(asker))
            case AccessShow(request_id=request_id):
                return [await requests.show(asker, request_id)]
            case AccessDecide() as one:
                decision = Signed(one.approval, one.signature, signed.chain)
                return [await requests.decide(asker, one.request_id, decision)]
            case AccessWithdraw(request_id=request_id):
                return [await requests.withdraw(asker, request_id)]
            case _:
                assert_never(call.call)


def _request_id(call: bytes) -> str:
    """The id of the request that a call files: nobody knows it before, as calls hold a nonce."""
    return sha256(_REQUEST_ID + call).hexdigest()[: 2 * RANDOM_ID_BYTES]
