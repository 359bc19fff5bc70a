"""Keys that an operator expects: the holder of one joins once, without a token.

Without a row nobody joins so.  The key itself is proven by the certificate
request that it signs, inside the join's own TLS; here is only whether it is
expected, and that is in force as a signed record says (rule R8).
"""

from __future__ import annotations

from attrs import define

from svc.authority.state.recorder import Recorder
from svc.authority.state.tables import EXPECTED
from svc.authority.state.writer import StateWriter
from svc.errors import AlreadyExists, Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import KEY_EXPECT, KEY_WITHDRAW
from svc.model.audit.record import Actor
from svc.model.audit.state import expected_entry
from svc.model.cluster.node import ExpectedKey, Spending, TokenRole
from svc.model.ids import random_id
from svc.proto.gate.v1 import admin_pb2 as pb

KEY_BYTES = 32


class KeyNotExpected(SvcError):
    """The one answer to every key that may not join without a token."""

    fault = Fault.DENIED
    reason = "key_refused"


def use_key(
    tx: ITransaction, recorder: Recorder, key_sha256: bytes, at: float
) -> tuple[Spending, ExpectedKey | None]:
    """Use up the row of a key that was just proven; called in the join's transaction.

    Raises:
        StateUnsigned: the row is not what was signed for.
    """
    found = tx.expected.of_key(key_sha256)
    if found is None:
        return Spending.UNKNOWN, None
    # First: what its record said is forgotten some time after it ended.
    if found.expires_at <= at:
        return Spending.EXPIRED, found
    # Before it is used it is as its record says: its role, its name, its time, and not used yet.
    recorder.rows(tx).require(expected_entry(found))
    if found.used_at is not None:
        return Spending.ALREADY_SPENT, found
    won = tx.expected.use(found.id, at)
    return (Spending.SPENT if won else Spending.ALREADY_SPENT), found


@define
class ExpectedKeysAdmin:
    """Adds, lists and withdraws expected keys.

    Attributes:
        ca_pin: SHA-256 of the cluster root in hex; a joiner needs it.
    """

    writer: StateWriter
    ca_pin: str

    async def expect(
        self,
        key_sha256: bytes,
        role: TokenRole,
        name: str,
        ttl: float,
        names: tuple[str, ...],
        actor: Actor,
    ) -> pb.ExpectNodeResponse:
        """Let the holder of a key join once; what its certificate says is fixed here."""
        if len(key_sha256) != KEY_BYTES:
            raise Malformed("key: a SHA-256 of 32 bytes")
        expected = ExpectedKey(
            id=random_id(self.writer.entropy),
            role=role,
            name=name,
            key_sha256=key_sha256,
            issuer=actor.id,
            expires_at=self.writer.now() + ttl,
            names=names,
        )

        def add(tx: ITransaction) -> None:
            if tx.nodes.named(name) is not None:
                raise SvcError(
                    f"node {name}: an active node already has that name",
                    reason="already_exists",
                    fault=Fault.EXISTS,
                )
            try:
                tx.expected.add(expected, self.writer.now())
            except AlreadyExists:
                raise SvcError(
                    "key: already used for a join permission, which is given only once per "
                    "key; let the node join with a token (`svc authority nodes add`) or with "
                    "a new key",
                    reason="already_exists",
                    fault=Fault.EXISTS,
                ) from None
            details = {**_details(expected), "ttl_seconds": round(ttl)}
            state = [EXPECTED.now(tx, expected.id)]
            self.writer.append(tx, KEY_EXPECT, actor, details=details, state=state)

        await self.writer.change_beside_policy("expect a key", add)
        return pb.ExpectNodeResponse(
            id=expected.id, expires_at=int(expected.expires_at), ca_pin=self.ca_pin
        )

    async def list_expected(
        self, request: pb.ListExpectedRequest, actor: Actor
    ) -> pb.ListExpectedResponse:
        """Every one whose time is not over, used ones included."""
        found = await self.writer.read(
            "list expected keys", lambda tx: tx.expected.unexpired(self.writer.now())
        )
        rows = [
            pb.ExpectedRow(
                id=one.id,
                role=one.role.value,
                name=one.name,
                key_sha256=one.key_sha256,
                issuer=one.issuer,
                expires_at=int(one.expires_at),
                used=one.used_at is not None,
            )
            for one in found
        ]
        return pb.ListExpectedResponse(expected=rows)

    async def withdraw(
        self, request: pb.WithdrawExpectedRequest, actor: Actor
    ) -> pb.WithdrawExpectedResponse:
        """Expect a key no more; a node that joined by it stays."""

        def withdraw(tx: ITransaction) -> None:
            known = self._waiting(tx, request.id)
            if known is None or not tx.expected.use(known.id, self.writer.now()):
                raise SvcError(
                    f"expected key {request.id}: no such key may join; see `svc authority "
                    "nodes expected`",
                    reason="unknown_key",
                    fault=Fault.NOT_FOUND,
                )
            state = [EXPECTED.now(tx, known.id)]
            self.writer.append(tx, KEY_WITHDRAW, actor, details=_details(known), state=state)

        await self.writer.change_beside_policy("withdraw a key", withdraw)
        return pb.WithdrawExpectedResponse()

    def _waiting(self, tx: ITransaction, key_id: str) -> ExpectedKey | None:
        """The key of this id, used or not; none once its time is over.  Raises StateUnsigned."""
        found = tx.expected.get(key_id)
        if found is not None and found.expires_at <= self.writer.now():
            return None
        return self.writer.rows(tx).expected(key_id)


def _details(expected: ExpectedKey) -> dict[str, str | int]:
    return {
        "expected_id": expected.id,
        "key_digest": expected.key_sha256.hex(),
        "role": expected.role.value,
    }
