"""``svc join`` behind its options: gets a person's identity and stores it."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from pathlib import Path

from attrs import frozen
from twisted.internet.defer import Deferred

from svc.client.own_name import OwnName
from svc.client.places import CLIENT_FILE
from svc.client.signin import SignInFile
from svc.config import Address
from svc.config.forms import DIAL, PIN
from svc.errors import ConfigError, Fault, SvcError, UsageError
from svc.join.answer import Enrolled, KeptAnswer
from svc.join.channel import PinnedCluster, ask_authority
from svc.join.enroll import JoinRequest, enroll_over
from svc.join.held import JOIN_SECS, held
from svc.model.cluster.token import JoinToken
from svc.model.principal import CALLERS, Role
from svc.pki.files import check_directory
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.runtime import durable
from svc.runtime.context import Runtime
from svc.runtime.services import bounded
from svc.telemetry.escape import escaped


@frozen
class JoinedPerson:
    """What ``svc join`` came to."""

    cluster: str
    name: str
    config: Path
    identity: TransportIdentity


@frozen
class JoinPlace:
    """Where somebody joins, and what.

    Attributes:
        pin: SHA-256 of the cluster root in hex.
        store: Of *directory*.
        show: Told if another process here has to be waited for, and of an identity of another
            gateway or of somebody else that was replaced.
        replaces: Whether an identity of another gateway may be replaced.
    """

    directory: Path
    proxies: tuple[Address, ...]
    pin: str
    store: IdentityStore
    show: Callable[[str], object]
    replaces: bool = False


def parse_addresses(option: str, texts: Iterable[str]) -> tuple[Address, ...]:
    """The addresses that an option names.

    Raises:
        UsageError: naming the option.
    """
    try:
        return tuple(DIAL.check(text) for text in texts)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def check_pin(text: str) -> str:
    """The pin in lower case.

    Raises:
        UsageError: it is not 64 hex digits.
    """
    try:
        pin: str = PIN.check(text)
    except ValueError as error:
        raise UsageError(f"--ca-pin: {error}") from None
    return pin


def prepare(directory: Path) -> Path:
    """Make the person's directory where it is not there yet; blocks for the disk.

    Raises:
        ConfigError: it is not this user's alone.
    """
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    try:
        for one in reversed(missing):
            # Of one in ~/.svc, that is private too: whoever signs in there later needs it so.
            one.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError("--dir", f"{directory}: {error.strerror}") from None
    check_directory(directory, os.geteuid())
    return directory


async def join_person(
    runtime: Runtime,
    here: JoinPlace,
    token: JoinToken,
    enroll: Callable[[JoinRequest], Awaitable[Enrolled]],
) -> JoinedPerson:
    """Exchange a person's token; what was there before stays until all of it is good.

    Whatever stops it after the answer has come, the same call completes it without asking again.

    Args:
        enroll: One way to Authority; called once, or not at all.

    Raises:
        IdentityBusy: another process has the identity here and does not let it go.
        SvcError: refused or not reached; nothing was replaced.
    """
    with await held(runtime.reactor, here.store, here.show, "svc join"):
        return await _joined(runtime, here, token, enroll)


async def _joined(
    runtime: Runtime,
    here: JoinPlace,
    token: JoinToken,
    enroll: Callable[[JoinRequest], Awaitable[Enrolled]],
) -> JoinedPerson:
    store, directory = here.store, here.directory
    kept = KeptAnswer(store, token)
    enrolled = kept.read()
    former = _other_gateway(store, here.pin)
    before = "" if former else _holder(runtime, store)
    named = OwnName(directory).read(before) or before
    if former and not here.replaces and enrolled is None:
        raise SvcError(
            f"{directory}: holds the identity of another gateway (its root is {former}), which "
            "joining would replace; to have both, use one directory for each (--dir DIR), or give "
            "--replace; the token was not used",
            reason="another_gateway",
            fault=Fault.PRECONDITION,
        )
    if enrolled is None:
        asking = JoinRequest(here.pin, token, make_request(store.pending_key()))
        answer: Deferred[Enrolled] = Deferred.fromCoroutine(_awaited(enroll(asking)))
        enrolled = await bounded(runtime.reactor, JOIN_SECS, answer, "joining")
        kept.write(enrolled)
    identity = kept.adopt(enrolled, cluster="", pin=here.pin, roles=CALLERS, now=runtime.now)
    facts = identity.facts
    # An agent is renewed by its certificate alone; a person who joined by a token joins again.
    is_agent = facts.principal.role is Role.AGENT
    SignInFile(directory).write(facts.not_after if is_agent else 0.0)
    OwnName(directory).write(facts.principal.id, enrolled.name)
    path = write_config(directory, identity.principal.cluster, here.proxies)
    store.forget_answer()
    if former:
        _tell_replaced(here, "", f", of another gateway (its root is {former}),")
    elif before not in ("", facts.principal.id):
        _tell_replaced(here, f" of {escaped(named)}")
    return JoinedPerson(
        cluster=identity.principal.cluster, name=enrolled.name, config=path, identity=identity
    )


def _other_gateway(store: IdentityStore, pin: str) -> str:
    """The pin of the gateway of which an identity is here; empty where it is this one, or none."""
    if not store.exists:
        return ""
    try:
        found = sha256(store.load_root()).hexdigest()
    except SvcError:
        return ""
    return "" if found == pin else found


def _tell_replaced(here: JoinPlace, whose: str, more: str = "") -> None:
    here.show(f"the identity{whose} that was here{more} was replaced")


def _holder(runtime: Runtime, store: IdentityStore) -> str:
    """The id of whose identity is here; empty where there is none, or it cannot be read."""
    if not store.exists:
        return ""
    try:
        return TransportIdentity.load(store, runtime.now).principal.id
    except SvcError:
        return ""


async def _awaited(coming: Awaitable[Enrolled]) -> Enrolled:
    return await coming


async def take_identity(
    runtime: Runtime,
    directory: Path,
    proxies: tuple[Address, ...],
    authority: Address | None,
    pin: str,
    token: JoinToken,
    show: Callable[[str], object],
    replaces: bool = False,
) -> JoinedPerson:
    """Join, and write identity and configuration; an earlier one stays until that is done.

    Args:
        authority: Authority's join listener, to join without a Proxy.
        show: As of :class:`JoinPlace`, as is *replaces*.

    Raises:
        SvcError: refused or not reached; nothing was replaced.
    """

    async def enroll(asking: JoinRequest) -> Enrolled:
        pinned = PinnedCluster(asking.pin.lower(), asking.cluster, runtime.now)
        return await ask_authority(
            runtime,
            pinned,
            proxies,
            authority,
            lambda channel: enroll_over(channel, runtime.now, asking),
        )

    here = JoinPlace(
        directory=directory,
        proxies=proxies,
        pin=check_pin(pin),
        store=IdentityStore(directory),
        show=show,
        replaces=replaces,
    )
    return await join_person(runtime, here, token, enroll)


def write_config(directory: Path, cluster: str, proxies: tuple[Address, ...]) -> Path:
    """Write ``client.toml``; an existing one with other contents is kept under another name."""
    path = directory / CLIENT_FILE
    text = client_toml(cluster, directory, proxies).encode("utf-8")
    if path.exists() and path.read_bytes() != text:
        durable.replace(directory / f"{CLIENT_FILE}.before", path.read_bytes())
    durable.replace(path, text)
    return path


def client_toml(cluster: str, state: Path, proxies: tuple[Address, ...]) -> str:
    """A client's configuration."""
    addresses = ", ".join(_quoted(str(address)) for address in proxies)
    return (
        f"cluster = {_quoted(cluster)}\n"
        f"state_dir = {_quoted(str(state))}\n\n"
        "[endpoints]\n"
        f"proxy = [{addresses}]\n"
    )


def _quoted(text: str) -> str:
    """A TOML basic string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
