"""``svc login``: an account at the identity provider becomes an identity on this machine."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svc.cli import Globals
from svc.cli.control import run
from svc.cli.join import directory_option, runtime
from svc.cli.output import json_option, print_result
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.join.sign_in import SignedInPerson, SignInPlace


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
@directory_option
@click.option(
    "--authority",
    metavar="HOST:PORT",
    help="The Authority's join listener, to sign in directly instead of through a Proxy.",
)
@click.option(
    "--no-browser", is_flag=True, help="Print the address to open instead of opening a browser."
)
@click.option(
    "--device",
    is_flag=True,
    help="Sign in with a code on another device, where this machine has no browser.",
)
@click.option(
    "--id-token",
    "id_token_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For machines: file with an ID token for this cluster; else SVC_ID_TOKEN has it.",
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
    device: bool,
    id_token_file: Path | None,
    as_json: bool,
) -> None:
    """Sign in at your identity provider, and get your identity on this machine."""
    from svc.join.sign_in import MachineSignIn
    from svc.model.audit.record import rfc3339

    place = _place(globals_, proxies, pin, directory, authority)
    id_token = _id_token(globals_, id_token_file)
    opener = None if no_browser else _open_browser

    def signing_in(reactor: Any) -> Coroutine[Any, Any, SignedInPerson]:
        mine = MachineSignIn(
            runtime(globals_, reactor), place, lambda line: click.echo(line, err=True)
        )
        if id_token:
            return mine.by_token(id_token)
        return mine.by_device() if device else mine.by_browser(opener)

    signed_in = run(signing_in)
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


def _id_token(globals_: Globals, path: Path | None) -> str:
    """A machine's ID token, from a private file or the environment; empty without either."""
    from svc.pki.files import read_private

    if path is None:
        return globals_.environ.get("SVC_ID_TOKEN", "").strip()
    return read_private(path, os.geteuid()).decode("utf-8", "replace").strip()


@click.command()
@click.option(
    "--keep-files", is_flag=True, help="Leave the identity, which is good no more, where it is."
)
@json_option
@click.pass_obj
def logout(globals_: Globals, keep_files: bool, as_json: bool) -> None:
    """End your sign-in on this machine: its certificate and its renewal are good no more."""
    import shutil

    from svc.client.signin import SignInFile
    from svc.join.sign_in import end_sign_in
    from svc.pki.identity import TransportIdentity
    from svc.pki.identity_store import IdentityStore

    place = _place(globals_, (), None, None, None)
    directory = place.directory

    def ending(reactor: Any) -> Coroutine[Any, Any, None]:
        runs_in = runtime(globals_, reactor)
        identity = TransportIdentity.load(IdentityStore(directory), runs_in.now)
        return end_sign_in(runs_in, place, identity)

    run(ending)
    SignInFile(directory).write(0)
    if not keep_files:
        shutil.rmtree(directory / "identity")
    print_result(as_json, {"signed_out": True}, ["signed out"])


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
