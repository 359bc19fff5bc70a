"""The signed records of state: what they are verified with, and how an Authority begins by them."""

from __future__ import annotations

from attrs import define

from svc.audit.checkpoint.head import AnchorKey
from svc.audit.checkpoint.startup_request import StartupRequestFile
from svc.audit.state.anchor import StateAnchor, StateKeeper, check_anchor
from svc.audit.state.in_force import BATCH, OriginKey, StateLedger, StateView, VerifiedRecord
from svc.authority.state.adopt import AdoptionRequest, adopt_requested
from svc.authority.state.recorder import Recorder
from svc.interfaces.store import IStore, ITransaction
from svc.model.signing import Purpose
from svc.pki.profile import SIGNED_BY
from svc.pki.root import ClusterKeys

ADOPTION_REQUEST = "adopt-state.json"
"""In the anchor directory."""


def origin_key(keys: ClusterKeys) -> OriginKey:
    """The key of this cluster that signs records of state; a newer one changes it not."""
    used = keys.purposes[SIGNED_BY[Purpose.AUDIT_ORIGIN]]
    (certificate,) = used.sign(Purpose.AUDIT_ORIGIN, b"").chain
    return OriginKey(
        sign=lambda data: used.sign(Purpose.AUDIT_ORIGIN, data).signature,
        certificate=certificate,
        ends_at=used.ends_at,
        begins_at=used.begins_at,
    )


def anchor_key(keys: ClusterKeys) -> AnchorKey:
    """The key of this cluster that signs audit heads; of now, as :func:`origin_key`."""
    used = keys.purposes[SIGNED_BY[Purpose.AUDIT_HEAD]]
    chain = used.sign(Purpose.AUDIT_HEAD, b"").chain
    return AnchorKey(
        sign=lambda data: used.sign(Purpose.AUDIT_HEAD, data).signature,
        chain=chain,
        ends_at=used.ends_at,
        begins_at=used.begins_at,
    )


@define
class StateStartup:
    """How an Authority comes to go by the records of its store, before it does anything else."""

    store: IStore
    ledger: StateLedger
    anchor: StateAnchor
    keeper: StateKeeper
    recorder: Recorder
    request: StartupRequestFile[AdoptionRequest]

    async def begin(self) -> None:
        """Verify what came after the checkpoint; take over an older store where that was asked for.

        Raises:
            AuditBroken: ``state_rolled_back`` or ``state_broken``.
            NotAdopted: the store is older than these records.
        """
        await self.follow()
        if self.ledger.view.n == 0:
            await self._adopt_older()
        self.keeper.advanced()

    async def follow(self) -> None:
        """Verify what came after the checkpoint, and change nothing in the store.

        Raises:
            AuditBroken: ``state_rolled_back`` or ``state_broken``.
        """
        checkpoint, tip = self.anchor.checkpoint() or StateView(), self.anchor.tip()
        await self.store.read(
            "check the state anchor", lambda tx: check_anchor(tx.state, checkpoint, tip)
        )
        self.ledger.begin_from(checkpoint)
        self.keeper.went_on_from(checkpoint.n)
        await self._verify()

    async def _verify(self) -> None:
        """Go on to the newest record, some at a time: a store answers within its time."""

        def look(tx: ITransaction) -> list[VerifiedRecord]:
            return self.ledger.ahead(tx.state, self.ledger.view, BATCH)

        links = [await self.store.read("verify the records of state", look)]
        while self.ledger.install(links.pop()):
            links.append(await self.store.read("verify the records of state", look))

    async def _adopt_older(self) -> None:
        """An empty log is that of a new cluster; any other store has been somebody's."""
        request = self.request.read()

        def take(tx: ITransaction) -> bool:
            if tx.audit.head().seq == 0:
                return False
            adopt_requested(tx, self.recorder, request)
            return True

        if await self.store.run("take over an older store", take):
            self.request.done()
            await self._verify()
