"""Holds the records of gated sessions against their Connectors' checkpoints, and prolongs grants.

A Proxy decides the requests that it passes, so nobody but the Connector can tell which it recorded
(rule R25).  Where both say the same, and the policy still allows the session, its grant is
prolonged (rule R26).  Where they do not, the session is over, and its Proxy opens no gated one.

What is known of a session's chain is in memory: after a change of the leader, the first checkpoint
of each open session is believed, and what follows is held against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

from attrs import define, field
from twisted.logger import Logger

from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node
from svc.errors import Denied, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind, kind_of
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import IStore, ITransaction
from svc.messages.gated import (
    CheckpointAnswer,
    CheckpointAsk,
    decode_checkpoint,
    encode_extension,
)
from svc.messages.session import decode_grant, decode_request
from svc.model.audit.events import SESSION_MISMATCH
from svc.model.certificate import CertificateFacts
from svc.model.cluster.node import Node
from svc.model.policy.access import EntityUid
from svc.model.policy.requests import context_at, may_open
from svc.model.principal import Role
from svc.model.session import ending
from svc.model.session.checkpoint import (
    GATED_MS,
    RECONCILED_SECS,
    GrantExtension,
    SessionCheckpoint,
)
from svc.model.session.recorded import MISSING, RangedRecord, RecordedChain
from svc.model.session.request import SessionRequest
from svc.model.session.session import Session, SessionState
from svc.model.signing import Purpose, Signed, verify

_log = Logger(namespace="svc_authority")

DISTRUSTED = "proxy_distrusted"
UNRECONCILED = "records_outstanding"

FORGET_SECS = 1200.0
"""Of a session of which nothing was heard for so long, nothing is kept."""

_SWEEP_SECS = 60.0


@define
class GatedSessions:
    """Answers ``Control/Checkpoint``.

    Attributes:
        engine: Gives the policy in force; None while there is none.
        sign_extension: Signs with the grant key.
    """

    cluster: str
    state_cache: ClusterStateCache
    engine: Callable[[], IPolicyEngine | None]
    kinds: Mapping[str, ServedKind]
    store: IStore
    recorder: Recorder
    verifier: IChainVerifier
    sign_extension: Callable[[bytes], Signed]
    now: Callable[[], float]
    _chains: dict[str, RecordedChain] = field(factory=dict, init=False)
    _proxies: dict[str, str] = field(factory=dict, init=False)
    _mismatched: set[str] = field(factory=set, init=False)
    _unwritten: dict[str, str] = field(factory=dict, init=False)
    _distrusted: set[str] = field(factory=set, init=False)
    _swept_at: float = field(default=0.0, init=False)

    def granted(self, session_uid: str, proxy_id: str) -> None:
        """A gated session may open; its chain begins."""
        self._proxies[session_uid] = proxy_id
        self._chains[session_uid] = RecordedChain(session_uid, self.now())

    def require_trusted(self, proxy_id: str) -> None:
        """Return if this Proxy may open gated sessions.

        Raises:
            Denied: ``proxy_distrusted``.
        """
        if proxy_id in self._distrusted:
            raise Denied(
                "the records of this Proxy are not what Connectors passed on; it opens no session "
                "whose requests it would decide",
                reason=DISTRUSTED,
            )

    async def recorded(self, requests: Iterable[RangedRecord]) -> None:
        """Take records that are in the log now, in their order.

        Raises:
            SvcError: a mismatch is not on record yet; it is written at the next call, or the next
                checkpoint.
        """
        for one in requests:
            if one.session_uid in self._mismatched:
                continue
            chain = self._chain(one.session_uid)
            self._judged(one.session_uid, chain.record(one.range_, one.allowed, self.now()))
        # Not before all are taken: a record left out would be missed in a session that is good.
        await self._write_mismatches()

    async def checkpoint(self, ask: CheckpointAsk, proxy: Node) -> CheckpointAnswer:
        """Take a checkpoint; with an extension, where the session may go on.

        Raises:
            SvcError: it is not one of the session's Connector's, or the store cannot be asked.
        """
        one = self._verified(ask.checkpoint)
        session = await self.store.read(
            "session of a checkpoint", lambda tx: tx.sessions.get(one.session_uid)
        )
        mine = (proxy.id, one.connector_id)
        if session is None or (session.proxy_id, session.connector_id) != mine:
            raise Denied("the checkpoint is of no session here", reason="checkpoint_refused")
        self._sweep()
        uid = one.session_uid
        self._proxies[uid] = proxy.id
        if uid not in self._mismatched:
            self._judged(uid, self._chain(uid).checkpoint(one, self.now()))
        try:
            await self._write_mismatches()
        except SvcError as failed:
            _log.warn("a mismatch is not on record yet", reason=failed.reason)
        if uid in self._mismatched:
            return CheckpointAnswer(reason=ending.SESSION_MISMATCH)
        if one.is_last:
            return CheckpointAnswer()
        if session.state is not SessionState.OPEN:
            return CheckpointAnswer(reason=ending.NOT_CLAIMED)
        if self._chain(uid).settled_at < self.now() - RECONCILED_SECS:
            return CheckpointAnswer(reason=UNRECONCILED)
        try:
            return CheckpointAnswer(extension=self._extension(ask, one, session))
        except Denied as refusal:
            _log.info("a session is not prolonged", session=uid, reason=refusal.reason)
            return CheckpointAnswer(reason=refusal.reason)

    def _verified(self, signed: Signed) -> SessionCheckpoint:
        facts = self.verifier.verify(signed.chain, {Role.CONNECTOR})
        verify(facts.public_key, Purpose.SESSION_CHECKPOINT, signed.payload, signed.signature)
        one = decode_checkpoint(signed.payload)
        connector = self.state_cache.node(facts.principal)
        if (one.cluster, one.connector_id) != (self.cluster, connector.id):
            raise Denied("the checkpoint is another Connector's", reason="checkpoint_refused")
        return one

    def _extension(self, ask: CheckpointAsk, one: SessionCheckpoint, session: Session) -> Signed:
        """The grant, prolonged, if it would be made now too (rule R17: by the facts of its open).

        Raises:
            Denied: it would not.
        """
        request, person, kind = self._opened(ask, one)
        engine = self.engine()
        if engine is None:
            raise Denied("no policy is in force", reason="policy_unavailable")
        asker = self.state_cache.person(person.principal)
        target = EntityUid(kind.terms.entity_type, session.resource_id)
        context = context_at(self.now(), ask.source_address, kind.facts(request))
        decision = engine.decide(
            may_open(kind.request_kind, request.action, asker.id, target, context)
        )
        if not decision.allowed:
            raise Denied("the policy no longer allows it", reason="policy_changed")
        end = min(int(self.now() * 1000) + GATED_MS, int(person.not_after * 1000))
        return self.sign_extension(
            encode_extension(
                GrantExtension(
                    cluster=self.cluster,
                    session_uid=one.session_uid,
                    n=one.n,
                    end_before_ms=end,
                    policy_version=decision.policy_version,
                )
            )
        )

    def _opened(
        self, ask: CheckpointAsk, one: SessionCheckpoint
    ) -> tuple[SessionRequest, CertificateFacts, ServedKind]:
        """What the session was opened with: our own grant says that it is that."""
        if ask.grant is None:
            raise Denied("the checkpoint came without its grant", reason="checkpoint_refused")
        self.verifier.verify_signed(ask.grant, Purpose.GRANT)
        grant, request = decode_grant(ask.grant.payload), decode_request(ask.request)
        person = self.verifier.verify(ask.person_chain, {Role.USER})
        said = (grant.session_uid, grant.request_sha256, grant.person_certificate_sha256)
        if said != (one.session_uid, sha256(ask.request).digest(), person.sha256):
            raise Denied("the checkpoint came with another grant", reason="checkpoint_refused")
        return request, person, kind_of(self.kinds, request)

    def _chain(self, session_uid: str) -> RecordedChain:
        chain = self._chains.get(session_uid)
        if chain is None:
            chain = RecordedChain(session_uid, self.now(), is_adopted=True)
            self._chains[session_uid] = chain
        return chain

    def _judged(self, session_uid: str, word: str) -> None:
        """Where there is a word against the session, trust its Proxy with no more gated ones."""
        if not word:
            return
        self._mismatched.add(session_uid)
        self._unwritten[session_uid] = word
        proxy_id = self._proxies.get(session_uid, "")
        if proxy_id:
            self._distrusted.add(proxy_id)
        _log.error(
            "a Proxy's records of a session are not what its Connector passed on; revoke the Proxy",
            session=session_uid,
            proxy=proxy_id,
            reason=word,
        )

    async def _write_mismatches(self) -> None:
        """Put on record what is not yet; what cannot be written now stays for the next time."""
        for uid in tuple(self._unwritten):
            word = self._unwritten.pop(uid, "")
            if not word:
                continue  # another call writes it
            try:
                await self._write_mismatch(uid, word)
            except BaseException:
                self._unwritten[uid] = word
                raise

    async def _write_mismatch(self, session_uid: str, word: str) -> None:
        def write(tx: ITransaction) -> str:
            session = tx.sessions.get(session_uid)
            if session is None:
                return ""
            self.recorder.append(
                tx,
                SESSION_MISMATCH,
                node(session.proxy_id),
                session_uid=session.uid,
                resource_id=session.resource_id,
                resource_kind=session.kind,
                decision_id=session.decision_id,
                reason=word,
                details={"proxy_id": session.proxy_id, "connector_id": session.connector_id},
            )
            return session.proxy_id

        proxy_id = await self.store.run("a session's mismatch", write)
        if proxy_id:
            self._distrusted.add(proxy_id)

    def _sweep(self) -> None:
        """Forget what is over; what still waits for records then will not get them."""
        now = self.now()
        if now - self._swept_at < _SWEEP_SECS:
            return
        self._swept_at = now
        old = [one for one in self._chains.values() if one.touched_at < now - FORGET_SECS]
        for chain in old:
            del self._chains[chain.session_uid]
            if chain.owes and chain.session_uid not in self._mismatched:
                self._judged(chain.session_uid, MISSING)
            self._proxies.pop(chain.session_uid, None)
