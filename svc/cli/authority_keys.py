"""``svc authority keys``: the keys of the cluster, in the directory ``keys/`` of this Authority.

The Authority may run or not; the store is not touched here.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from svc.cli.control import authority_settings, authority_state
from svc.cli.output import hint, moment, say

ISSUERS = ("transport", "spiffe")
ANCHOR = "anchor"
PURPOSES = (ANCHOR, "audit-origin", "grant", "snapshot")
ALL = "all"
_COPY = (
    "copy the files of {kinds} (.pem and .key) to keys/ of every other Authority; until then each "
    "signs by the one before, and svc_ca_bundle_stale says so of an issuing CA"
)
_AUDITORS = (
    "tell the fingerprint of anchor to every auditor: who checks heads of before and after gives "
    "verify_audit.py both, --fingerprint OLD --fingerprint NEW"
)


@click.group(no_args_is_help=False)
def keys() -> None:
    """The cluster's keys that this Authority signs with."""


@keys.command("renew")
@click.argument("kind", type=click.Choice((*ISSUERS, *PURPOSES, ALL)))
@click.option(
    "--root-key", type=click.Path(path_type=Path), help="The root's key, where it is kept apart."
)
@click.pass_context
def renew(context: click.Context, kind: str, root_key: Path | None) -> None:
    """Make the next issuing CA or signing key of KIND; `all` makes each of them.

    `transport` and `spiffe` are the issuing CAs of nodes and persons; `anchor` signs the heads
    of the audit log, `audit-origin` the records of state, `snapshot` and `grant` what Proxies and
    Connectors go by.  A running Authority takes it at its next reload pass, an issuing CA where it
    leads.  What the one before has signed stays good.  Auditors who go by the fingerprint of the
    anchor certificate need that of the new one, too; it is printed.
    """
    from cryptography.hazmat.primitives.hashes import SHA256

    from svc.pki.keyring import renew_issuer, renew_purpose
    from svc.pki.profile import DAY

    settings = authority_settings(context)
    directory = authority_state(settings) / "keys"
    lifetime = settings.identity.issuing_ca_days * DAY
    kinds = (*ISSUERS, *PURPOSES) if kind == ALL else (kind,)
    for one in kinds:
        if one in ISSUERS:
            made = renew_issuer(directory, one, time.time, os.urandom, lifetime, root_key)
        else:
            made = renew_purpose(directory, one, time.time, os.urandom, root_key)
        sort = "issuing CA" if one in ISSUERS else "signing key"
        say([f"made the {sort} {one}, good until {moment(made.not_valid_after_utc.timestamp())}"])
        if one == ANCHOR:
            say([f"SHA-256 fingerprint of {one}: {made.fingerprint(SHA256()).hex()}"])
    hint([_COPY.format(kinds=", ".join(kinds)), *([_AUDITORS] if ANCHOR in kinds else [])])
