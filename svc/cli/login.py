"""``svc login``: an account at the identity provider becomes an identity on this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from svc.cli import Globals
from svc.cli.control import run
from svc.cli.directory import new_identity_directory, own_directory_option
from svc.cli.join import directory_option, runtime
from svc.cli.local_login import LocalWords, local_options
from svc.cli.output import json_option, print_list, print_result
from svc.errors import SvcError
from svc.telemetry.escape import escaped

if TYPE_CHECKING:
    from svc.join.account import SignedInHere
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
    help="For machines: file with an ID token for this cluster; by default, SVC_ID_TOKEN has it.",
)
@click.option(
    "--local",
    is_flag=True,
    help="Sign in with a password and a second factor that the Authority keeps; the default where "
    "no provider is configured.",
)
@local_options
@click.option(
    "--check",
    is_flag=True,
    help="Do not sign in: show where each Proxy says that people sign in, and whether they agree.",
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
    local: bool,
    words: LocalWords,
    check: bool,
    as_json: bool,
) -> None:
    """Sign in, and get your identity on this machine.

    At your identity provider; where the Authority has none, with a password and a second factor.

    Example:
        svc login --proxy gate.example.org:7400 --ca-pin PIN    # the first time
        svc login                                                # later
    """
    words.check()
    place = _place(globals_, proxies, pin, directory, authority)
    if check:
        _check(globals_, place, as_json)
        return
    ways = _Ways(
        globals_=globals_,
        place=place,
        id_token=_id_token(globals_, id_token_file),
        by_device=device,
        opener=None if no_browser else _open_browser,
        is_local=local or words.is_asked,
        words=words,
    )
    option = "" if directory is None else f" --dir {shlex.quote(str(directory))}"
    _print(run(ways.sign_in), option, as_json)


@frozen
class _Ways:
    """How somebody asked to sign in."""

    globals_: Globals
    place: SignInPlace
    id_token: str
    by_device: bool
    opener: Callable[[str], object] | None
    is_local: bool
    words: LocalWords

    async def sign_in(self, reactor: Any) -> SignedInHere | SignedInPerson:
        """Sign in, where nothing else is asked for at the provider; without one, locally."""
        from svc.join.account import needs_account
        from svc.join.sign_in import MachineSignIn

        show = lambda line: click.echo(line, err=True)  # noqa: E731
        mine = MachineSignIn(runtime(self.globals_, reactor), self.place, show)
        if self.is_local:
            return await self.words.run(mine, self.opener)
        if self.id_token:
            return await mine.by_token(self.id_token)
        if self.by_device:
            return await mine.by_device()
        try:
            return await mine.by_browser(self.opener)
        except SvcError as refused:
            if not needs_account(refused):
                raise
        return await self.words.run(mine, self.opener)


def _check(globals_: Globals, place: SignInPlace, as_json: bool) -> None:
    """Show what each source says, then fail if two differ."""
    from svc.join.profiles import check_same
    from svc.join.sign_in import MachineSignIn

    def asking(reactor: Any) -> Coroutine[Any, Any, list[Any]]:
        return MachineSignIn(runtime(globals_, reactor), place, click.echo).told_profiles()

    told = run(asking)
    result = [
        {"source": one.source, "issuer": one.issuer, "client_id": one.client_id} for one in told
    ]
    rows = [[one.source, one.issuer, one.client_id] for one in told]
    print_list(as_json, result, ["SOURCE", "ISSUER", "CLIENT"], rows)
    check_same(told, "have your operator give every Authority the same [oidc]")


def _print(done: SignedInHere | SignedInPerson, option: str, as_json: bool) -> None:
    from svc.cli.local_login import few_left_lines, recovery_lines
    from svc.join.account import SignedInHere
    from svc.model.audit.record import rfc3339

    codes: list[str] = []
    few: list[str] = []
    if isinstance(done, SignedInHere):
        codes, few = list(done.recovery_codes), few_left_lines(done.recovery_left)
    signed_in = done.person if isinstance(done, SignedInHere) else done
    until = rfc3339(signed_in.not_after)
    result = {
        "cluster": signed_in.cluster,
        "name": signed_in.name,
        "groups": list(signed_in.groups),
        "expires_at": until,
        "renew_until": rfc3339(signed_in.renew_until) if signed_in.renew_until else "",
    }
    if codes:
        result["recovery_codes"] = codes
    groups = ", ".join(map(escaped, signed_in.groups)) or "no group"
    print_result(
        as_json,
        result,
        [
            f"signed in to {signed_in.cluster} as {escaped(signed_in.name)}, in {groups}",
            f"your certificate is valid until {until}",
            *recovery_lines(codes),
            *few,
        ],
        next_steps(signed_in.groups, option),
    )


def next_steps(groups: Iterable[str], option: str) -> list[str]:
    """What to type after a sign-in.

    Args:
        option: ``--dir`` with its value, after a space; empty where it was not given.
    """
    from svc.cli.setup import program
    from svc.client.own_options import path_lines
    from svc.model.cluster.account import ADMINISTRATORS

    administers = [f"svc authority{option} status  # administer from this machine"]
    return [
        *path_lines(program()),
        *(administers if ADMINISTRATORS in groups else []),
        f"svc up{option}              # open a local endpoint for every resource you may use",
        f"svc resources list{option}  # list those resources",
    ]


def _id_token(globals_: Globals, path: Path | None) -> str:
    """A machine's ID token, from a private file or the environment; empty without either."""
    from svc.pki.files import read_private

    if path is None:
        return globals_.environ.get("SVC_ID_TOKEN", "").strip()
    return read_private(path, os.geteuid()).decode("utf-8", "replace").strip()


