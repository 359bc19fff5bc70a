"""``svc open``: a web application in the person's browser."""

from __future__ import annotations

import webbrowser

import click

from svc.cli import Globals
from svc.cli.output import hint
from svc.cli.person import ask_status, person_side
from svc.errors import Fault, SvcError


@click.command("open")
@click.option("--print", "only_print", is_flag=True, help="Print the URL and start no browser.")
@click.argument("name")
@click.pass_obj
def open_resource(globals_: Globals, name: str, only_print: bool) -> None:
    """Open the web application NAME in your browser, and print its URL.

    The URL has a name that only your `svc up` serves: on another machine it leads nowhere.
    """
    told = ask_status(person_side(globals_))
    if told is None:
        raise SvcError(
            "the resident is not running; start it with: svc up",
            reason="no_resident",
            fault=Fault.UNAVAILABLE,
        )
    found = next((one for one in told["endpoints"] if one["resource"] == name), None)
    if found is None:
        raise SvcError(
            f"{name}: you may use no resource of this name; see: svc resources list",
            reason="not_found",
            fault=Fault.NOT_FOUND,
        )
    url = found["url"]
    if not url:
        raise SvcError(
            f"{name}: {found['problem'] or 'it is not a web application'}",
            reason="no_url",
            fault=Fault.PRECONDITION,
        )
    click.echo(url)
    if not only_print and not webbrowser.open(url):
        hint(["no browser was found; open the URL yourself"])
