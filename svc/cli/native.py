"""``svc open``, ``svc db`` and ``svc kubeconfig``: the person's own tools on local endpoints."""

from __future__ import annotations

import os
import shlex
import shutil
import webbrowser
from pathlib import Path
from typing import Any

import click

from svc.cli import Globals
from svc.cli.directory import own_directory_option
from svc.cli.output import hint
from svc.cli.person import ask_status, person_side
from svc.client.own_options import options_elsewhere
from svc.errors import Fault, SvcError


@click.command("open")
@click.option("--print", "only_print", is_flag=True, help="Print the URL and start no browser.")
@click.argument("name", required=False)
@own_directory_option
@click.pass_obj
def open_resource(globals_: Globals, name: str | None, only_print: bool) -> None:
    """Open the web application NAME in your browser, and print its URL.

    Without NAME, open a page that lists your web applications.  The URL has a name that only your
    `svc up` serves: on another machine it leads nowhere.
    """
    if name is None:
        url = _listing(globals_)
    else:
        url = _endpoint(globals_, name, "url", "a web application")
    click.echo(url)
    if not only_print and not webbrowser.open(url):
        hint(["no browser was found; open the URL yourself"])


@click.command("db")
@click.option(
    "--role", metavar="ROLE", help="The database role; by default, the one that psql chooses."
)
@click.option(
    "--database", metavar="NAME", help="The database; by default, the one with the role's name."
)
@click.argument("name")
@own_directory_option
@click.pass_obj
def db(globals_: Globals, name: str, role: str | None, database: str | None) -> int:
    """Start `psql` on the database NAME, through your `svc up`.

    Where psql is not installed, the command is printed instead, with status 1.  Other tools find
    the same databases in `pg_service.conf`, which `svc up` keeps in its state directory.

    Example:
        svc db orders --role app --database shop
    """
    words = psql_words(_endpoint(globals_, name, "directory", "a database"), role, database)
    program = shutil.which("psql")
    if program is not None:
        os.execv(program, words)
    from svc.client.resident.published.pg_services import NAME

    click.echo(shlex.join(words))
    file = shlex.quote(str(person_side(globals_).state / NAME))
    hint(
        [
            "svc: psql is not installed; the Debian package postgresql-client brings it",
            f"svc: for other tools: PGSERVICEFILE={file}",
        ]
    )
    return 1


@click.command("kubeconfig")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the file, readable by you alone, instead of printing it.",
)
@own_directory_option
@click.pass_obj
def kubeconfig(globals_: Globals, out: Path | None) -> None:
    """Print one kubeconfig of all your clusters, with a context `svc-NAME` for each.

    The addresses are those of your `svc up`, which also keeps a file for each cluster in `kube/` of
    its state directory.  A file that svc did not write is not overwritten.

    Example:
        svc kubeconfig --out ~/.svc/kube-all.yaml
    """
    from svc.kinds.kube.kubeconfig import kubeconfig as written

    endpoints = _endpoints(globals_)
    clusters = {
        one["resource"]: one["address"]
        for one in endpoints
        if one["kind"] == "kube" and one["address"]
    }
    if not clusters:
        raise SvcError(
            "you may use no cluster, or none has an address here; see: svc status",
            reason="not_found",
            fault=Fault.NOT_FOUND,
        )
    text = written(clusters, current=next(iter(clusters)) if len(clusters) == 1 else "")
    if out is None:
        click.echo(text.decode("ascii"), nl=False)
    else:
        _replace(out, text)


def _replace(out: Path, text: bytes) -> None:
    """Write over nothing but a file of ours.

    Raises:
        SvcError: it is somebody else's, or cannot be written.
    """
    from svc.kinds.kube.kubeconfig import FIRST_LINE
    from svc.runtime import durable

    own = FIRST_LINE.encode("ascii")
    try:
        if not out.exists() or _begins(out, len(own)) == own:
            durable.replace(out, text)
            return
    except OSError as error:
        raise SvcError(f"--out: {out}: {error.strerror}", reason="not_written") from None
    raise SvcError(
        f"--out: {out}: svc has not written this file, so it is left as it is; name another, and "
        f"list both in KUBECONFIG",
        reason="exists",
        fault=Fault.PRECONDITION,
    )


def _begins(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def psql_words(directory: str, role: str | None, database: str | None) -> list[str]:
    """The command; whatever PGHOST, PGPORT and PGSERVICE say, it is this socket."""
    from svc.client.resident.published.pg_services import PORT

    words = ["psql", "-h", directory, "-p", str(PORT)]
    if role is not None:
        words += ["-U", role]
    if database is not None:
        words += ["-d", database]
    return words


def _status(globals_: Globals) -> dict[str, Any]:
    side = person_side(globals_)
    told = ask_status(side)
    if told is None:
        options = options_elsewhere(side.settings.path, globals_.environ)
        raise SvcError(
            "`svc up` is not running; start it in another terminal, and leave it there: svc up"
            f"{options}",
            reason="no_resident",
            fault=Fault.UNAVAILABLE,
        )
    return told


def _listing(globals_: Globals) -> str:
    """The URL of the list of web applications.

    Raises:
        SvcError: there is none.
    """
    url: str = _status(globals_).get("web", "")
    if not url:
        raise SvcError(
            "you may use no web application now; see: svc resources list",
            reason="not_found",
            fault=Fault.NOT_FOUND,
        )
    return url


def _endpoint(globals_: Globals, name: str, what: str, is_what: str) -> str:
    """One fact of the resident's endpoint of this name.

    Raises:
        SvcError: there is no such endpoint, or it has none.
    """
    endpoints = _endpoints(globals_)
    found = next((one for one in endpoints if one["resource"] == name), None)
    if found is None:
        raise SvcError(
            f"{name}: you may use no resource of this name; see: svc resources list",
            reason="not_found",
            fault=Fault.NOT_FOUND,
        )
    value: str = found[what]
    if not value:
        raise SvcError(
            f"{name}: {found['problem'] or f'it is not {is_what}'}",
            reason=f"no_{what}",
            fault=Fault.PRECONDITION,
        )
    return value


def _endpoints(globals_: Globals) -> list[dict[str, Any]]:
    """Those of the resident.

    Raises:
        SvcError: none runs.
    """
    endpoints: list[dict[str, Any]] = _status(globals_)["endpoints"]
    return endpoints
