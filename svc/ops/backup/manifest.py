"""The manifest of a backup: what was taken together, and the digest of each part.

It is not encrypted, so that a copy can be checked on its way without the private key; it
names files and digests and holds no secret.  It decides nothing by itself: the same stamp is
inside each encrypted file, and what it says of them is compared with what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import asdict, frozen

from svc.errors import BackupBroken

FORM = "svc-backup-v1"
NAME = "manifest.json"
STORE, FILES = "store.jsonl.gz.age", "files.tar.age"
MAX_BYTES = 1 << 24
STOPPED, SNAPSHOT = "no writer", "one snapshot beside a writer"

_T = TypeVar("_T")


@frozen
class Stamp:
    """Which generation this is.

    Attributes:
        number: Counted by the Authority that made it, from 1.
        id: Random, in hex: two generations of one number are told apart.
        authority: Node id of the Authority whose state this is.
        authority_name: Its name among the Authorities; empty: an earlier svc made the backup.
    """

    number: int
    id: str
    cluster: str
    authority: str
    authority_name: str = ""

    @property
    def text(self) -> str:
        """For a person."""
        return f"generation {self.number} ({self.id[:8]}) of {self.authority} in {self.cluster}"


@frozen
class SealedFile:
    """An encrypted file as it lies there; ``sha256`` is in hex, as everywhere here."""

    size: int
    sha256: str


@frozen
class KeptFile:
    """One file in the backup. ``link`` is the target of a symbolic link, which has no content."""

    path: str
    sort: str
    size: int
    sha256: str
    mode: int
    link: str = ""


@frozen
class StoreFacts:
    """The copy of the store.

    Attributes:
        dialect: Which database it was copied from; it may be restored to another.
        level: The newest migration, and *migrations* how many there were.
        records: Of the audit log, and the hash of the last one.
        rows: How many each table has.
        size: Of the copy before it was compressed, and its digest.
    """

    dialect: str
    level: str
    migrations: int
    records: int
    last_hash: str
    rows: Mapping[str, int]
    size: int
    sha256: str


@frozen
class HeadFacts:
    """The newest signed head that was known."""

    tree_size: int
    root: str
    hash: str
    key_id: str


@frozen
class Manifest:
    """One generation.

    Attributes:
        created: When, in seconds since the epoch.
        moment: How the copy is consistent: ``STOPPED`` or ``SNAPSHOT``.
        recipients: The public keys it is encrypted to.
        sealed: The encrypted files by name.
        classes: What is said of each class.
    """

    stamp: Stamp
    created: float
    binary_version: str
    moment: str
    log_id: str
    ca_pin: str
    recipients: tuple[str, ...]
    store: StoreFacts
    head: HeadFacts | None
    sealed: Mapping[str, SealedFile]
    classes: Mapping[str, str]
    files: tuple[KeptFile, ...]


def to_json(manifest: Manifest) -> bytes:
    """The file's bytes."""
    return json.dumps({"form": FORM, **asdict(manifest)}, indent=1).encode() + b"\n"


def from_json(data: bytes) -> Manifest:
    """The manifest that :func:`to_json` wrote.

    Raises:
        BackupBroken: it is not of that form.
    """
    try:
        form = json.loads(data)
        if form["form"] != FORM:
            raise BackupBroken(f"{NAME}: has the format {form['form']!r} instead of {FORM}")
        return Manifest(
            stamp=_made(Stamp, form["stamp"]),
            created=float(form["created"]),
            binary_version=_text(form["binary_version"]),
            moment=_text(form["moment"]),
            log_id=_text(form["log_id"]),
            ca_pin=_text(form["ca_pin"]),
            recipients=tuple(_text(each) for each in form["recipients"]),
            store=_made(StoreFacts, form["store"]),
            head=None if form["head"] is None else _made(HeadFacts, form["head"]),
            sealed={name: _made(SealedFile, form["sealed"][name]) for name in (STORE, FILES)},
            classes={_text(word): _text(said) for word, said in form["classes"].items()},
            files=tuple(_made(KeptFile, each) for each in form["files"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BackupBroken(f"{NAME}: is malformed") from None


def stamp_of(form: object) -> Stamp:
    """The stamp inside an encrypted file.

    Raises:
        BackupBroken: it is malformed.
    """
    try:
        return _made(Stamp, form)
    except (ValueError, KeyError, TypeError):
        raise BackupBroken("backup: a file inside does not name its generation") from None


def _made(kind: type[_T], form: Any) -> _T:
    made = kind(**form)
    for name, value in form.items():
        wanted = {"str": str, "int": int, "float": float}.get(kind.__annotations__[name])
        if wanted is not None and type(value) is not wanted:
            raise TypeError(name)
    return made


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
