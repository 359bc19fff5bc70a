"""Checks of a role's identity: its directory, its certificate, its keys, and the clock."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from svc.audit.checkpoint.anchor import MAX_LINE, AnchorDirectory, parsed_head
from svc.audit.checkpoint.head import head_time
from svc.client.own_certificate import ends_soon
from svc.model.audit.record import SignedHead
from svc.model.clocks import MAX_APART_SECS, since, utc
from svc.model.doctor import Finding, fail, info, ok, warn
from svc.model.principal import CALLERS, Role
from svc.ops.backup.place import RESTORING
from svc.ops.doctor.check import Check
from svc.ops.doctor.context import AS_THE_ROLE, ROLES, CheckContext, NotChecked
from svc.ops.doctor.probes import is_running
from svc.pki.host_names import host_names
from svc.pki.identity import TransportIdentity
from svc.pki.keyring import load_keys
from svc.pki.profile import DAY
from svc.pki.public_tls import PublicCertificate
from svc.runtime.durable import open_regular

URGENT_SECS = 7 * DAY
SOON_SECS = 30 * DAY
"""Of a key that only an operator with the root's key can renew."""

_MOUNT = "mount the state directory, or correct state_dir"
_BECOME = "join with svc join, or sign in with svc login"
_AGAIN = {
    "authority": "start the Authority: it makes a new certificate for itself",
    "proxy": "have it join again under its own name: docs/how-to/install.md",
    "connector": "have it join again under its own name: docs/how-to/install.md",
    "client": "run svc join with a new token, or sign in again with svc login",
}


def _state_directory(context: CheckContext) -> Iterator[Finding]:
    path = context.state
    try:
        found = os.stat(path)
    except FileNotFoundError:
        yield fail(f"{path} does not exist", _how_to_begin(context))
        return
    if not stat.S_ISDIR(found.st_mode):
        yield fail(f"{path} is not a directory", "move it away, or correct state_dir")
        return
    mode = stat.S_IMODE(found.st_mode)
    if os.geteuid() not in (0, found.st_uid):
        yield fail(
            f"{path} belongs to uid {found.st_uid}, and not to uid {os.geteuid()}, which runs this",
            AS_THE_ROLE,
        )
    if context.role != "client" and mode & 0o077:
        yield fail(
            f"{path}: mode {mode:04o} lets other users in",
            f"run: chmod 700 {shlex.quote(str(path))}",
        )
    if os.path.lexists(path / RESTORING):
        yield fail(
            f"{path}: a restore into it was interrupted",
            "run the same svc authority backup restore again",
        )
    yield ok(f"{path}, mode {mode:04o}, of uid {found.st_uid}")


def _how_to_begin(context: CheckContext) -> str:
    """What to do where there is no identity, and perhaps no state directory.

    Never to make a new one: a cluster's keys and log may be on a disk that is not mounted.
    """
    if context.role == "client":
        return _BECOME
    if context.role == "authority":
        return f"{_MOUNT}; restore it from a backup if it is lost"
    return f"if this node has joined before, {_MOUNT}; else {_how_to_join(context)}"


def _how_to_join(context: CheckContext) -> str:
    join, prints = context.settings.join, f"svc authority nodes add NAME --role {context.role}"
    if join.by_key:
        return "start the role, which joins by its key"
    if join.token_file is None:
        return f"set join.token_file, put there what {prints} prints, and start the role"
    if os.path.lexists(join.token_file):
        return "start the role, which joins with join.token_file"
    return f"put into {join.token_file} what {prints} prints, and start the role"


def _leaf(context: CheckContext) -> Iterator[Finding]:
    if not context.identities.exists:
        yield _not_joined(context)
        return
    identity = TransportIdentity.load(
        context.identities, lambda: context.at, context.settings.cluster or None
    )
    facts, left = identity.facts, identity.seconds_left()
    wanted = CALLERS if context.role == "client" else {Role(context.role)}
    if facts.principal.role not in wanted:
        yield fail(
            f"the certificate is that of a {facts.principal.role.value}, not of a {context.role}",
            "put back the identity of this role, or correct state_dir",
        )
    ends = f"it ends at {utc(facts.not_after)}"
    if left <= 0:
        expired = f"the certificate expired {since(-left)} ago"
        # An Authority that starts makes its own again; nobody else can do without joining.
        is_made_again = context.role == "authority" and is_running(context.base_state) is False
        yield (warn if is_made_again else fail)(expired, _AGAIN[context.role])
    elif context.at < facts.not_before:
        yield fail(
            f"the certificate begins at {utc(facts.not_before)}, and this machine's clock says "
            f"{utc(context.at)}",
            "set the clock",
        )
    elif _is_short(context, identity):
        yield warn(f"the certificate has {since(left)} left: {ends}", _renewal_hint(context))
    yield ok(
        f"{facts.principal.role.value} {facts.principal.id} of {facts.principal.cluster}: "
        f"{since(left)} left of {since(facts.lifetime)}; {ends}"
    )


def _is_short(context: CheckContext, identity: TransportIdentity) -> bool:
    """Whether renewal, which begins before a third is left, is overdue; or a person is to know."""
    if context.role == "client":
        return ends_soon(identity)
    return identity.seconds_left() < identity.facts.lifetime / 4


