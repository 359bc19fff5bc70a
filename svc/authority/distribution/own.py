"""This Authority as an owner: it keeps the roots that it was given, and gives its word on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define

from svc.authority.state.cache import ClusterStateCache
from svc.errors import Denied, Fault, SvcError
from svc.messages.forward import RootWord
from svc.model.audit.record import Actor
from svc.model.distribution import (
    DistributionRoot,
    RootShare,
    ack_text,
    newest,
    of_root,
    pending,
    root_digest,
)
from svc.model.signing import Purpose, sign
from svc.pki.distribution import RootFiles
from svc.pki.receiver import ReceiverCredential
from svc.runtime.threads import InThread


@define
class OwnRoots:
    """See the module.

    Attributes:
        loaded: Digest of the keys that this process has loaded.
        deliver: Brings a word to the leader, which may be this Authority; raises SvcError.
    """

    cluster: str
    credential: ReceiverCredential
    kept: RootFiles
    state_cache: ClusterStateCache
    loaded: Callable[[], bytes]
    in_thread: InThread
    deliver: Callable[[RootWord, Actor], Awaitable[object]]

    async def acknowledge(self, by: Actor) -> None:
        """Keep the prepared root, and sign that it is kept; return once the leader has stored that.

        Raises:
            SvcError: nothing is prepared, it is not sealed to us, or it was altered.
        """
        root, share = await self._prepared()
        material = newest(self.state_cache.state.key_sets.values())
        if material is None or material.digest != self.loaded():
            raise SvcError(
                f"{self.credential.owner} has not loaded material revision "
                f"{root.material_revision}; copy keys/ of an Authority whose REVISION is "
                f"{root.material_revision} here first: svc authority keys sync root status",
                reason="key_set_differs",
                fault=Fault.PRECONDITION,
            )
        secret = self.credential.open(share.share)
        if root_digest(self.cluster, root.epoch, secret) != root.digest:
            raise SvcError(
                f"root {root.epoch}: what was sealed to {self.credential.owner} is not this root; "
                "cancel it",
                reason="share_not_opened",
                fault=Fault.PRECONDITION,
            )
        # On our disk before our word is given.
        await self.in_thread(lambda: self.kept.keep(root.epoch, secret))
        await self._give(root, cancel=False, by=by)

    async def cancel(self, by: Actor) -> None:
        """Sign that the prepared root is given up.

        Raises:
            Denied: we are no owner of it.
        """
        root, _ = await self._prepared()
        await self._give(root, cancel=True, by=by)

    async def _prepared(self) -> tuple[DistributionRoot, RootShare]:
        state = await self.state_cache.refresh()
        root = pending(state.roots.values())
        if root is None:
            raise SvcError(
                "no root is prepared; see svc authority keys sync root status",
                reason="no_root_prepared",
                fault=Fault.PRECONDITION,
            )
        shares = of_root(root, state.root_shares.values())
        own = next((one for one in shares if one.owner == self.credential.owner), None)
        if own is None:
            raise Denied(
                f"{self.credential.owner} is no owner of root {root.epoch}, which is prepared",
                reason="not_an_owner",
            )
        return root, own

    async def _give(self, root: DistributionRoot, *, cancel: bool, by: Actor) -> None:
        owner, purpose = self.credential.owner, Purpose.ROOT_CANCEL if cancel else Purpose.ROOT_ACK
        signature = sign(self.credential.key, purpose, ack_text(self.cluster, root, owner))
        await self.deliver(
            RootWord(owner=owner, epoch=root.epoch, cancel=cancel, signature=signature, by=by.id),
            by,
        )
