"""Join tokens, as operators make them; a secret leaves here once and is kept only as a hash."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import TOKENS
from svc.errors import Malformed
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import TOKEN_CREATE
from svc.model.audit.record import Actor
from svc.model.cluster.node import TokenRecord, TokenRole
from svc.model.cluster.token import JoinToken, make_token
from svc.model.ids import Entropy
from svc.proto.gate.v1 import admin_pb2 as pb

_MAX_TTL = 7 * 86400


@define
class TokenAdmin:
    """Makes join tokens.

    Attributes:
        ca_pin: SHA-256 of the cluster root in hex; goes with every token.
        token_secs: How long a token waits when the operator names no time.
    """

    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    entropy: Entropy
    ca_pin: str
    token_secs: float

    def new(self) -> JoinToken:
        """A token that nobody knows yet; made before the transaction, which may run again."""
        return make_token(self.entropy)

    def record(
        self,
        token: JoinToken,
        role: TokenRole,
        bound_to: str,
        ttl: int,
        names: tuple[str, ...] = (),
    ) -> TokenRecord:
        """What is kept of it."""
        return TokenRecord(
            id=token.id,
            secret_sha256=token.secret_sha256,
            role=role,
            expires_at=self.now() + self.ttl(ttl),
            bound_to=bound_to,
            names=names,
        )

    def ttl(self, asked: int) -> float:
        """How long it waits.  Raises Malformed: too long."""
        if asked > _MAX_TTL:
            raise Malformed(f"ttl: at most {_MAX_TTL} seconds")
        return asked or self.token_secs

    def add(self, tx: ITransaction, row: TokenRecord, actor: Actor) -> None:
        """Keep it, with its record."""
        tx.tokens.add(row, self.now())
        details: dict[str, str | int] = {
            "token_id": row.id,
            "role": row.role.value,
            "ttl_seconds": max(0, round(row.expires_at - self.now())),
        }
        if row.role is TokenRole.PERSON and row.bound_to:
            details["person_id"] = row.bound_to
        state = [TOKENS.now(tx, row.id)]
        self.recorder.append(tx, TOKEN_CREATE, actor, details=details, state=state)

    def response(self, token: JoinToken, row: TokenRecord, id: str = "") -> pb.TokenResponse:
        """The one answer that holds the secret; *id* is of whom it is for."""
        return pb.TokenResponse(
            token=token.text, ca_pin=self.ca_pin, expires_at=int(row.expires_at), id=id
        )
