"""The audit log as an outsider reads it: from the store's file, the heads and the root alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen

from svc.audit.anchor import AnchorDirectory
from svc.audit.verify import Verified, verify
from svc.config import RoleSettings
from svc.interfaces.store import IStoreFactory, ITransaction
from svc.model.audit import chain_hash
from svc.model.ledger import ChainRow
from svc.model.signing import Purpose, Signed
from svc.pki.identity_store import IdentityStore
from svc.pki.verify import ChainVerifier
from svc.plugin import load

_BATCH = 512
_T = TypeVar("_T")


@frozen
class Log:
    """The log of the Authority that ``svc all`` with these settings runs; calls block."""

    settings: RoleSettings

    def verified(self) -> Verified:
        """Compute everything anew.

        Raises:
            AuditBroken: naming the first record that is not as it was.
        """
        state = Path(self.settings.state_dir) / "authority"
        root = IdentityStore(state).load_root()
        keeper = AnchorDirectory(state / "anchor")
        latest, heads = keeper.latest(), keeper.heads()

        def judge(signed: Signed, at: float) -> object:
            verifier = ChainVerifier(self.settings.cluster, root, lambda: at)
            return verifier.verify_signed(signed, Purpose.AUDIT_HEAD)

        def look(tx: ITransaction) -> Verified:
            return verify(
                _batches(tx),
                heads,
                judge,
                latest=latest,
                personal_of=tx.audit.personal,
                cluster=self.settings.cluster,
            )

        return self._look("audit verify", look)

    def decision(self, resource: str) -> dict[str, Any] | None:
        """The newest decision about a resource: the record, or None."""

        def look(tx: ITransaction) -> dict[str, Any] | None:
            for row in reversed(tx.audit.tail(_BATCH)):
                record: dict[str, Any] = json.loads(row.canonical)
                if "decision" in record and record.get("resource_id") == resource:
                    return record
            return None

        return self._look("find a decision", look)

    def _look(self, what: str, fn: Callable[[ITransaction], _T]) -> _T:
        place = self.settings.store_url
        assert place is not None  # the reading refuses a file without it
        (loaded,) = load(IStoreFactory, "store", [place.scheme])
        factory: Any = loaded.provider
        reading = factory.open_read_only(f"{place.scheme}://{place.rest}", chain_hash).read(
            what, fn
        )
        try:
            reading.send(None)
        except StopIteration as done:
            result: _T = done.value
            return result
        raise AssertionError("a read-only store answers at once")


def _batches(tx: ITransaction) -> Iterator[Sequence[ChainRow]]:
    after = 0
    while rows := tx.audit.rows(after + 1, _BATCH):
        yield rows
        after = rows[-1].seq
