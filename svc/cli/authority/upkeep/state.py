"""``svc authority state``: rows that no signed record stands behind yet.

For a store of before these records: an operator looks at what it holds and
takes that over, knowingly.  The Authority does it at its next start.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli.control import authority_settings, authority_state
from svc.cli.forms import root_key_option
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, print_result, table
from svc.errors import Fault, SvcError

if TYPE_CHECKING:
    from svc.interfaces.store import ITransaction
    from svc.model.audit.state import StateEntry


@click.group(cls=Group)
def state() -> None:
    """Adopt rows of the store that no signed record covers."""


@state.command("adopt")
@click.option("--yes", is_flag=True, help="Adopt the rows shown at the next start.")
@root_key_option
@json_option
@click.pass_context
def adopt(context: click.Context, yes: bool, root_key: Path | None, as_json: bool) -> None:
    """Adopt the rows of a store that was written before svc signed its records.

    Without --yes it only shows how many rows there are.  Review them first, with the version of
    svc that wrote them: policies with `svc authority policy show`, persons, nodes and resources
    with their `list` commands.  With --yes it creates the key that signs records, if the cluster
    has none yet, and the next start adopts exactly the rows shown.  If any of them changes before
    then, the start is refused.
    """
    from svc.authority.state.adopt import (
        AdoptionRequest,
        adoption_request_file,
        counts,
        fingerprint,
    )
    from svc.authority.state.tables import rows_now
    from svc.compose.authority.state import ADOPTION_REQUEST
    from svc.ops.store import store_place
    from svc.pki.keyring import add_purpose

    settings = authority_settings(context)
    directory, at = authority_state(settings), time.time()

    def look(tx: ITransaction) -> list[StateEntry]:
        if tx.state.tip():
            raise SvcError(
                "the store already has signed records; there is nothing to adopt",
                reason="state_adopted",
                fault=Fault.PRECONDITION,
            )
        return list(rows_now(tx, at).values())

    place = store_place(settings)
    place.factory.migration_status(place.url).require_current()
    entries = place.look("state adopt", look)
    request = AdoptionRequest(fingerprint(entries), at, os.getuid())
    rows = [{"name": name, "count": count} for name, count in counts(entries).items()]
    result = {"rows": rows, "fingerprint": request.fingerprint, "adopt": yes}
    print_result(as_json, result, table(("ROWS", "COUNT"), counts(entries).items()))
    if not yes:
        hint(["nothing was changed; to adopt these rows, run this again with --yes"])
        return
    if add_purpose(directory / "keys", "audit-origin", time.time, os.urandom, root_key):
        hint(["made the key audit-origin"])
    adoption_request_file(directory / "anchor" / ADOPTION_REQUEST).write(request)
    hint(["this Authority will adopt these rows at its next start"])