def _renewal_hint(context: CheckContext) -> str:
    if context.role == "client":
        return _AGAIN["client"]
    return "see the log of the role for why it is not renewed; it must reach an Authority for that"


def _not_joined(context: CheckContext) -> Finding:
    join = context.settings.join
    if context.role == "authority" and (context.state / "keys").is_dir():
        return info("no certificate yet: the Authority makes its own at its first start")
    has_token = join.token_file is not None and os.path.lexists(join.token_file)
    if context.role in ("proxy", "connector") and (has_token or join.by_key):
        return warn("no certificate yet: the role joins at its next start", "start the role")
    return fail("there is no identity", _how_to_begin(context))


def _nothing_random(_: int) -> bytes:
    raise AssertionError("keys are read, and none is made")


def _keys(context: CheckContext) -> Iterator[Finding]:
    """Every key that an Authority signs with: whole, of this cluster, and good for how long."""
    keys = load_keys(
        context.state / "keys",
        lambda: context.at,
        _nothing_random,
        cluster=context.settings.cluster,
        uid=context.uid,
    )
    ends = {word: each.ends_at for word, each in keys.purposes.items()}
    ends |= {
        kind: each.certificate.not_valid_after_utc.timestamp()
        for kind, each in keys.issuers.items()
    }
    for word, end in sorted(ends.items(), key=lambda each: each[1]):
        left = end - context.at
        if left < URGENT_SECS:
            yield warn(
                f"the key {word} ends in {since(left)}",
                f"renew it with the root's key: svc authority keys renew {word}",
            )
        elif left < SOON_SECS:
            yield info(
                f"the key {word} ends in {since(left)}",
                f"renew it with the root's key: svc authority keys renew {word}",
            )
    first = min(ends, key=lambda word: ends[word])
    yield ok(
        f"{len(ends)} keys are whole; the first to end is {first}, in "
        f"{since(ends[first] - context.at)}"
    )


def _page_certificate(context: CheckContext) -> Iterator[Finding]:
    """Of the sign-in page, which an authority that browsers know has signed."""
    passkeys = context.settings.accounts.passkeys
    if passkeys.public_name is None or passkeys.cert is None or passkeys.key is None:
        yield ok("accounts.passkeys is not set: there is no sign-in page")
        return
    served = PublicCertificate(Path(passkeys.cert), Path(passkeys.key))
    served.load()
    problem = served.problem(context.at) or served.other_name(passkeys.public_name.host)
    left = served.ends_at - context.at
    hint = "renew it; the Authority reads the files again when they change"
    if problem:
        yield fail(problem, hint)
    elif left < min(served.lifetime / 4, URGENT_SECS):
        yield warn(f"{passkeys.cert}: the certificate ends in {since(left)}", hint)
    yield ok(
        f"{passkeys.cert}: the certificate of {passkeys.public_name.host} has {since(left)} left"
    )


def _names(context: CheckContext) -> Iterator[Finding]:
    names = context.settings.endpoints.public_names
    if not context.identities.exists:
        raise NotChecked("there is no certificate yet")
    carried = host_names(context.identities.load().chain[0])
    missing = [name for name in names if name not in carried]
    shown = ", ".join(sorted(carried)) or "none"
    if missing:
        yield warn(
            f"endpoints.public_names has {', '.join(missing)}, which the certificate does not "
            f"carry (it carries {shown}): clients that check the host name reject this Proxy",
            "join again with a token made for these names (svc authority nodes add NAME --role "
            "proxy --public-name ...), or remove them",
        )
    yield ok(f"the certificate carries {shown}")


def _clock(context: CheckContext) -> Iterator[Finding]:
    """Compared with the newest signed head that is kept here: time does not go back past it."""
    head = _kept_head(context)
    if head is None:
        raise NotChecked("no signed head is kept here, so there is nothing to compare with")
    ahead = head_time(head.head) - context.at
    if ahead > MAX_APART_SECS:
        yield fail(
            f"this machine's clock says {utc(context.at)}, {since(ahead)} before the time of the "
            "newest signed head that is kept here",
            "set the clock of this machine, or of the leading Authority",
        )
    yield ok("this machine's clock is not behind the newest signed head that is kept here")


def _kept_head(context: CheckContext) -> SignedHead | None:
    if context.role == "authority":
        return AnchorDirectory(context.state / "anchor").newest()
    try:
        with open_regular(context.state / "snapshot" / "audit-head") as file:
            line = file.read(MAX_LINE + 1)
    except FileNotFoundError:
        return None
    return parsed_head(line.removesuffix(b"\n"), {})


FIRST = (Check("identity.state_directory", ROLES, _state_directory),)
CHECKS = (
    Check("identity.leaf", ROLES, _leaf, needs_state=True),
    Check("identity.keys", ("authority",), _keys, needs_state=True),
    Check("identity.page_certificate", ("authority",), _page_certificate),
    Check("identity.names", ("proxy",), _names, needs_state=True),
    Check("identity.clock", ("authority", "proxy"), _clock, needs_state=True),
)
