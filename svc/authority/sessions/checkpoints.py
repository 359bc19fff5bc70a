"""Holds the records of gated sessions against their Connectors' checkpoints, and prolongs grants.

A Proxy decides the requests that it passes, so nobody but the Connector can tell which it recorded
(rule R25).  Where both say the same, and the policy still allows the session, its grant is
prolonged (rule R26).  Where they do not, the session is over, and its Proxy opens no gated one.

A Connector says a last word about each session that it was to open.  A session that never gets one
is on record, and its Proxy is held to it (``svc.authority.sessions.trust``).

What is known of a session's chain is in memory: after a change of the leader, the first checkpoint
of each open session is believed, and what follows is held against it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.authority.sessions.trust import RESTARTED, ProxyTrust
from svc.authority.state.cache import ClusterStateCache
from svc.errors import Denied, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind, kind_of
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import IStore
from svc.messages.gated import (
    CheckpointAnswer,
    CheckpointAsk,
    decode_checkpoint,
    encode_extension,
)
from svc.messages.session import decode_grant, decode_request
from svc.model.certificate import CertificateFacts
from svc.model.cluster.node import Node
from svc.model.policy.access import EntityUid
from svc.model.policy.requested import ApprovedAccess
from svc.model.policy.requests import may_open_at
from svc.model.principal import CALLERS, Role
from svc.model.session import ending
from svc.model.session.checkpoint import (
    GATED_MS,
    RECONCILED_SECS,
    GrantExtension,
    SessionCheckpoint,
)
from svc.model.session.grant import Grant
from svc.model.session.recorded import MISSING, RangedRecords, RecordedChain
from svc.model.session.request import SessionRequest
from svc.model.session.session import Session, SessionState
from svc.model.signing import Purpose, Signed, verify

_log = Logger(namespace="svc_authority")

UNRECONCILED = "records_outstanding"
NO_LAST_CHECKPOINT = "no_last_checkpoint"

FORGET_SECS = 1200.0
"""Records that a checkpoint tells of and that have not come for so long will not come; of a session
of which nothing was heard for so long, nothing is kept."""

LATE_SECS = 600.0
"""After its grant has ended, the last checkpoint of a session may be so late: a Connector brings it
to another Proxy, or to the same one when that is back."""

SWEEP_SECS = 60.0
POLICY_CHANGED = "policy_changed"


async def _on_nothing(grant: Grant) -> ApprovedAccess | None:
    return None


@define
class _Tracked:
    """A gated session, as far as it was heard of.

    Attributes:
        proxy_id: By its grant; by its row, which is not signed, where no grant was seen.
        egress_proxy_id: Of a session that is relayed, by its grant: the Proxy with the tunnel.
        connector_id: Likewise.
        holder: Whose it is and on what, by its grant; None where none was seen.
        instances: Processes of its Connector that were registered when it was granted, or when it
            was first heard of.
        ends_at: When its grant ends; None where we do not know.
    """

    chain: RecordedChain
    proxy_id: str = ""
    egress_proxy_id: str = ""
    connector_id: str = ""
    holder: tuple[str, str] | None = None
    instances: frozenset[str] = frozenset()
    ends_at: float | None = None


@frozen
class _Opened:
    """What a session was opened with."""

    grant: Grant
    request: SessionRequest
    person: CertificateFacts
    kind: ServedKind


@define
class GatedSessions:
    """Answers ``Control/Checkpoint``.

    Attributes:
        engine: Gives the policy in force; None while there is none.
        sign_extension: Signs with the grant key.
        trust: Hears what sessions say of their Proxies.
        instances: The processes of a Connector that are registered now.
        stands_on: Gives the approved request, in force still, by which a grant was made.
        asked_ends: Gives the sessions that are being ended, with the reason, whatever rows say.
    """

    cluster: str
    state_cache: ClusterStateCache
    engine: Callable[[], IPolicyEngine | None]
    kinds: Mapping[str, ServedKind]
    store: IStore
    verifier: IChainVerifier
    sign_extension: Callable[[bytes], Signed]
    now: Callable[[], float]
    trust: ProxyTrust
    instances: Callable[[str], frozenset[str]]
    stands_on: Callable[[Grant], Awaitable[ApprovedAccess | None]] = _on_nothing
    asked_ends: Callable[[], Mapping[str, str]] = dict
    _sessions: dict[str, _Tracked] = field(factory=dict, init=False)
    _mismatched: set[str] = field(factory=set, init=False)

    def granted(self, grant: Grant) -> None:
        """A gated session may open; its chain begins."""
        self._sessions[grant.session_uid] = _Tracked(
            RecordedChain(grant.session_uid, self.now()),
            proxy_id=grant.proxy_id,
            egress_proxy_id=grant.egress_proxy_id,
            connector_id=grant.connector_id,
            holder=(grant.person_id, grant.resource),
            instances=self.instances(grant.connector_id),
            ends_at=grant.end_before_ms / 1000,
        )

    async def recorded(self, requests: Iterable[RangedRecords]) -> None:
        """Take records that are in the log now, in their order.

        Raises:
            SvcError: a mismatch is not on record yet; it is written at the next call, or the next
                checkpoint.
        """
        now = self.now()
        for uid, first, entries in requests:
            if uid not in self._mismatched:
                self._judged(uid, self._tracked(uid).chain.record(first, entries, now))
        # Not before all are taken: a record left out would be missed in a session that is good.
        await self.trust.write()

    def settled_at(self, session_uid: str) -> float | None:
        """When the newest checkpoint came up to which all records are there, or the grant was made.

        None where that is not known: of a session that another Authority granted.
        """
        tracked = self._sessions.get(session_uid)
        return None if tracked is None or tracked.chain.is_adopted else tracked.chain.settled_at

    def holder(self, session_uid: str) -> tuple[str, str] | None:
        """Whose a session is and on which resource, by its grant; None where none was seen."""
        tracked = self._sessions.get(session_uid)
        return None if tracked is None else tracked.holder

    async def disputed(self, session_uid: str, proxy_id: str, word: str) -> None:
        """The policy does not allow what the session's Proxy recorded as allowed.

        Raises:
            SvcError: it is not on record yet; it is written at the next checkpoint.
        """
        if session_uid not in self._mismatched:
            self._mismatched.add(session_uid)
            tracked = self._sessions.get(session_uid)
            known = "" if tracked is None else tracked.proxy_id
            egress = "" if tracked is None else tracked.egress_proxy_id
            self.trust.mismatched(session_uid, known or proxy_id, word, egress)
        await self.trust.write()

    async def checkpoint(self, ask: CheckpointAsk, proxy: Node) -> CheckpointAnswer:
        """Take a checkpoint; with an extension, where the session may go on.

        Raises:
            SvcError: it is not one of the session's Connector's, or the store cannot be asked.
        """
        one = self._verified(ask.checkpoint)
        session = await self.store.read(
            "session of a checkpoint", lambda tx: tx.sessions.get(one.session_uid)
        )
        if session is None or not self._is_theirs(one, session, proxy, ask):
            raise Denied("the checkpoint is of no session here", reason="checkpoint_refused")
        uid, tracked = one.session_uid, self._tracked(one.session_uid)
        if not tracked.proxy_id:
            self._learn(tracked, ask, one, session.proxy_id)
        if uid not in self._mismatched:
            self._judged(uid, tracked.chain.checkpoint(one, self.now()))
        try:
            await self.trust.write()
        except SvcError as failed:
            _log.warn("a mismatch is not on record yet", reason=failed.reason)
        if uid in self._mismatched:
            return CheckpointAnswer(reason=ending.SESSION_MISMATCH)
        if one.is_last:
            return CheckpointAnswer()
        if session.state is not SessionState.OPEN:
            return CheckpointAnswer(reason=ending.NOT_CLAIMED)
        asked = session.end_reason or self.asked_ends().get(uid, "")
        if asked:
            return CheckpointAnswer(reason=ending.known_ask(asked))
        if tracked.chain.settled_at < self.now() - RECONCILED_SECS:
            return CheckpointAnswer(reason=UNRECONCILED)
        try:
            extension, tracked.ends_at = await self._prolonged(ask, one, proxy)
            return CheckpointAnswer(extension=extension)
        except Denied as refusal:
            _log.info("a session is not prolonged", session=uid, reason=refusal.reason)
            return CheckpointAnswer(reason=refusal.reason)

    def _is_theirs(
        self, one: SessionCheckpoint, session: Session, proxy: Node, ask: CheckpointAsk
    ) -> bool:
        """Whether it is of a session of this Connector, brought by the Proxy with its tunnel.

        Its last one may come by another Proxy, where that of the session is gone.
        """
        ends = session.connector_id, session.proxy_id
        known = self._sessions.get(one.session_uid)
        if known is not None and known.holder is not None:
            ends = known.connector_id, known.egress_proxy_id or known.proxy_id
        elif (grant := self._grant_of(ask, one)) is not None:
            ends = grant.connector_id, grant.tunnel_proxy_id
        return ends[0] == one.connector_id and (one.is_last or ends[1] == proxy.id)

    def _learn(
        self, tracked: _Tracked, ask: CheckpointAsk, one: SessionCheckpoint, proxy_id: str
    ) -> None:
        """Whose session it is that another Authority granted: its grant says so, if it came."""
        tracked.proxy_id, tracked.connector_id = proxy_id, one.connector_id
        tracked.instances = self.instances(one.connector_id)
        grant = self._grant_of(ask, one)
        if grant is not None:
            tracked.proxy_id, tracked.egress_proxy_id = grant.proxy_id, grant.egress_proxy_id
            tracked.holder = (grant.person_id, grant.resource)

    def _grant_of(self, ask: CheckpointAsk, one: SessionCheckpoint) -> Grant | None:
        """The session's grant, where a good one came with its checkpoint."""
        if ask.grant is None:
            return None
        with suppress(SvcError):
            self.verifier.verify_signed(ask.grant, Purpose.GRANT)
            grant = decode_grant(ask.grant.payload)
            if (grant.session_uid, grant.connector_id) == (one.session_uid, one.connector_id):
                return grant
        return None

    def _verified(self, signed: Signed) -> SessionCheckpoint:
        facts = self.verifier.verify(signed.chain, {Role.CONNECTOR})
        verify(facts.public_key, Purpose.SESSION_CHECKPOINT, signed.payload, signed.signature)
        one = decode_checkpoint(signed.payload)
        connector = self.state_cache.node(facts.principal)
        if (one.cluster, one.connector_id) != (self.cluster, connector.id):
            raise Denied("the checkpoint is another Connector's", reason="checkpoint_refused")
        return one

    async def _prolonged(
        self, ask: CheckpointAsk, one: SessionCheckpoint, proxy: Node
    ) -> tuple[Signed, float]:
        """The grant, prolonged by the policy alone, or by the approval that it stands on."""
        opened = self._opened(ask, one, proxy)
        try:
            return self._extension(ask, one, opened)
        except Denied as refusal:
            approved = None
            if refusal.reason == POLICY_CHANGED:
                approved = await self.stands_on(opened.grant)
            if approved is None:
                raise
            return self._extension(ask, one, opened, approved)

    def _extension(
        self,
        ask: CheckpointAsk,
        one: SessionCheckpoint,
        opened: _Opened,
        approved: ApprovedAccess | None = None,
    ) -> tuple[Signed, float]:
        """The grant, prolonged, if it would be made now too (rule R17: by the facts of its open).

        Returns:
            The extension, and when it ends.

        Raises:
            Denied: it would not.
        """
        request, person, kind = opened.request, opened.person, opened.kind
        engine = self.engine()
        if engine is None:
            raise Denied("no policy is in force", reason="policy_unavailable")
        asker = self.state_cache.caller(person.principal)
        target = EntityUid(kind.terms.entity_type, opened.grant.resource)
        decision = engine.decide(
            may_open_at(
                self.now(),
                request_kind=kind.request_kind,
                action=request.action,
                person_id=asker.id,
                target=target,
                source_address=ask.source_address,
                asked=kind.asked(request).facts,
                factor_at=person.factor_at,
                approved=approved,
            )
        )
        if not decision.allowed:
            raise Denied("the policy no longer allows it", reason=POLICY_CHANGED)
        end = min(int(self.now() * 1000) + GATED_MS, int(person.not_after * 1000))
        if approved is not None:
            end = min(end, approved.ends_at * 1000)
        extension = GrantExtension(
            cluster=self.cluster,
            session_uid=one.session_uid,
            n=one.n,
            end_before_ms=end,
            policy_version=decision.policy_version,
        )
        return self.sign_extension(encode_extension(extension)), end / 1000

    def _opened(self, ask: CheckpointAsk, one: SessionCheckpoint, proxy: Node) -> _Opened:
        """What the session was opened with: our own grant says that it is that."""
        if ask.grant is None:
            raise Denied("the checkpoint came without its grant", reason="checkpoint_refused")
        self.verifier.verify_signed(ask.grant, Purpose.GRANT)
        grant, request = decode_grant(ask.grant.payload), decode_request(ask.request)
        person = self.verifier.verify(ask.person_chain, CALLERS)
        said = (grant.session_uid, grant.request_sha256, grant.person_certificate_sha256)
        is_it = said == (one.session_uid, sha256(ask.request).digest(), person.sha256)
        ends = (grant.connector_id, grant.tunnel_proxy_id)
        if not is_it or ends != (one.connector_id, proxy.id):
            raise Denied("the checkpoint came with another grant", reason="checkpoint_refused")
        kind, _ = kind_of(self.kinds, request)
        return _Opened(grant=grant, request=request, person=person, kind=kind)

    def _tracked(self, session_uid: str) -> _Tracked:
        tracked = self._sessions.get(session_uid)
        if tracked is None:
            tracked = _Tracked(RecordedChain(session_uid, self.now(), is_adopted=True))
            self._sessions[session_uid] = tracked
        return tracked

    def _judged(self, session_uid: str, word: str) -> None:
        """Where there is a word against the session, trust its Proxy with no more gated ones."""
        if word:
            self._mismatched.add(session_uid)
            tracked = self._sessions.get(session_uid)
            proxies = ("", "") if tracked is None else (tracked.proxy_id, tracked.egress_proxy_id)
            self.trust.mismatched(session_uid, proxies[0], word, proxies[1])

    async def sweep(self) -> None:
        """Judge and forget what is over; called again and again.

        Raises:
            SvcError: what was found is not on record yet.
        """
        ended = sorted(self._sessions.items(), key=lambda one: one[1].ends_at or 0.0)
        for uid, tracked in ended:
            if self._is_over(uid, tracked):
                del self._sessions[uid]
        await self.trust.write()

    def _is_over(self, uid: str, one: _Tracked) -> bool:
        """Judge a session if it can be; whether nothing more of it is of interest."""
        now, owed_since = self.now(), one.chain.owed_since
        if uid not in self._mismatched:
            if owed_since is not None and owed_since < now - FORGET_SECS:
                self._never_recorded(uid, one, owed_since)
                return True
            if one.ends_at is not None and not one.chain.is_ended and one.ends_at < now - LATE_SECS:
                self.trust.unconfirmed(
                    uid, one.proxy_id, self._why(one), one.ends_at, one.egress_proxy_id
                )
                return True
        is_going_on = one.ends_at is not None and one.ends_at > now
        return not is_going_on and one.chain.touched_at < now - FORGET_SECS

    def _never_recorded(self, uid: str, one: _Tracked, since: float) -> None:
        """A Proxy that was here all the time left them out; one that was away may have lost them.

        Also one that was killed where records are written later than they are made, or whose disk
        is lost: that is an incident, and the Proxy is not trusted less for the first.
        """
        if self.trust.was_here_since(one.proxy_id, since) or not one.proxy_id:
            self._judged(uid, MISSING)
        else:
            self.trust.unconfirmed(uid, one.proxy_id, UNRECONCILED, since, one.egress_proxy_id)

    def _why(self, one: _Tracked) -> str:
        """A new process of the Connector has nothing to say of sessions of the one before."""
        now = self.instances(one.connector_id)
        is_another = bool(now and one.instances) and now.isdisjoint(one.instances)
        return RESTARTED if is_another else NO_LAST_CHECKPOINT
