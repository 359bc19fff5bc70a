"""Join tokens, as operators make, list and withdraw them.

A secret leaves here once, and is kept only as a hash.
"""

from __future__ import annotations

from attrs import define

from svc.authority.registry.words import optional_note
from svc.authority.state.tables import TOKENS
from svc.authority.state.writer import StateWriter
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import TOKEN_CREATE, TOKEN_REVOKE
from svc.model.audit.record import Actor
from svc.model.cluster.node import KeptToken, TokenRecord, TokenRole
from svc.model.cluster.token import JoinToken, make_token
from svc.proto.gate.v1 import admin_pb2 as pb

_MAX_TTL = 7 * 86400


@define
class TokenAdmin:
    """Makes, lists and withdraws join tokens.

    Attributes:
        ca_pin: SHA-256 of the cluster root in hex; goes with every token.
        token_secs: How long a token waits when the operator names no time.
    """

    writer: StateWriter
    ca_pin: str
    token_secs: float

    def new(self) -> JoinToken:
        """A token that nobody knows yet; made before the transaction, which may run again."""
        return make_token(self.writer.entropy)

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
            expires_at=self.writer.now() + self.ttl(ttl),
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
        tx.tokens.add(row, self.writer.now())
        details: dict[str, str | int] = {
            "token_id": row.id,
            "role": row.role.value,
            "ttl_seconds": max(0, round(row.expires_at - self.writer.now())),
        }
        if row.role is TokenRole.PERSON and row.bound_to:
            details["person_id"] = row.bound_to
        state = [TOKENS.now(tx, row.id)]
        self.writer.append(tx, TOKEN_CREATE, actor, details=details, state=state)

    async def list_tokens(
        self, request: pb.ListTokensRequest, actor: Actor
    ) -> pb.ListTokensResponse:
        """Tokens that wait; with ``all`` also those that were used or withdrawn, until they end."""

        def look(tx: ITransaction) -> list[pb.TokenRow]:
            kept = tx.tokens.unexpired(self.writer.now())
            wanted = [one for one in kept if request.all or one.spent_at is None]
            return [token_row(tx, one) for one in wanted]

        return pb.ListTokensResponse(tokens=await self.writer.read("list tokens", look))

    async def revoke(self, request: pb.RevokeTokenRequest, actor: Actor) -> pb.RevokeTokenResponse:
        """Withdraw a token: nobody joins with it any more."""
        note = optional_note(request.note)

        def withdraw(tx: ITransaction) -> bool:
            kept = self.writer.rows(tx).token(request.id)
            if kept is None or kept.token.expires_at <= self.writer.now():
                raise SvcError(
                    f"token {request.id}: does not exist, or has expired; list them: svc "
                    "authority tokens list",
                    reason="unknown_token",
                    fault=Fault.NOT_FOUND,
                )
            if kept.spent_at is not None:
                return False
            self.withdraw(tx, kept.token, actor, note)
            return True

        changed = await self.writer.change_beside_policy("withdraw a token", withdraw)
        return pb.RevokeTokenResponse(changed=changed)

    def waiting_for(
        self, tx: ITransaction, id: str, role: TokenRole = TokenRole.PERSON
    ) -> list[KeptToken]:
        """The tokens with which a person or agent could still join, as they were signed."""
        rows = self.writer.rows(tx)
        found = [
            KeptToken(one)
            for one in tx.tokens.waiting(self.writer.now())
            if one.role is role and one.bound_to == id
        ]
        return [one for one in found if rows.is_signed(TOKENS.entry_of(one))]

    def withdraw(
        self,
        tx: ITransaction,
        token: TokenRecord,
        actor: Actor,
        note: dict[str, str] | None = None,
    ) -> None:
        """Make a token that waits unusable, with its record."""
        tx.tokens.withdraw(token.id, self.writer.now())
        details = {"token_id": token.id, "role": token.role.value, **(note or {})}
        if token.role is TokenRole.PERSON and token.bound_to:
            details["person_id"] = token.bound_to
        state = [TOKENS.now(tx, token.id)]
        self.writer.append(tx, TOKEN_REVOKE, actor, details=details, state=state)

    def response(self, token: JoinToken, row: TokenRecord, id: str = "") -> pb.TokenResponse:
        """The one answer that holds the secret; *id* is of whom it is for."""
        return pb.TokenResponse(
            token=token.text, ca_pin=self.ca_pin, expires_at=int(row.expires_at), id=id
        )


def token_row(tx: ITransaction, kept: KeptToken) -> pb.TokenRow:
    """A token as commands show it, without its secret."""
    token = kept.token
    row = pb.TokenRow(
        id=token.id,
        role=token.role.value,
        name=token.bound_to or "",
        expires_at=int(token.expires_at),
        used=kept.spent_at is not None,
    )
    if token.role is TokenRole.PERSON and token.bound_to:
        known = tx.people.get(token.bound_to)
        row.person_id, row.name = token.bound_to, "" if known is None else known.known_name
    if token.role is TokenRole.AGENT and token.bound_to:
        agent = tx.agents.get(token.bound_to)
        row.name = token.bound_to if agent is None else agent.name
    return row
