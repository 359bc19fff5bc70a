"""The signed snapshot a Proxy decides by: verified, never older than the last, never stale.

Rule R15: past its validity, measured on the monotonic clock from when it was
heard, nothing is decided; a version never goes back, over restarts too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Denied, SvcError, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.messages.snapshot import Snapshot, SnapshotFrame, decode_snapshot
from svc.model.principal import Principal
from svc.model.signing import Purpose
from svc.policy.bundle import PolicyBundle, apply, decode_bundle, decode_delta, encode_bundle
from svc.policy.engine import CompiledPolicy

_log = Logger(namespace="svc_proxy")


class SnapshotRefused(Denied):
    """A snapshot that is not taken; the one before stays until it is too old."""

    reason = "snapshot_refused"


@frozen(order=True)
class Floor:
    """The newest state ever taken; nothing below it is taken again."""

    policy_version: int = 0
    entity_revision: int = 0
    issued_at_ms: int = 0


@define
class FloorFile:
    """Keeps the floor on disk, replaced whole."""

    path: Path

    def read(self) -> Floor:
        """The floor; nothing taken yet where there is no file.

        Raises:
            SvcError: the file cannot be read as what it is.
        """
        try:
            form = json.loads(self.path.read_text("utf-8"))
            return Floor(
                int(form["policy_version"]), int(form["entity_revision"]), int(form["issued_at_ms"])
            )
        except FileNotFoundError:
            return Floor()
        except (OSError, ValueError, KeyError, TypeError):
            raise SvcError(
                f"{self.path}: not readable as the snapshot floor; move it away to start anew",
                reason="snapshot_floor",
            ) from None

    def write(self, floor: Floor) -> None:
        """Replace the floor: write new, fsync, rename."""
        new = self.path.with_suffix(".new")
        with open(new, "w", encoding="utf-8") as out:
            json.dump(
                {
                    "policy_version": floor.policy_version,
                    "entity_revision": floor.entity_revision,
                    "issued_at_ms": floor.issued_at_ms,
                },
                out,
            )
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, self.path)


@define
class SnapshotHolder:
    """Takes frames, and gives the engine while it may be used.

    Attributes:
        compile: Makes the engine of a bundle off the reactor.
        changed: Called after a new engine is in place.
    """

    cluster: str
    verifier: IChainVerifier
    clock: IReactorTime
    now: Callable[[], float]
    floor_file: FloorFile
    compile: Callable[[PolicyBundle, CompiledPolicy | None], Awaitable[CompiledPolicy]]
    _floor: Floor = field(factory=Floor)
    _bundle: PolicyBundle | None = None
    _digest: bytes = b""
    _engine: CompiledPolicy | None = None
    _heard: float = 0.0
    _valid_secs: int = 0
    _revoked: frozenset[str] = frozenset()
    _told: list[Callable[[], object]] = field(factory=list)

    def load(self) -> None:
        """Read the floor; called before the first frame."""
        self._floor = self.floor_file.read()

    def on_change(self, told: Callable[[], object]) -> None:
        """Call *told* each time another engine is in place."""
        self._told.append(told)

    @property
    def digest(self) -> bytes:
        """Of the bundle held; what Authority is asked to go on from."""
        return self._digest

    @property
    def age(self) -> float:
        """Seconds since the last good frame, on the monotonic clock."""
        return self.clock.seconds() - self._heard

    def engine(self) -> CompiledPolicy:
        """The engine, while the snapshot is fresh.

        Raises:
            Unavailable: ``policy_stale``: there is none, or none fresh enough.
        """
        if self._engine is None or self.age > self._valid_secs:
            raise Unavailable(
                "this Proxy has no fresh policy from Authority; try again", reason="policy_stale"
            )
        return self._engine

    def check_not_revoked(self, principal: Principal) -> None:
        """Refuse a principal that Authority revoked.

        Raises:
            Denied: ``revoked``.
        """
        if principal.uri in self._revoked:
            raise Denied("this identity was revoked", reason="revoked")

    async def take(self, frame: SnapshotFrame) -> None:
        """Take one frame, or refuse it and stay as we are.

        Raises:
            SvcError: the frame is not Authority's, not for us, older, or broken.
        """
        self.verifier.verify_signed(frame.signed, Purpose.SNAPSHOT)
        snapshot = decode_snapshot(frame.signed.payload)
        self._check(snapshot)
        bundle = self._bundle_of(frame, snapshot)
        floor = Floor(snapshot.policy_version, snapshot.entity_revision, snapshot.issued_at_ms)
        if bundle is not None:
            engine = await self.compile(bundle, self._engine)
            self.floor_file.write(floor)
            self._bundle, self._engine, self._digest = bundle, engine, snapshot.bundle_sha256
            _log.info(
                "policy snapshot taken",
                version=snapshot.policy_version,
                revision=snapshot.entity_revision,
            )
        self._floor = floor
        self._heard, self._valid_secs = self.clock.seconds(), snapshot.valid_secs
        self._revoked = frozenset(one.principal for one in snapshot.revocations)
        if bundle is not None:
            for told in self._told:
                told()

    def _check(self, snapshot: Snapshot) -> None:
        if snapshot.cluster != self.cluster:
            raise SnapshotRefused("the snapshot is another cluster's", reason="snapshot_cluster")
        state = (snapshot.policy_version, snapshot.entity_revision)
        known = (self._floor.policy_version, self._floor.entity_revision)
        if state < known or snapshot.issued_at_ms < self._floor.issued_at_ms:
            raise SnapshotRefused(
                "the snapshot is older than one taken before", reason="snapshot_older"
            )
        if self.now() * 1000 - snapshot.issued_at_ms > snapshot.valid_secs * 1000:
            raise SnapshotRefused("the snapshot is past its time", reason="snapshot_expired")

    def _bundle_of(self, frame: SnapshotFrame, snapshot: Snapshot) -> PolicyBundle | None:
        if frame.bundle:
            data = frame.bundle
        elif frame.delta and self._bundle is not None:
            data = encode_bundle(apply(self._bundle, decode_delta(frame.delta)))
        elif snapshot.bundle_sha256 == self._digest:
            return None
        else:
            raise SnapshotRefused(
                "the snapshot's bundle is not held here", reason="snapshot_unknown_bundle"
            )
        if sha256(data).digest() != snapshot.bundle_sha256:
            raise SnapshotRefused(
                "the bundle is not the one that was signed", reason="snapshot_digest"
            )
        return decode_bundle(data)
