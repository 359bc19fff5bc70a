"""The audit keys that stand behind records of others, as an outsider reads them from the store."""

from __future__ import annotations

from attrs import define, field

from svc.audit.log.origins import OriginCheck
from svc.audit.state.in_force import BATCH, StateLedger
from svc.errors import AuditBroken, SvcError
from svc.interfaces.audit import OriginVerifier
from svc.interfaces.store import ITransaction
from svc.model.audit.spool import audit_key_id
from svc.model.audit.state import node_entry
from svc.model.cluster.node import Node
from svc.ops.store import StorePlace, why_unreadable
from svc.ops.verify.rows import batches


def check_origins(store: StorePlace, verify: OriginVerifier, last: int) -> int:
    """Check who wrote the first *last* records, where it was not the leader; how many there were.

    The chain over them has been verified.  Blocks.

    Raises:
        AuditBroken: naming the first record that its origin did not sign, or the record of
            state that does not verify.
    """

    def look(tx: ITransaction) -> int:
        check = OriginCheck(_SignedKeys(tx, verify))
        check.check(batches(tx.audit), last)
        return check.records

    return store.look("audit origins", look)


@define
class _SignedKeys:
    """Audit keys of nodes, as the signed records of one transaction say; read when first asked."""

    tx: ITransaction
    verify: OriginVerifier
    _nodes: dict[str, Node] | None = field(default=None, init=False)

    def __call__(self, origin: str, key_id: str) -> bytes | None:
        if self._nodes is None:
            try:
                self._nodes = self._read()
            except SvcError:
                raise
            except Exception as failed:
                # Whatever a damaged store answers is a fault of what stands behind the log.
                what = f"the rows of nodes and their records: unreadable: {why_unreadable(failed)}"
                raise AuditBroken(f"audit log: {what}") from failed
        node = self._nodes.get(origin)
        if node is None or audit_key_id(node.audit_key) != key_id:
            return None
        return node.audit_key

    def _read(self) -> dict[str, Node]:
        ledger = StateLedger(self.verify)
        while ledger.install(ledger.ahead(self.tx.state, ledger.view, BATCH)):
            pass
        seen, nodes = ledger.known(), {}
        for node in self.tx.nodes.all():
            signed = seen.get(f"node:{node.id}")
            if signed is not None and signed.digest == node_entry(node).digest:
                nodes[node.id] = node
        return nodes
