"""``svc authority users``: what is forgotten of a person."""

from __future__ import annotations

import click

from svc.cli.control import admin
from svc.cli.forms import WORD
from svc.cli.groups import Group
from svc.cli.output import json_option, print_result
from svc.proto.gate.v1 import admin_pb2 as pb

_ERASING_SECS = 900.0
"""A log of millions of records is gone through; what is cut short is finished by asking again."""


@click.group(cls=Group)
def users() -> None:
    """Erase the names of people."""


@users.command("forget-name")
@click.argument("person", type=WORD)
@click.option(
    "--records", is_flag=True, help="Also erase the personal values in records of the person."
)
@json_option
@click.pass_context
def forget_name(context: click.Context, person: str, records: bool, as_json: bool) -> None:
    """Erase the name of PERSON, given by name or id.

    The opaque id stays, in lists and in the log.  With --records, names, addresses, paths and
    notes in records of the person are erased with their salts, and so are the stored entities of
    the person's decisions, which cannot be replayed then.  The log verifies as before.  Copies
    are not changed: exports and backups that were made, and the spool of a Proxy until a signed
    head covers it.

    Example:
        svc --config authority.toml authority users forget-name ada --records
    """
    request = pb.ForgetNameRequest(person=person, records=records)
    told = admin(context)("ForgetName", request, pb.ForgetNameResponse, _ERASING_SECS)
    line = f"forgot the name of {told.id}" if told.changed else f"{told.id} has no name"
    lines = [line, f"erased {told.erased} value(s) in records"] if records else [line]
    result = {
        "id": told.id,
        "changed": told.changed,
        "erased": told.erased if records else None,
    }
    print_result(as_json, result, lines)
