"""The files of what is written ahead, as they are written and read: a note or a request a frame.

A note is of the file itself; its number is 0.  A request has its number in the order of writing.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from attrs import frozen

from svc.audit.spool.framing import HEAD_BYTES, Damaged, Framed, frames
from svc.model.audit.hidden import said_bytes, salted_text
from svc.model.audit.plain_json import quoted, write_plain
from svc.model.audit.request import SealedRequest, SessionNumbers


@frozen
class WrittenRequest:
    """A request as a file holds it.

    Attributes:
        at: Its place in the order of writing.
        first: That of the first one that was written with it.
        end: The byte after it.
        session_n: Its number among the requests of its session.
        sealed: Its ``numbers`` are its own, and name the session alone.
    """

    at: int
    first: int
    end: int
    session_n: int
    sealed: SealedRequest

    @classmethod
    def of(cls, found: Framed) -> WrittenRequest:
        """What :func:`request_text` wrote: the frame's checksum says that it is unchanged."""
        text = found.payload.decode()
        values: list[Any]
        if text[:1] == "[":  # as builds before ADR 84 wrote it
            form: Any = json.loads(text)
            first, uid, n, version, digest, type_, decision_id, size, before, after, values = form
        else:
            about, before, after, said = text.split("\n")
            numbers, digest, decision_id, uid, named = about.split(" ", 4)
            first, n, version, size = map(int, numbers.split(","))
            type_, values = json.loads(named), json.loads(said)
        sealed = SealedRequest(
            numbers=SessionNumbers(uid),
            common=(version, digest, type_),
            decision_id=decision_id,
            before=before,
            after=after,
            values=[salted_text(path, bytes.fromhex(salt), value) for path, salt, value in values],
            size=size,
            beside=sum([said_bytes(path, quoted(value)) for path, _, value in values]),
        )
        return cls(at=found.n, first=first, end=found.end, session_n=n, sealed=sealed)


@frozen
class AheadContents:
    """What a file of a former life holds.

    Attributes:
        origin: Empty where not even that can be read.
        cuts: Of files before it: their names, and how many bytes of each count.
        in_rows: All requests up to this one in the order of writing are in rows.
    """

    name: str
    origin: str
    cuts: list[Any]
    in_rows: int
    requests: list[WrittenRequest]
    is_damaged: bool

    @classmethod
    def of(cls, path: Path) -> AheadContents:
        """Read it.  Raises OSError."""
        data = path.read_bytes()
        found = list(frames(data))
        # Bytes at the end that are no whole request were never acknowledged.
        while found and not isinstance(found[-1], Framed):
            found.pop()
        whole = [one for one in found if isinstance(one, Framed)]
        notes = [json.loads(one.payload) for one in whole if not one.n]
        return cls(
            name=path.name,
            origin=notes[0]["origin"] if notes and "origin" in notes[0] else "",
            cuts=[cut for note in notes for cut in note.get("cuts", ())],
            in_rows=max((note.get("in_rows", 0) for note in notes), default=0),
            requests=[WrittenRequest.of(one) for one in whole if one.n],
            is_damaged=any(
                isinstance(one, Damaged) and b"\0" not in data[one.begin + HEAD_BYTES : one.end]
                for one in found
            ),
        )


def acknowledged(requests: list[WrittenRequest], after: int) -> list[WrittenRequest]:
    """Without those that follow a gap in the last write: it never returned, so none of it passed.

    A power cut leaves any part of what was not synced.

    Args:
        after: All up to this one are in rows.
    """
    first = max((one.first for one in requests), default=0)
    due, kept = max(first, after + 1), list[WrittenRequest]()
    for one in requests:
        if one.first == first:
            if one.at != due:
                break
            due += 1
        kept.append(one)
    return kept


def request_text(one: SealedRequest, n: int, first: int) -> bytes:
    """Its parts in lines: canonical JSON has no line break in it.

    Within a list each part would be written as a JSON text, for each request.
    """
    version, digest, type_ = one.common
    values = f"[{'],['.join(one.values)}]" if one.values else ""
    return (
        f"{first},{n},{version},{one.size} {digest} {one.decision_id} {one.numbers.session_uid} "
        f"{_quoted(type_)}\n{one.before}\n{one.after}\n[{values}]"
    ).encode()


_quoted = lru_cache(256)(write_plain)
"""Types of resources are few."""


def note_text(form: Any) -> bytes:
    """A note."""
    return write_plain(form).encode()
