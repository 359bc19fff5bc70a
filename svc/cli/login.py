"""``svc login``: an account at the identity provider becomes an identity on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli import Globals
from svc.cli.control import run
from svc.cli.join import runtime
from svc.cli.output import json_option, print_result
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.join.sign_in import SignInPlace


@click.command()
@click.option(
    "--proxy",
    "proxies",
    metavar="HOST:PORT",
    multiple=True,
    help="A Proxy of the cluster; may be repeated. Needed only for the first sign-in here.",
)
@click.option(
    "--ca-pin",
    "pin",
    metavar="PIN",
    help="SHA-256 of the cluster's root certificate, from your operator; only the first time.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory for your identity and configuration; ~/.svc by default.",
)
@click.option(
    "--authority",
    metavar="HOST:PORT",
    help="The Authority's join listener, to sign in directly instead of through a Proxy.",
)
@click.option(
    "--no-browser", is_flag=True, help="Print the address to open instead of opening a browser."
)
@json_option
@click.pass_obj
def login(
    globals_: Globals,
    proxies: tuple[str, ...],
    pin: str | None,
    directory: Path | None,
    authority: str | None,
    no_browser: bool,
    as_json: bool,
) -> None:
    """Sign in at your identity provider, and get your identity on this machine."""
    from svc.join.sign_in import MachineSignIn
    from svc.model.audit.record import rfc3339

    place = _place(globals_, proxies, pin, directory, authority)
    signed_in = run(
        lambda reactor: MachineSignIn(
            runtime(globals_, reactor), place, lambda line: click.echo(line, err=True)
        ).by_browser(None if no_browser else _open_browser)
    )
    until = rfc3339(signed_in.not_after)
    result = {
        "cluster": signed_in.cluster,
        "name": signed_in.name,
        "groups": list(signed_in.groups),
        "expires_at": until,
        "renew_until": rfc3339(signed_in.renew_until) if signed_in.renew_until else "",
    }
    groups = ", ".join(map(escaped, signed_in.groups)) or "no group"
    option = "" if directory is None else f" --config {directory / 'client.toml'}"
    print_result(
        as_json,
        result,
        [
            f"signed in to {signed_in.cluster} as {escaped(signed_in.name)}, in {groups}",
            f"your certificate is valid until {until}",
        ],
        [
            f"svc{option} up              # open a local endpoint for every resource you may use",
            f"svc{option} resources list  # list those resources",
        ],
    )


def _place(
    globals_: Globals,
    proxies: tuple[str, ...],
    pin: str | None,
    directory: Path | None,
    authority: str | None,
) -> SignInPlace:
    """Where to sign in: what the options name, else what an earlier sign-in left here."""
    from svc.client.places import CLIENT_FILE, home
    from svc.compose.client import client_settings, state_directory
    from svc.errors import UsageError
    from svc.join.person import check_pin, parse_addresses, prepare
    from svc.join.sign_in import SignInPlace
    from svc.pki.identity_store import IdentityStore
    from svc.pki.verify import ca_pin

    addresses = parse_addresses("--proxy", proxies)
    direct = parse_addresses("--authority", (authority,))[0] if authority else None
    given = globals_.config
    if directory is not None and (directory / CLIENT_FILE).exists():
        given = str(directory / CLIENT_FILE)
    place = Path(directory or home(globals_.environ)).absolute()
    writes_config = bool(addresses)
    if not addresses:
        settings = client_settings(given, globals_.environ)
        addresses, place = settings.endpoints.proxy, state_directory(settings)
    prepare(place)
    if pin is None:
        store = IdentityStore(place)
        if not store.exists:
            raise UsageError("--ca-pin: required for the first sign-in on this machine")
        pin = ca_pin(store.load_root())
    return SignInPlace(
        directory=place,
        proxies=addresses,
        authority=direct,
        pin=check_pin(pin),
        writes_config=writes_config,
    )


def _open_browser(url: str) -> None:
    """Open it in a browser, if there is one; whoever has none opens the address by hand."""
    import webbrowser
    from contextlib import suppress
    from threading import Thread

    def open_it() -> None:
        with suppress(webbrowser.Error, OSError):
            webbrowser.open(url)

    # A browser's launcher may not return before the browser ends.
    Thread(target=open_it, daemon=True).start()
