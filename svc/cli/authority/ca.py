"""``svc authority ca``: the public keys that others trust by themselves."""

from __future__ import annotations

import os
import time

import click

from svc.cli.control import authority_settings, authority_state
from svc.cli.groups import Group
from svc.cli.output import json_option, print_result

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
    """
    from svc.pki.keyring import load_keys
    from svc.pki.ssh_certificates import WORD, missing, public_line

    directory = authority_state(authority_settings(context)) / "keys"
    key = load_keys(directory, time.time, os.urandom).purposes.get(WORD)
    if key is None:
        raise missing(str(directory / f"{WORD}.pem"))
    line = public_line(key)
    print_result(as_json, {"name": kind, "public_key": line}, [line])
