"""``env``: what a shell sources so that tools find the resident's endpoints by themselves.

For any POSIX shell.  It adds to variables what they lack, so it may be sourced again at any time,
and takes nothing from what the person has set.  Calls block for the disk.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from svc import __version__
from svc.interfaces.kinds import IListedEndpoint
from svc.runtime import durable

NAME = "env"

_HEAD = f"""\
# Written by `svc up` of svc {__version__} whenever its endpoints change; edits are lost.
# In each shell that is open:  . ~/.svc/env
"""
_LIST = """\
case ":${{{variable}:={usual}}}:" in
*:{path}:*) ;;
*) {variable}=${variable}:{path} ;;
esac
export {variable}
"""
_SERVICES = """\
if [ -z "${{PGSERVICEFILE-}}" ] && [ ! -e "${{HOME-}}/.pg_service.conf" ]; then
    PGSERVICEFILE={path}
    export PGSERVICEFILE
fi
"""


@frozen
class ListedFile:
    """A file that tools are told of by a variable.

    Attributes:
        usual: What the tools read without the variable, below the home directory.
    """

    variable: str
    usual: str
    path: Path


def listed_files(
    state: Path, kinds: Mapping[str, object], endpoints: Iterable[tuple[str, str]]
) -> Iterator[ListedFile]:
    """Those of *endpoints*, each given as resource and kind.

    Args:
        kinds: The side of each kind that serves here, by the kind's name.
    """
    for resource, kind in endpoints:
        local = kinds[kind]
        if IListedEndpoint.providedBy(local):
            path = state / str(local.directory) / str(local.file_name(resource))
            yield ListedFile(local.variable, local.usual_file, path.absolute())


def write_environment(
    directory: Path, files: Iterable[ListedFile], services: Path | None = None
) -> None:
    """Put the file in place whole, readable by its owner alone.

    Args:
        services: The file of databases for libpq; None: there is no database.
    """
    lines = [_HEAD]
    for one in files:
        if _can_be_listed(one.path):
            lines.append(
                _LIST.format(
                    variable=one.variable,
                    usual=f"${{HOME-}}/{one.usual}",
                    path=shlex.quote(str(one.path)),
                )
            )
    if services is not None and str(services).isprintable():
        lines.append(_SERVICES.format(path=shlex.quote(str(services.absolute()))))
    durable.replace(directory / NAME, "".join(lines).encode("utf-8", "surrogateescape"))


def _can_be_listed(path: Path) -> bool:
    """A colon ends a path of such a list."""
    return str(path).isprintable() and ":" not in str(path)