@click.command()
@click.option(
    "--keep-files",
    is_flag=True,
    help="Keep the files of the identity, which is not valid any more.",
)
@own_directory_option
@json_option
@click.pass_obj
def logout(globals_: Globals, keep_files: bool, as_json: bool) -> None:
    """Sign out on this machine: the certificate becomes invalid and is not renewed."""
    from svc.errors import UsageError
    from svc.join.sign_in import end_sign_in
    from svc.join.sign_out import sign_out
    from svc.pki.identity_store import IdentityStore

    place = _place(globals_, (), None, None, None)
    directory = place.directory
    if not IdentityStore(directory).exists:
        raise UsageError(f"nobody is signed in here: there is no identity in {directory}")

    def leaving(reactor: Any) -> Coroutine[Any, Any, None]:
        runs_in = runtime(globals_, reactor)
        end = partial(end_sign_in, runs_in, place)
        return sign_out(
            runs_in, directory, end, partial(click.echo, err=True), keep_files=keep_files
        )

    try:
        run(leaving)
    except SvcError as refusal:
        if refusal.reason != "sign_in_unknown":
            raise
        raise SvcError(
            "there is no sign-in to end: this identity came by a join token, or its sign-in is "
            f"over; to stop using it here, delete {directory / 'identity'}; to make it invalid "
            "everywhere, have your operator run: svc authority persons revoke NAME",
            reason=refusal.reason,
            fault=refusal.fault,
        ) from None
    print_result(as_json, {"signed_out": True}, ["signed out"])


def _place(
    globals_: Globals,
    proxies: tuple[str, ...],
    pin: str | None,
    directory: Path | None,
    authority: str | None,
) -> SignInPlace:
    """Where to sign in: what the options name, else what an earlier sign-in left here."""
    from svc.client.places import CLIENT_FILE
    from svc.compose.person import client_settings, state_directory
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
    writes_config = bool(addresses)
    if directory is not None and not addresses and given != str(directory / CLIENT_FILE):
        raise UsageError(f"--proxy: required for the first sign-in in {directory}")
    if addresses:
        place = new_identity_directory(directory, globals_.environ)
    else:
        settings = client_settings(given, globals_.environ)
        addresses, place = settings.endpoints.proxy, state_directory(settings)
    prepare(place)
    if pin is None:
        store = IdentityStore(place)
        if not store.has_root:  # a sign-out leaves it here
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
