"""``svc authority keys``: the keys of the cluster, in the directory ``keys/`` of this Authority.

The Authority may run or not.  The store is asked whether rotation is paused, unless it does not
answer and the operator goes on without it; nothing is changed there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli.authority.roots import rotation, sync
from svc.cli.control import authority_settings, authority_state
from svc.cli.forms import root_key_option
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, moment, print_result
from svc.errors import StoreUnavailable

if TYPE_CHECKING:
    from svc.config import RoleSettings

ISSUERS = ("transport", "spiffe")
ANCHOR = "anchor"
PURPOSES = (ANCHOR, "audit-origin", "grant", "jwt", "onward-ssh", "snapshot")
ALL = "all"
_COPY = (
    "copy the files of {kinds} (.pem and .key) to keys/ of every other Authority, where keys are "
    "not distributed; until then "
    "they sign with the previous one (for an issuing CA, svc_ca_bundle_stale is 1)"
)
_AUDITORS = (
    "give the fingerprint of anchor to every auditor: to check heads signed by the old and "
    "the new key, pass both to verify_audit.py: --fingerprint OLD --fingerprint NEW"
)
_PAUSE = "whether rotation is paused"
_NEWEST = "whether every Authority has loaded the newest keys"
_WITHOUT_STORE = "renew when the store answers, or now, without these checks, with --without-store"


@click.group(cls=Group)
def keys() -> None:
    """Renew the keys that the Authority signs with."""


@keys.command("renew")
@click.argument("kind", type=click.Choice((*ISSUERS, *PURPOSES, ALL)))
@root_key_option
@click.option(
    "--lagging",
    is_flag=True,
    help="Renew an issuing CA although an Authority has not loaded the newest keys.",
)
@click.option(
    "--without-store",
    is_flag=True,
    help="Renew although the store does not answer, so that nobody can say whether rotation is "
    "paused, nor, of an issuing CA, whether every Authority has loaded the newest keys.  If it "
    "answers, this changes nothing.",
)
@json_option
@click.pass_context
def renew(
    context: click.Context,
    kind: str,
    root_key: Path | None,
    lagging: bool,
    without_store: bool,
    as_json: bool,
) -> None:
    """Create the next issuing CA or signing key; `all` creates one of each.

    `transport` and `spiffe` are the issuing CAs of nodes and persons; `anchor` signs the heads
    of the audit log, `audit-origin` the records of state, `snapshot` the policy snapshots for
    Proxies, `grant` the session grants, `jwt` the identity tokens for web applications and
    `onward-ssh` the certificates by which Connectors log in at SSH hosts.  Hosts trust the key
    of `onward-ssh`, so it stays: only its certificate is new.  A running Authority loads a new
    key at its next reload pass; a new issuing CA only while it is the leader.  What the previous
    key signed stays valid.
    Refused while rotation is paused, and for an issuing CA while an Authority has not loaded the
    newest keys (`svc authority keys sync root status` shows which).  Where the store does not
    answer, neither can be known: then it is refused, too, unless --without-store is given, and
    the hint says what was not checked.
    Auditors who check the fingerprint of the anchor certificate also need that of the new one,
    which this command prints.

    Example:
        svc --config authority.toml authority keys renew all --root-key /media/usb/root.key
    """
    from cryptography.hazmat.primitives.hashes import SHA256

    from svc.pki.keyring import renew_issuer, renew_purpose
    from svc.pki.profile import DAY

    settings = authority_settings(context)
    directory = authority_state(settings) / "keys"
    if kind in (*ISSUERS, ALL) or (directory / f"{kind}.pem").exists():
        # The first key of its kind replaces none: an upgrade asks for it while rotation is paused.
        is_issuing = kind in (*ISSUERS, ALL) and not lagging
        _require_leave(settings, is_issuing=is_issuing, without_store=without_store)
    lifetime = settings.identity.issuing_ca_days * DAY
    kinds = (*ISSUERS, *PURPOSES) if kind == ALL else (kind,)
    said, lines = [], []
    for one in kinds:
        if one in ISSUERS:
            made = renew_issuer(directory, one, time.time, os.urandom, lifetime, root_key)
        else:
            made = renew_purpose(directory, one, time.time, os.urandom, root_key)
        sort = "issuing CA" if one in ISSUERS else "signing key"
        until, digest = (
            moment(made.not_valid_after_utc.timestamp()),
            made.fingerprint(SHA256()).hex(),
        )
        said.append({"name": one, "certificate_sha256": digest, "expires_at": until})
        lines.append(f"made the {sort} {one}, good until {until}")
        if one == ANCHOR:
            lines.append(f"SHA-256 fingerprint of {one}: {digest}")
    advice = [_COPY.format(kinds=", ".join(kinds)), *([_AUDITORS] if ANCHOR in kinds else [])]
    print_result(as_json, said, lines, advice)


def _require_leave(settings: RoleSettings, *, is_issuing: bool, without_store: bool) -> None:
    """Refuse what the store says must wait, and what it does not say, but for *without_store*."""
    from svc.ops.rotation import require_newest_keys, require_rotation

    checks = {_PAUSE: require_rotation, **({_NEWEST: require_newest_keys} if is_issuing else {})}
    unknown, failed = list[str](), list[StoreUnavailable]()
    for what, check in checks.items():
        try:
            check(settings)
        except StoreUnavailable as unanswered:
            unknown.append(what)
            failed.append(unanswered)
    if unknown:
        said = f"{failed[0].text}; not known: {', and '.join(unknown)}"
        if not without_store:
            raise failed[0].with_(text=f"{said}; {_WITHOUT_STORE}") from None
        hint([said])


keys.add_command(sync)
ONWARD_SSH = "onward_ssh"


@click.group(cls=Group)
def ca() -> None:
    """Export the public keys of certificate authorities."""


@ca.command("export")
@click.argument("kind", type=click.Choice((ONWARD_SSH,)))
@json_option
@click.pass_context
def export(context: click.Context, kind: str, as_json: bool) -> None:
    """Print the public key of a certificate authority.

    `onward_ssh` signs the certificates by which Connectors log in at SSH hosts whose onward mode
    is `certificate`.  The line goes into the file that TrustedUserCAKeys names in a host's
    sshd_config.  A renewal of the key onward-ssh does not change it.

    Example:
        svc --config authority.toml authority ca export onward_ssh > svc_onward_ca.pub
    """
    from svc.pki.keyring import load_keys
    from svc.pki.ssh_certificates import WORD, missing, public_line

    directory = authority_state(authority_settings(context)) / "keys"
    key = load_keys(directory, time.time, os.urandom).purposes.get(WORD)
    if key is None:
        raise missing(str(directory / f"{WORD}.pem"))
    line = public_line(key)
    print_result(as_json, {"name": kind, "public_key": line}, [line])


ca.add_command(rotation)
