"""What belongs to a backup, by the classes of the upgrade contract, and which file is of which.

A backup lists every class: that it is there, that it is inside the store, that there is none, or
that the build that made it has no such thing.  A file of the state directory that no class knows
is kept as ``state``, so nothing is left out because nobody thought of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from attrs import frozen

from svc.errors import BackupBroken

PRESENT, IN_STORE, ABSENT, NONE = "present", "in the store", "absent", "none in this build"


@frozen
class BackupClass:
    """One class.

    Attributes:
        files: A pattern over paths in the archive; None where it never is a file of its own.
        otherwise: What the manifest says where there is no such file; None: one must be there.
    """

    word: str
    files: re.Pattern[str] | None
    otherwise: str | None


def _class(word: str, files: str | None, otherwise: str | None) -> BackupClass:
    pattern = None if files is None else re.compile(rf"state/(?:\w+/)?{files}|{files}")
    return BackupClass(word, pattern, otherwise)


CLASSES: tuple[BackupClass, ...] = (
    _class("store", None, PRESENT),
    _class("policy", None, IN_STORE),
    _class("inventory", None, IN_STORE),
    _class("revocation", r"keys/revocation\..*", IN_STORE),
    _class("audit-anchor", r"anchor/.*", ABSENT),
    _class("approval", r"keys/approval\..*", IN_STORE),
    _class("delegation", r"keys/delegation\..*", IN_STORE),
    _class("audit-and-control-keys", r"keys/(?:anchor|audit-origin|grant|snapshot|jwt)\..*", None),
    _class("ca-keys", r"keys/.*", None),
    _class("identity", r"identity/.*", None),
    _class("transport-trust", r"trust/.*", None),
    _class("configuration", r"configuration/.*\.toml", None),
    _class("environment", r"configuration/environment\.json", ABSENT),
    _class("audit-outbox", r"(?:outbox|spool)/.*", ABSENT),
    _class("snapshot-cache", r"snapshot/.*", ABSENT),
    _class("recording-buffers", r"recordings?/.*", ABSENT),
    _class("activation-state", None, IN_STORE),
    _class("distribution-root", r"distribution/.*", ABSENT),
    _class("install-journal", None, NONE),
    _class("receiver-credential", r"receiver\.key", ABSENT),
    _class("service-definitions", None, NONE),
    _class("state", r".*", ABSENT),
)
"""In the order in which they are asked: the first whose pattern fits has the file."""


def class_of(path: str) -> str:
    """The class of a file by its path in the archive."""
    return next(
        each.word for each in CLASSES if each.files is not None and each.files.fullmatch(path)
    )


def is_consistent(classes: Mapping[str, str], found: Collection[str]) -> bool:
    """Whether a manifest lists every class, and as present those that have files, and no others.

    What it says of another class was true of the build that made it.

    Raises:
        BackupBroken: one that must be there has no file.
    """
    present = {word for word, standing in standings(found).items() if standing == PRESENT}
    listed = {word for word, standing in classes.items() if standing == PRESENT}
    return listed == present and set(classes) == {each.word for each in CLASSES}


def standings(found: Collection[str]) -> Mapping[str, str]:
    """What a manifest says of every class, given those that have files.

    Raises:
        BackupBroken: one that must be there has none.
    """
    result: dict[str, str] = {}
    for each in CLASSES:
        standing = PRESENT if each.word in found else each.otherwise
        if standing is None:
            raise BackupBroken(
                f"backup: class {each.word}: the backup has no file of this class",
                reason="backup_incomplete",
            )
        result[each.word] = standing
    return result
