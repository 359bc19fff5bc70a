"""``svc authority recordings``: what sessions recorded, for operators."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import click

from svc.cli.calls import Admin
from svc.cli.control import admin, authority_settings, authority_state
from svc.cli.forms import WORD, reason_option
from svc.cli.groups import Group
from svc.cli.output import json_option, moment, pairs, print_list, print_result
from svc.cli.playback import Playback
from svc.errors import Fault, SvcError
from svc.model.recording import ASCIICAST, RecordingState
from svc.proto.gate.v1 import recording_pb2 as pb

_COPY = (
    "copy recording.key and all recording-*.key to keys/ of every other Authority, and make a new "
    "backup; until an Authority has the key, recordings wait at their Connectors"
)

_id = click.argument("recording", metavar="RECORDING", type=WORD)


@click.group(cls=Group)
def recordings() -> None:
    """List, show, play, export and remove recordings of sessions; renew their key."""


@recordings.command("list")
@click.option("--session", type=WORD, metavar="ID", help="Of a session; a prefix is enough.")
@click.option("--person", type=WORD, metavar="P", help="Of a person, by name or id.")
@click.option("--resource", type=WORD, metavar="ID", help="Of sessions to a resource.")
@click.option(
    "--state",
    type=click.Choice([one.value for one in RecordingState]),
    help="Only those in this state.",
)
@click.option(
    "--last", type=click.IntRange(1, 1000), default=100, metavar="N", help="At most N; 100."
)
@json_option
@click.pass_context
def list_recordings(
    context: click.Context,
    session: str | None,
    person: str | None,
    resource: str | None,
    state: str | None,
    last: int,
    as_json: bool,
) -> None:
    """List recordings, newest first.

    STATE is receiving, complete, cut_short (something ended it early), damaged (the file is not
    what its Connector wrote) or lost (the rest of it did not arrive in time).

    Example:
        svc --config authority.toml authority recordings list --person ada
    """
    request = pb.ListRecordingsRequest(
        session=session or "",
        person=person or "",
        resource=resource or "",
        state=state or "",
        most=last,
    )
    answer = admin(context)("ListRecordings", request, pb.ListRecordingsResponse)
    rows = [
        [
            row.id,
            row.person or row.person_id,
            row.resource,
            moment(row.began_ms / 1000),
            f"{row.duration_ms / 1000:.1f}s",
            row.size,
            row.state,
        ]
        for row in answer.recordings
    ]
    heads = ["RECORDING", "PERSON", "RESOURCE", "BEGAN", "LENGTH", "SIZE", "STATE"]
    print_list(as_json, [_recording(row) for row in answer.recordings], heads, rows)


@recordings.command("show")
@_id
@json_option
@click.pass_context
def show(context: click.Context, recording: str, as_json: bool) -> None:
    """Show what is known of a recording, but nothing of what is in it.

    RECORDING is an id as `recordings list` shows it, or its beginning, where that names one.
    """
    request = pb.ListRecordingsRequest(session=recording.partition("-")[0], most=1000)
    answer = admin(context)("ListRecordings", request, pb.ListRecordingsResponse)
    found = [row for row in answer.recordings if row.id == recording]
    found = found or [row for row in answer.recordings if row.id.startswith(recording)]
    if len(found) != 1:
        what = "there is none" if not found else "there are several"
        raise SvcError(
            f"recording {recording}: {what} whose id begins so; list them: svc authority "
            "recordings list",
            reason="unknown_recording",
            fault=Fault.NOT_FOUND,
        )
    said = _recording(found[0])
    print_result(as_json, said, pairs(said.items()))


@recordings.command("export")
@_id
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    metavar="FILE",
    help="The file to be made; - for stdout.",
)
@json_option
@click.pass_context
def export(context: click.Context, recording: str, out: Path, as_json: bool) -> None:
    """Write a recording to a file: asciicast v2 of a terminal or command, else JSON lines.

    That it was read is on record.  The SHA-256 of the file is that of the record
    recording.delivered; where it is not, the command fails.

    Example:
        svc --config authority.toml authority recordings export 0f3c5b8e --out session.cast
    """
    if str(out) == "-":
        if as_json:
            raise click.UsageError("--json: not with --out -, which is the recording itself")
        _written(admin(context), recording, sys.stdout.buffer.write)
        sys.stdout.flush()
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(out, flags, 0o600)
    except OSError as error:
        raise click.UsageError(f"--out: {out}: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            row = _written(admin(context), recording, file.write)
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    print_result(
        as_json, {**_recording(row), "path": str(out)}, [f"{row.id}: {out}", f"state: {row.state}"]
    )


@recordings.command("play")
@_id
@click.option(
    "--speed",
    type=click.FloatRange(0.01, 1000),
    default=1.0,
    metavar="X",
    help="So many times as fast.",
)
@click.option(
    "--idle",
    type=click.FloatRange(0),
    default=2.0,
    metavar="SECS",
    help="The longest pause; 0: no pauses at all.",
)
@click.pass_context
def play(context: click.Context, recording: str, speed: float, idle: float) -> None:
    """Print a recording to the terminal as it happened.

    Only text, colours and movements of the cursor reach the terminal: what could do more to it,
    such as set its clipboard, is left out.  That the recording was read is on record.
    """
    playback = Playback(speed=speed, idle=idle, wait=_wait)
    parts = _parts(admin(context), recording)
    row = next(parts)
    assert isinstance(row, pb.RecordingRow)
    try:
        for part in parts:
            assert isinstance(part, bytes)
            for text in playback.heard(part, is_cast=row.form in ("", ASCIICAST)):
                sys.stdout.write(text)
                sys.stdout.flush()
    finally:
        sys.stdout.write(playback.reset())
        sys.stdout.flush()
    if row.state != RecordingState.COMPLETE.value:
        click.echo(f"svc: the recording is {row.state} ({row.reason or 'no reason'})", err=True)


@recordings.command("rotate-key")
@json_option
@click.pass_context
def rotate_key(context: click.Context, as_json: bool) -> None:
    """Make a new key, which recordings of new sessions are sealed to.

    It is written to keys/recording.key of this Authority.  Keys of before are kept beside it, so
    every recording stays readable.  The Authority may run or not; a running one takes the new
    key at its next reload pass.  Sessions that are open go on with the key that they began with.
    Refused while rotation is paused.
    """
    from svc.authority.recordings.key import file_of, rotate_recording_key
    from svc.ops.rotation import require_rotation

    settings = authority_settings(context)
    require_rotation(settings)
    directory = authority_state(settings) / "keys"
    try:
        made = rotate_recording_key(directory, os.urandom)
    except OSError as error:
        raise SvcError(
            f"{directory}: the new key cannot be written: {error.strerror}; the key in use stays",
            reason="recording_key",
        ) from None
    print_result(
        as_json,
        {"key_sha256": made.sha256, "path": str(directory / file_of(made.public))},
        [f"made a new key for recordings; SHA-256 of its public half: {made.sha256}"],
        [_COPY],
    )


@recordings.command("remove")
@_id
@reason_option
@json_option
@click.pass_context
def remove(context: click.Context, recording: str, reason: str | None, as_json: bool) -> None:
    """Remove a recording for good; that it was there stays on record."""
    request = pb.RemoveRecordingRequest(id=recording, note=reason or "")
    answer = admin(context)("RemoveRecording", request, pb.RemoveRecordingResponse)
    print_result(as_json, {"id": answer.id}, [f"{answer.id}: removed"])


def _parts(ask: Admin, recording: str) -> Iterator[pb.RecordingRow | bytes]:
    """What is known of it, then what was recorded, part by part."""
    answer = ask("ReadRecording", pb.ReadRecordingRequest(id=recording), pb.ReadRecordingResponse)
    row = answer.recording
    yield row
    yield answer.data
    while answer.next:
        request = pb.ReadRecordingRequest(id=row.id, offset=answer.next)
        answer = ask("ReadRecording", request, pb.ReadRecordingResponse)
        yield answer.data


def _written(ask: Admin, recording: str, write: Callable[[bytes], Any]) -> pb.RecordingRow:
    parts, digest = _parts(ask, recording), sha256()
    row = next(parts)
    assert isinstance(row, pb.RecordingRow)
    for part in parts:
        assert isinstance(part, bytes)
        digest.update(part)
        write(part)
    if row.sha256 and digest.hexdigest() != row.sha256:
        raise SvcError(
            f"recording {row.id}: what came is not what was recorded: SHA-256 "
            f"{digest.hexdigest()}, recorded {row.sha256}",
            reason="recording_damaged",
        )
    return row


def _recording(row: pb.RecordingRow) -> dict[str, object]:
    return {
        "id": row.id,
        "session_uid": row.session_uid,
        "person_id": row.person_id,
        "name": row.person or None,
        "resource": row.resource,
        "kind": row.kind,
        "connector_id": row.connector_id,
        "decision_id": row.decision_id,
        "started_at": moment(row.began_ms / 1000),
        "state": row.state,
        "reason": row.reason or None,
        "recorded_as": row.form or None,
        "size": row.size,
        "secs": row.duration_ms / 1000,
        "sha256": row.sha256 or None,
        "sealed_size": row.sealed_size,
        "sealed_sha256": row.sealed_sha256 or None,
    }


def _wait(seconds: float) -> None:
    Event().wait(seconds)
