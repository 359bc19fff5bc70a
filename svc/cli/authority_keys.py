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

KINDS = ("transport", "spiffe")
_COPY = (
    "copy {kind}.pem and {kind}.key to keys/ of every other Authority; until then they sign by "
    "the one before, and svc_ca_bundle_stale says so"
)


@click.group(no_args_is_help=False)
def keys() -> None:
    """The cluster's keys that this Authority signs with."""


@keys.command("renew")
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--root-key", type=click.Path(path_type=Path), help="The root's key, where it is kept apart."
)
@click.pass_context
def renew(context: click.Context, kind: str, root_key: Path | None) -> None:
    """Make the next issuing CA of KIND, with a key of its own.

    A running Authority that leads puts it in force at its next reload pass.  What the
    one before has signed stays good to its own end.
    """
    from svc.pki.keyring import renew_issuer
    from svc.pki.profile import DAY

    settings = authority_settings(context)
    directory = authority_state(settings) / "keys"
    lifetime = settings.identity.issuing_ca_days * DAY
    made = renew_issuer(directory, kind, time.time, os.urandom, lifetime, root_key)
    until = moment(made.not_valid_after_utc.timestamp())
    say([f"made the issuing CA {kind}, good until {until}"])
    hint([_COPY.format(kind=kind)])
