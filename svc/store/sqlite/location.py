"""The path of a SQLite store, and whether it is private to us.

``sqlite:///absolute/path.db`` is the only form: three slashes and a relative
meaning, as elsewhere, would put a store wherever the process was started.
"""

from __future__ import annotations

import os
import stat
from urllib.parse import quote

from svc.errors import ConfigError, StoreUnavailable

SCHEME = "sqlite"
_KEY = "store_url"


def store_path(url: str) -> str:
    """The file a URL names; looks at its form only.

    Raises:
        ConfigError: the URL is of another form.  It is not shown: another
            scheme's URL may hold a password.
    """
    scheme, colon, rest = url.partition(":")
    if not colon or scheme != SCHEME:
        raise ConfigError(_KEY, "this is not a SQLite URL; write sqlite:///absolute/path.db")
    if not rest.startswith("///"):
        raise ConfigError(_KEY, "the path is not absolute; write sqlite:///absolute/path.db")
    path = rest[2:]
    if "?" in path or "#" in path or "\0" in path:
        raise ConfigError(_KEY, "a SQLite URL may not contain '?', '#' or NUL")
    if path.endswith("/") or os.path.basename(path) in (".", ".."):
        raise ConfigError(_KEY, "the path names a directory; write sqlite:///absolute/path.db")
    return path


def lock_path(path: str) -> str:
    """The lock file of a store."""
    return path + ".lock"


def file_uri(path: str, query: str) -> str:
    """The path as SQLite's own URI, with open flags in *query*."""
    return f"file:{quote(path)}?{query}"


def require_private(path: str) -> None:
    """Refuse a directory or file that others may write to, or a file they may read.

    Raises:
        ConfigError: naming what is open to whom, and the command that closes it.
    """
    directory = os.path.dirname(path)
    try:
        found = os.stat(directory)
    except OSError as error:
        raise ConfigError(_KEY, f"directory {directory}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(_KEY, f"{directory} is not a directory")
    if found.st_uid != os.geteuid():
        raise ConfigError(_KEY, f"directory {directory} belongs to another user")
    if found.st_mode & 0o022:
        raise ConfigError(_KEY, f"others may write to {directory}; run: chmod go-w {directory}")
    if os.path.exists(path):
        _require_private_file(path)


def _require_private_file(path: str) -> None:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(_KEY, f"{path} is not a file")
    if found.st_uid != os.geteuid():
        raise ConfigError(_KEY, f"{path} belongs to another user")
    if found.st_mode & 0o077:
        raise ConfigError(_KEY, f"others may read or write {path}; run: chmod 600 {path}")


def create_private(path: str) -> None:
    """Make an empty store file only we can read, unless there is one.

    SQLite gives its ``-wal`` and ``-shm`` files the mode of this one.

    Raises:
        StoreUnavailable: the file system refuses.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"store: cannot write {path}: {error.strerror}") from None
