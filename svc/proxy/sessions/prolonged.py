"""Carries checkpoints of gated sessions to Authority, and its extensions back to Connectors."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from svc.errors import Denied
from svc.interfaces.rpc import IRpcChannel
from svc.messages.gated import (
    AUTHORITY_CHECKPOINT_METHOD,
    CheckpointAnswer,
    CheckpointAsk,
    checkpoint_ask_message,
    decode_checkpoint,
    decode_extension,
    read_checkpoint_answer,
)
from svc.model.session.ending import ENDINGS
from svc.model.signing import Signed
from svc.proto.gate.v1 import session_pb2
from svc.proxy.sessions.granted import Granted, PendingSession
from svc.tunnel.grant_end import GrantEnd

_CHECKPOINT_SECS = 10.0


@frozen
class ProlongedSession:
    """A gated session that passes bytes.

    Attributes:
        grant: Authority's, as signed.
        request: The person's ``SessionRequest`` bytes.
        person_chain: DER certificates, the person's leaf first.
        source_address: The person's, as the Proxy saw it that the session entered.
        end: Of its time here; who relies on Authority's word is the Connector.
    """

    grant: Signed
    request: bytes
    person_chain: tuple[bytes, ...]
    source_address: str
    end: GrantEnd


def prolonged_session(opening: PendingSession, granted: Granted, end: GrantEnd) -> ProlongedSession:
    """A gated session that entered here and has its tunnel here."""
    return ProlongedSession(
        grant=granted.signed,
        request=opening.data,
        person_chain=opening.chain,
        source_address=opening.decision.source_address,
        end=end,
    )


def held_until(opening: PendingSession, granted: Granted) -> int:
    """When a session that entered here ends at the latest, in Unix milliseconds.

    A gated session that is relayed is prolonged where its tunnel is, and ends there without: the
    Connector's checkpoints, and Authority's answers, do not come this way.
    """
    grant = granted.grant
    if not (grant.is_gated and grant.is_relayed):
        return grant.end_before_ms
    return int(min(opening.certificate.not_after, granted.approval_end) * 1000)


@define
class ProlongedSessions:
    """Those of one Proxy, by uid."""

    channel: Callable[[], IRpcChannel]
    _sessions: dict[str, ProlongedSession] = field(factory=dict, init=False)

    def add(self, uid: str, session: ProlongedSession) -> None:
        """It passes bytes from now on."""
        self._sessions[uid] = session

    def remove(self, uid: str) -> None:
        """It is over.  Idempotent."""
        self._sessions.pop(uid, None)

    async def checkpoint(self, node_id: str, signed: Signed) -> CheckpointAnswer:
        """Take a Connector's checkpoint to Authority; its last one may come when all is over.

        Args:
            node_id: The Connector's, from its certificate.
            signed: As it came.

        Raises:
            SvcError: it is malformed, or Authority does not answer.
        """
        one = decode_checkpoint(signed.payload, relayed=True)
        if one.connector_id != node_id:
            raise Denied("the checkpoint is another Connector's", reason="checkpoint_refused")
        session = self._sessions.get(one.session_uid)
        message = await self.channel().unary(
            AUTHORITY_CHECKPOINT_METHOD,
            checkpoint_ask_message(_ask(signed, session)),
            session_pb2.CheckpointAnswer,
            timeout=_CHECKPOINT_SECS,
        )
        answer = read_checkpoint_answer(message)
        if session is not None and answer.extension is not None:
            extension = decode_extension(answer.extension.payload, relayed=True)
            session.end.hold_until(extension.end_before_ms)
        elif session is not None and answer.reason in ENDINGS:
            session.end.end(answer.reason)
        return answer


def _ask(signed: Signed, session: ProlongedSession | None) -> CheckpointAsk:
    if session is None:
        return CheckpointAsk(signed)
    return CheckpointAsk(
        checkpoint=signed,
        grant=session.grant,
        request=session.request,
        person_chain=session.person_chain,
        source_address=session.source_address,
    )
