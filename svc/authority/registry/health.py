"""Takes what nodes report of their own health, and writes it down together.

A Proxy brings the reports of its Connectors.  Each is signed by the node that it is about, so no
Proxy can make a node look well, or ill (rule R1).  What a node says of itself decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field
from twisted.logger import Logger

from svc.authority.state.cache import ClusterStateCache
from svc.errors import Denied, Fault, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.store import IStore, ITransaction
from svc.messages.health import HealthReceipt, RefusedReport, decode_health
from svc.model.cluster.health import STALE_SECS, NodeHealth
from svc.model.principal import NODE_ROLES
from svc.model.signing import Purpose, Signed, verify

WRITE_SECS = 5.0
"""Between two writes: what came meanwhile is one transaction."""

_log = Logger(namespace="svc_authority")


@define
class ReportedHealth:
    """See the module.

    Attributes:
        is_serving: Whether this Authority leads; nobody else writes.
    """

    cluster: str
    state_cache: ClusterStateCache
    verifier: IChainVerifier
    store: IStore
    now: Callable[[], float]
    is_serving: Callable[[], bool]
    _waiting: dict[str, NodeHealth] = field(factory=dict, init=False)
    # When the last report of each node was made, by its own clock.
    _made_at: dict[str, int] = field(factory=dict, init=False)
    _told: dict[str, str] = field(factory=dict, init=False)
    _unwritten: str = field(default="", init=False)
    """Why the last write failed; told once."""

    def take(self, reports: Sequence[Signed], brought_by: str) -> HealthReceipt:
        """Take each report that its node signed; one that is refused harms no other.

        Args:
            brought_by: Id of the node that sent them.
        """
        refused = []
        for index, signed in enumerate(reports):
            try:
                self._take(signed)
            except SvcError as refusal:
                refused.append(RefusedReport(index, refusal.reason))
                self._tell(brought_by, refusal)
        if not refused:
            self._told.pop(brought_by, None)
        return HealthReceipt(tuple(refused))

    async def write(self) -> None:
        """Write what has come since the last time; what the store does not take waits."""
        if not self._waiting or not self.is_serving():
            return
        coming, self._waiting = self._waiting, {}

        def put(tx: ITransaction) -> None:
            tx.health.put(coming.values())

        try:
            await self.store.run("health reports", put)
        except BaseException as failed:
            self._waiting = coming | self._waiting
            if not isinstance(failed, SvcError):
                raise
            if failed.reason != self._unwritten:
                _log.warn("health reports cannot be stored yet", reason=failed.reason)
            self._unwritten = failed.reason
        else:
            self._unwritten = ""

    def _take(self, signed: Signed) -> None:
        certificate = self.verifier.verify(signed.chain, NODE_ROLES)
        verify(certificate.public_key, Purpose.HEALTH_REPORT, signed.payload, signed.signature)
        node = self.state_cache.node(certificate.principal)
        report = decode_health(signed.payload)
        if (report.cluster, report.node_id) != (self.cluster, node.id):
            raise Denied("the health report is another node's", reason="health_report_refused")
        now = self.now()
        if abs(report.made_at_ms / 1000 - now) > STALE_SECS:
            raise SvcError(
                f"the health report of {node.name} was made at another time; its clock or "
                "Authority's is wrong, or a Proxy brings an old report",
                reason="health_report_old",
                fault=Fault.PRECONDITION,
            )
        if report.made_at_ms <= self._made_at.get(node.id, 0):
            return  # brought twice, as by two Proxies
        self._made_at[node.id] = report.made_at_ms
        self._waiting[node.id] = NodeHealth(
            node_id=node.id,
            at=now,
            version=report.version,
            worst=report.worst,
            failed=report.failed,
            warnings=report.warnings,
            found=report.found,
            clock_secs=round(report.made_at_ms / 1000 - now),
        )

    def _tell(self, brought_by: str, refusal: SvcError) -> None:
        """Once for each new reason: a node that is refused reports all the same."""
        if self._told.get(brought_by) == refusal.reason:
            return
        self._told[brought_by] = refusal.reason
        _log.warn(
            "a health report was refused",
            brought_by=brought_by,
            reason=refusal.reason,
            text=refusal.text,
        )
