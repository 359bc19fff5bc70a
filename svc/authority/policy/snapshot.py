"""Signs snapshots for Proxies and sends them: once whole, then changes and heartbeats.

One publisher serves every Proxy; a frame is signed once and shared.  A Proxy
that reads slowly is not waited for: it gets the newest state when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred

from svc.errors import LeaseLost
from svc.messages.snapshot import Revocation, Snapshot, SnapshotFrame, encode_snapshot
from svc.model.signing import Signed


@frozen
class Published:
    """One state of the bundle.

    Attributes:
        delta: From the bundle whose digest is ``parent``; empty when there is none.
    """

    bundle: bytes = field(repr=False)
    digest: bytes
    policy_version: int
    entity_revision: int
    revocations: tuple[Revocation, ...] = ()
    certificates: tuple[bytes, ...] = ()
    delta: bytes = field(default=b"", repr=False)
    parent: bytes = b""


@define
class SnapshotPublisher:
    """Keeps the newest signed snapshot and wakes those who wait for the next.

    Attributes:
        sign: Signs with the snapshot key.
        valid_secs: How long a Proxy may decide by one without a heartbeat (R15).
        epoch: Of the lease under which we sign; raises LeaseLost where we do not lead: what
            another Authority signs is newer, whatever our clock says.
        asked_ends: Gives the open sessions that an operator ends.
    """

    cluster: str
    sign: Callable[[bytes], Signed]
    now: Callable[[], float]
    valid_secs: int
    epoch: Callable[[], int]
    asked_ends: Callable[[], Mapping[str, str]] = dict
    published: Published | None = None
    _serial: int = 0
    _issued_at_ms: int = 0
    _signed: Signed | None = None
    _waiting: list[Deferred[None]] = field(factory=list)

    def publish(
        self,
        bundle: bytes,
        policy_version: int,
        entity_revision: int,
        revocations: tuple[Revocation, ...],
        delta: bytes = b"",
        certificates: tuple[bytes, ...] = (),
    ) -> None:
        """Put a new bundle in force; *delta* leads to it from the one before."""
        parent = b"" if self.published is None or not delta else self.published.digest
        self.published = Published(
            bundle=bundle,
            digest=sha256(bundle).digest(),
            policy_version=policy_version,
            entity_revision=entity_revision,
            revocations=revocations,
            certificates=certificates,
            delta=delta,
            parent=parent,
        )
        self.beat()

    def revoke(
        self, revocations: tuple[Revocation, ...], certificates: tuple[bytes, ...] = ()
    ) -> None:
        """Put other revocations in force with the bundle as it is."""
        if self.published is not None:
            self.published = evolve(
                self.published, revocations=revocations, certificates=certificates
            )
            self.beat()

    def beat(self) -> None:
        """Sign the current snapshot again and send it to every Proxy, if there is one.

        Nothing either while we do not lead: it is told with the first heartbeat after that.
        """
        if self.published is None:
            return
        try:
            self.sign_again()
        except LeaseLost:
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:  # one that wakes may have ended another
                each.callback(None)

    def sign_again(self) -> None:
        """Sign the current snapshot again with the current time, if there is one.

        For a Proxy that begins to follow.  Another Authority that led until now may have gone on
        signing, so what we signed last can be older than what the Proxy has, and be refused.

        Raises:
            LeaseLost: we do not lead; nothing is signed.
        """
        if self.published is None:
            return
        epoch = self.epoch()
        # Neither goes back with the host's clock: a Proxy takes nothing older than it has.
        self._issued_at_ms = max(self._issued_at_ms, int(self.now() * 1000))
        self._serial = max(self._serial + 1, self._issued_at_ms)
        snapshot = Snapshot(
            cluster=self.cluster,
            serial=self._serial,
            policy_version=self.published.policy_version,
            entity_revision=self.published.entity_revision,
            issued_at_ms=self._issued_at_ms,
            valid_secs=self.valid_secs,
            bundle_sha256=self.published.digest,
            revocations=self.published.revocations,
            revoked_certificates=frozenset(self.published.certificates),
            lease_epoch=epoch,
            asked_ends=dict(self.asked_ends()),
        )
        self._signed = self.sign(encode_snapshot(snapshot))

    def next(self) -> Deferred[None]:
        """Fires at the next publication or heartbeat."""
        waiting: Deferred[None] = Deferred(self._forget)
        self._waiting.append(waiting)
        return waiting

    def _forget(self, waiting: Deferred[None]) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    def frame(self, have: bytes) -> SnapshotFrame | None:
        """The newest snapshot for a Proxy that holds the bundle with digest *have*."""
        published, signed = self.published, self._signed
        if published is None or signed is None:
            return None
        if have == published.digest:
            return SnapshotFrame(signed)
        if published.delta and have == published.parent:
            return SnapshotFrame(signed, delta=published.delta)
        return SnapshotFrame(signed, bundle=published.bundle)
