"""Recordings of sessions at a Connector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from svc.compose.reload.keys import ReloadableKeys
from svc.connector.identity import AuthorityIdentities
from svc.connector.recordings.buffers import BufferLimits, RecordingBuffers
from svc.connector.recordings.recorder import SessionRecorder, recorder_of
from svc.connector.recordings.uploads import RecordingUploads
from svc.model.session.grant import Grant
from svc.model.signing import Signed
from svc.runtime.context import Runtime
from svc.runtime.services import BackgroundTasks
from svc.runtime.threads import SerialThread
from svc.telemetry.metrics import Metrics

DIRECTORY = "recordings"
_LIMITS = ("buffer_max_bytes", "session_max_bytes", "command_max_bytes")


@frozen
class RecordingParts:
    """What records sessions, and what brings it to Authority."""

    recorder: Callable[[Grant, Signed], SessionRecorder]
    uploads: RecordingUploads


def recording_parts(
    *,
    runtime: Runtime,
    metrics: Metrics,
    reloads: ReloadableKeys,
    state: Path,
    tasks: BackgroundTasks,
    identities: AuthorityIdentities,
) -> RecordingParts:
    """Wire both."""
    reloads.read(*(f"recordings.{name}" for name in _LIMITS))

    def limits() -> BufferLimits:
        of = reloads.settings.recordings
        return BufferLimits(
            most=of.buffer_max_bytes,
            of_session=of.session_max_bytes,
            of_command=of.command_max_bytes,
        )

    thread = SerialThread("svc-recordings", runtime.reactor.callFromThread)
    buffers = RecordingBuffers(root=state / DIRECTORY, limits=limits, thread=thread)
    waiting = metrics.gauge("svc_connector_recordings_waiting")
    size = metrics.gauge("svc_connector_recordings_waiting_bytes")

    def told(count: int, held: int) -> None:
        waiting.set(count)
        size.set(held)

    uploads = RecordingUploads(
        buffers=buffers,
        put=identities.put_recording,
        clock=runtime.reactor,
        end_thread=thread.end,
        on_waiting=told,
    )
    return RecordingParts(recorder_of(buffers, runtime.reactor, runtime.now, tasks), uploads)
