"""The signed snapshot a Proxy decides by: verified, never older than the last, never stale.

Rule R15: past its validity nothing is decided; a version never goes back, over
restarts too.  Where the disk does not take how new the newest one is, what it takes
away holds at once, and nobody opens anything by it.  Age is measured on the monotonic
clock, from as long before its arrival as it was issued by our wall clock then: neither
a detour nor a step of that clock afterwards makes it younger.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from math import inf
from pathlib import Path

from attrs import asdict, define, field, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.audit.spool.refusals import disk_full
from svc.errors import Denied, SvcError, Unavailable
from svc.interfaces.identity import IChainVerifier
from svc.messages.snapshot import REVOCATIONS, Snapshot, SnapshotFrame, decode_snapshot
from svc.model.principal import Principal
from svc.model.session.ending import ENDINGS, REVOKED_CERTIFICATE
from svc.model.signing import Purpose
from svc.policy.bundle import PolicyBundle, apply, decode_bundle, decode_delta, encode_bundle
from svc.policy.claims import log_claims
from svc.policy.engine import CompiledPolicy
from svc.runtime import durable

_log = Logger(namespace="svc_proxy")


class SnapshotRefused(Denied):
    """A snapshot that is refused; the previous one stays until it is too old."""

    reason = "snapshot_refused"


MAX_VALID_SECS = 60
"""No snapshot is good for longer than this, whatever it says (rule R15)."""

LATE_SECS = 10.0
"""A snapshot that is so old when it comes was held up, or a clock is wrong."""

_AHEAD_SECS = 60.0
"""A snapshot from further in the future would raise the floor past all that follow."""


@frozen
class Floor:
    """The newest state ever accepted; nothing older is accepted again.

    ``serial`` counts every signature of an Authority's: it tells an older
    heartbeat, and so older revocations, of one version from a newer.  Each new leader begins
    an epoch, and counts by its own clock: what it signs comes after all of the epoch before.
    """

    policy_version: int = 0
    entity_revision: int = 0
    serial: int = 0
    lease_epoch: int = 0
    restoration: str = ""
    """The head by which the log went on from an older store, for which this was put back."""

    def is_above(self, other: Floor) -> bool:
        """Whether any part of *other* is older than this."""
        return (
            other.policy_version < self.policy_version
            or other.entity_revision < self.entity_revision
            or self.is_later_than(other)
        )

    def is_later_than(self, other: Floor) -> bool:
        """Whether this was signed after *other*; without both epochs the serials say."""
        if self.lease_epoch and other.lease_epoch and self.lease_epoch != other.lease_epoch:
            return self.lease_epoch > other.lease_epoch
        return self.serial > other.serial


@define
class FloorFile:
    """Keeps the floor on disk, replaced whole."""

    path: Path

    def read(self) -> Floor:
        """The stored floor; without a file, the floor of a Proxy that has accepted nothing.

        Raises:
            SvcError: the file cannot be read as what it is.
        """
        try:
            form = json.loads(self.path.read_text("utf-8"))
            return Floor(
                policy_version=int(form["policy_version"]),
                entity_revision=int(form["entity_revision"]),
                serial=int(form["serial"]),
                lease_epoch=int(form.get("lease_epoch", 0)),  # earlier builds knew none
                restoration=str(form.get("restoration", "")),
            )
        except FileNotFoundError:
            return Floor()
        except (OSError, ValueError, KeyError, TypeError):
            raise SvcError(
                f"{self.path}: it cannot be read as the snapshot floor; move it away to start "
                "without it",
                reason="snapshot_floor",
            ) from None

    def write(self, floor: Floor) -> None:
        """Replace the floor; a call that returned is not undone by a crash of the machine.

        Raises:
            OSError: it cannot be written; what it was stays.
        """
        durable.replace(self.path, json.dumps(asdict(floor)).encode())


@define
class SnapshotHolder:
    """Accepts snapshot frames, and provides the engine while it may be used.

    Invariant: the floor on disk is never behind what a new session is decided by.

    Attributes:
        compile: Makes the engine of a bundle off the reactor; it is given the
            engine in force where only the entities differ, else None.
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
    _issued: float = -inf
    _valid_secs: int = 0
    _revoked: Mapping[str, str] = field(factory=dict)
    _asked_ends: Mapping[str, str] = field(factory=dict)
    _certificates: frozenset[bytes] = frozenset()
    _is_late: bool = field(default=False, init=False)
    _is_untold: bool = field(default=False, init=False)
    _is_doubtful: bool = False
    _refusal: SvcError | None = field(default=None, init=False)
    _on_change: list[Callable[[], object]] = field(factory=list)

    def load(self) -> None:
        """Read the floor; called before the first frame."""
        self._floor = self.floor_file.read()

    def restored(self, restoration: str) -> None:
        """The log continues from an older store, by a signed record: keep only the serial.

        Once for each such head, which is told again and again.  Versions of policy and entities
        are those of that store, and epochs are counted in it.

        Raises:
            SvcError: the floor cannot be written; it stays.
        """
        if restoration == self._floor.restoration:
            return
        floor = Floor(serial=self._floor.serial, restoration=restoration)
        try:
            self.floor_file.write(floor)
        except OSError as e:
            raise SvcError(
                f"{self.floor_file.path}: it cannot be written: {e.strerror}",
                reason="snapshot_floor",
            ) from None
        self._floor, self._is_doubtful = floor, True

    def on_change(self, callback: Callable[[], object]) -> None:
        """Call *callback* each time the engine or the revocations change."""
        self._on_change.append(callback)

    @property
    def digest(self) -> bytes:
        """Of the bundle held; what Authority is asked to go on from.

        Empty after a change that did not fit: then all of it is sent again.
        """
        return b"" if self._is_doubtful else self._digest

    @property
    def age(self) -> float:
        """Seconds since the last good frame was issued, on the monotonic clock."""
        return self.clock.seconds() - self._issued

    @property
    def is_fresh(self) -> bool:
        """Whether there is a fresh policy to decide by."""
        return self._engine is not None and self.age < self._valid_secs

    def engine(self) -> CompiledPolicy:
        """The engine, while the snapshot is fresh.

        Raises:
            Unavailable: ``policy_stale``: there is none, or none fresh enough.
        """
        # Not by ``age``: it is asked for each request.
        if self._engine is None or self.clock.seconds() - self._issued >= self._valid_secs:
            raise Unavailable(
                "this Proxy has no fresh policy from Authority; try again", reason="policy_stale"
            )
        return self._engine

    def check_not_revoked(self, principal: Principal) -> None:
        """Refuse a principal that Authority revoked.

        Raises:
            Denied: one of ``REVOCATIONS``.
        """
        reason = self._revoked.get(principal.uri)
        if reason is not None:
            raise Denied(REVOCATIONS[reason], reason=reason)

    def check_person(
        self, person: Principal, certificate_sha256: bytes, session_uid: str = ""
    ) -> None:
        """Refuse a revoked person or certificate, and a session that an operator ends.

        Raises:
            Denied: with a word of ``REVOCATIONS`` or ``ENDINGS``.
        """
        self.check_not_revoked(person)
        if certificate_sha256 in self._certificates:
            raise Denied(REVOCATIONS[REVOKED_CERTIFICATE], reason=REVOKED_CERTIFICATE)
        reason = self._asked_ends.get(session_uid)
        if reason is not None:
            raise Denied(ENDINGS[reason], reason=reason)

    def check_kept(self) -> None:
        """Refuse new sessions while the floor is not on disk.

        Raises:
            SvcError: the disk did not take it; each frame tries again.
        """
        if self._refusal is not None:
            raise self._refusal

    async def take(self, frame: SnapshotFrame) -> None:
        """Take one frame, or refuse it and stay as we are.

        One whose floor cannot be kept is taken too, so that what it takes away is not put off:
        see :meth:`check_kept`.

        Raises:
            SvcError: the frame is not Authority's, not for us, older, or broken.
        """
        came = self.clock.seconds()
        self.verifier.verify_signed(frame.signed, Purpose.SNAPSHOT)
        snapshot = decode_snapshot(frame.signed.payload)
        waited = max(0.0, self.now() - snapshot.issued_at_ms / 1000)
        before, floor = self._floor, self._checked(snapshot)
        bundle = self._bundle_of(frame, snapshot)
        revoked = {one.principal: one.reason for one in snapshot.revocations}
        is_new = self._take_ended(snapshot) or bundle is not None or revoked != self._revoked
        # Also by a later frame, where this one comes to nothing after all.
        self._is_untold = is_new = is_new or self._is_untold
        if bundle is not None:
            base = self._base(bundle)
            engine = await self.compile(bundle, base)
            if self._floor is not before:  # an older store was put back meanwhile
                floor = self._checked(snapshot)
            self._bundle, self._engine, self._digest = bundle, engine, snapshot.bundle_sha256
            self._is_doubtful = False
            _log.info(
                "policy snapshot taken",
                version=snapshot.policy_version,
                revision=snapshot.entity_revision,
            )
            if base is None:
                log_claims(engine.version, engine.claims)
        if floor.is_later_than(self._floor) or not self._valid_secs:
            # One that was taken before makes nothing younger; and a newer one is of no earlier
            # moment than that, though our wall clock was set forward meanwhile.
            self._issued = max(self._issued, came - waited)
            self._say_if_late(waited)
            self._valid_secs = min(snapshot.valid_secs, MAX_VALID_SECS)
        self._floor = floor
        # Nobody is given back before the floor is kept: a restart would forget that it was so.
        self._revoked = {**self._revoked, **revoked}
        try:
            if is_new:
                for callback in self._on_change:
                    callback()
                self._is_untold = False
        finally:
            if is_new or self._refusal is not None:
                self._keep(floor)
            if self._refusal is None:
                self._revoked = revoked

    def _take_ended(self, snapshot: Snapshot) -> bool:
        """Take which sessions and certificates are at an end; whether that is news."""
        before = self._asked_ends, self._certificates
        self._asked_ends = snapshot.asked_ends
        self._certificates = snapshot.revoked_certificates
        return before != (self._asked_ends, self._certificates)

    def _keep(self, floor: Floor) -> None:
        try:
            self.floor_file.write(floor)
        except OSError as e:
            self._not_kept(e)
            return
        if self._refusal is not None:
            _log.info("the snapshot floor can be stored again")
        self._refusal = None

    def _not_kept(self, error: OSError) -> None:
        if self._refusal is None:
            _log.error(
                "the snapshot floor cannot be stored, so no session can open",
                reason=error.strerror or str(error),
                file=str(self.floor_file.path),
            )
        if durable.is_full(error):
            self._refusal = disk_full()
        else:
            self._refusal = Unavailable(
                "the Proxy cannot store the version of its policy, so no session can open",
                reason="snapshot_floor",
            )

    def _say_if_late(self, waited: float) -> None:
        """Once for each time that it begins: heartbeats would say it every few seconds."""
        was_late, self._is_late = self._is_late, waited > LATE_SECS
        if self._is_late and not was_late:
            _log.warn(
                "policy snapshots are already old on arrival; compare the clocks of this host "
                "and of Authority",
                seconds=round(waited, 1),
            )

    def _checked(self, snapshot: Snapshot) -> Floor:
        if snapshot.cluster != self.cluster:
            raise SnapshotRefused(
                "the snapshot belongs to another cluster", reason="snapshot_cluster"
            )
        floor = Floor(
            policy_version=snapshot.policy_version,
            entity_revision=snapshot.entity_revision,
            serial=snapshot.serial,
            lease_epoch=snapshot.lease_epoch or self._floor.lease_epoch,
            restoration=self._floor.restoration,
        )
        if self._floor.is_above(floor):
            raise SnapshotRefused(
                "the snapshot is older than one that was accepted before", reason="snapshot_older"
            )
        age = self.now() - snapshot.issued_at_ms / 1000
        if age > min(snapshot.valid_secs, MAX_VALID_SECS):
            raise SnapshotRefused("the snapshot has expired", reason="snapshot_expired")
        if age < -_AHEAD_SECS:
            raise SnapshotRefused(
                "the snapshot's time is in the future; compare the clocks of Authority and Proxy",
                reason="snapshot_ahead",
            )
        return floor

    def _base(self, bundle: PolicyBundle) -> CompiledPolicy | None:
        """The engine in force, if only the entities differ."""
        held = self._bundle
        if held is None or (held.policy_version, held.terms, held.policy_text) != (
            bundle.policy_version,
            bundle.terms,
            bundle.policy_text,
        ):
            return None
        return self._engine

    def _bundle_of(self, frame: SnapshotFrame, snapshot: Snapshot) -> PolicyBundle | None:
        """The bundle a frame brings; None where the one held is meant."""
        if not frame.bundle and snapshot.bundle_sha256 == self._digest:
            return None
        self._is_doubtful = True  # until it is taken
        if frame.bundle:
            _check_digest(frame.bundle, snapshot)
            bundle = decode_bundle(frame.bundle)
        else:
            bundle = self._changed(frame)
            _check_digest(encode_bundle(bundle), snapshot)
        current = (bundle.policy_version, bundle.entity_revision)
        if current != (snapshot.policy_version, snapshot.entity_revision):
            raise SnapshotRefused(
                "the bundle has a different version from the one that was signed",
                reason="snapshot_digest",
            )
        return bundle

    def _changed(self, frame: SnapshotFrame) -> PolicyBundle:
        """The bundle held, after the change that a frame brings."""
        if frame.delta and self._bundle is not None:
            return apply(self._bundle, decode_delta(frame.delta))
        raise SnapshotRefused(
            "the snapshot refers to a bundle that this Proxy does not have",
            reason="snapshot_unknown_bundle",
        )


def _check_digest(data: bytes, snapshot: Snapshot) -> None:
    if sha256(data).digest() != snapshot.bundle_sha256:
        raise SnapshotRefused(
            "the bundle differs from the one that was signed", reason="snapshot_digest"
        )
