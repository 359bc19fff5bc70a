"""Recordings of sessions at an Authority."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from svc.authority.limits import AskRates
from svc.authority.recordings.admin import RecordingAdmin
from svc.authority.recordings.expiry import LOOK_SECS, RecordingExpiry
from svc.authority.recordings.files import RecordingFiles
from svc.authority.recordings.key import (
    RecordingKeyRotation,
    load_recording_keys,
    read_recording_keys,
)
from svc.authority.recordings.receive import RecordingReceiver
from svc.authority.state.cache import ClusterStateCache
from svc.compose.authority.parts import Parts
from svc.interfaces.recordings import IRecordingStore
from svc.runtime.services import PeriodicTask
from svc.runtime.threads import InThread, in_pool

DIRECTORY = "recordings"
"""In the state directory, where no other is configured."""


@frozen
class RecordingWiring:
    """Who takes them, who answers operators, and what ends them."""

    keys: RecordingKeyRotation
    receiver: RecordingReceiver
    admin: RecordingAdmin
    expiring: PeriodicTask


def recording_wiring(p: Parts, state_cache: ClusterStateCache, rates: AskRates) -> RecordingWiring:
    """Wire it; blocks for the keys."""
    settings, now = p.settings.recordings, p.runtime.now
    recordings = RecordingFiles(Path(settings.directory or p.state / DIRECTORY))
    directory, in_thread = p.state / "keys", in_pool(p.runtime.reactor)
    keys = RecordingKeyRotation(
        load_recording_keys(directory, p.runtime.entropy),
        read=lambda: read_recording_keys(directory),
        in_thread=in_thread,
        is_paused=lambda: state_cache.state.pause is not None,
    )
    receiver = RecordingReceiver(
        cluster=p.settings.cluster,
        state_cache=state_cache,
        verifier=p.identity.verifier,
        store=p.store,
        recorder=p.recorder,
        recordings=recordings,
        keys=lambda: keys.keys,
        most=settings.max_bytes,
        now=now,
        in_thread=in_thread,
        on_end=lambda state: p.metrics.counter("svc_recordings_ended_total", state=state).inc(),
        asks=rates.identities,
    )
    admin = RecordingAdmin(
        store=p.store,
        recorder=p.recorder,
        recordings=recordings,
        keys=lambda: keys.keys,
        in_thread=in_thread,
        now=now,
    )
    return RecordingWiring(
        keys=keys,
        receiver=receiver,
        admin=admin,
        expiring=_expiring(p, recordings, in_thread),
    )


def _expiring(p: Parts, recordings: IRecordingStore, in_thread: InThread) -> PeriodicTask:
    settings = p.settings.recordings
    expiry = RecordingExpiry(
        me=p.identity.principal.id,
        store=p.store,
        recorder=p.recorder,
        recordings=recordings,
        in_thread=in_thread,
        now=p.runtime.now,
        leads=lambda: p.serving.is_on,
        lost_after=settings.lost_after_secs,
        keep_days=settings.keep_days,
        counted=lambda state, count: p.metrics.gauge("svc_recordings", state=state).set(count),
    )
    return PeriodicTask(
        clock=p.runtime.reactor,
        interval=min(LOOK_SECS, settings.lost_after_secs),
        call=expiry.look,
        what="look for recordings that ended",
        at_once=False,
    )
