"""``svc authority audit erase``: one personal value of one recorded request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from svc.cli.control import admin
from svc.cli.forms import WORD
from svc.cli.output import json_option, print_result
from svc.proto.gate.v1 import admin_pb2 as pb

if TYPE_CHECKING:
    from svc.model.canonical import Json

LARGEST = 2**63 - 1


def request_place(text: str) -> tuple[int, int | None]:
    """The number of a record, and of a request in it if one is named."""
    number, dot, index = text.partition(".")
    words = [number, index] if dot else [number]
    if not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
        raise click.UsageError("SEQ must be a number, or SEQ.INDEX as `audit show` writes it")
    if not 1 <= int(number) <= LARGEST:
        raise click.UsageError(f"SEQ must be from 1 to {LARGEST}")
    return int(number), int(index) if dot else None


@click.command("erase")
@click.argument("place", metavar="SEQ.INDEX", type=WORD)
@click.argument("path", metavar="FIELD", type=WORD)
@click.option("--reason", required=True, type=WORD, help="The reason, for the audit record.")
@json_option
@click.pass_context
def erase(context: click.Context, place: str, path: str, reason: str, as_json: bool) -> None:
    r"""Erase the personal value FIELD of the recorded request SEQ.INDEX.

    FIELD is its name in `svc authority audit show --long`, such as
    request.context.proxy_reported. The log verifies as before, because a record names what was
    erased. Copies are not changed: backups, exports, and the spool of a Proxy until a signed head
    covers the batch.

    Example:
        svc --config authority.toml authority audit erase 4711.0 request.context.proxy_reported \
            --reason "asked for by the person"
    """
    seq, index = request_place(place)
    if index is None:
        raise click.UsageError("name one request, as SEQ.INDEX")
    request = pb.EraseValueRequest(seq=seq, index=index, path=path, note=reason)
    answer = admin(context)("EraseValue", request, pb.EraseValueResponse)
    form: dict[str, Json] = {"request": f"{seq}.{index}", "field": path, "seq": answer.seq}
    print_result(as_json, form, [f"erased {path} of request {place}: record {answer.seq}"])
