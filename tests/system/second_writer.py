"""Another Authority's hand in the store: it holds the cluster's keys, so its records count.

It does not lead, so the Authority that runs writes nothing behind them until it is
started again and takes them over: :func:`taken_over`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from svc.audit.log.record import Sealer
from svc.audit.state.in_force import StateLedger
from svc.authority.state.recorder import Recorder, node
from svc.authority.state.tables import POLICIES
from svc.compose.authority.state import origin_key
from svc.interfaces.store import ITransaction
from svc.model.audit.events import POLICY_ACTIVATE, STATE_ADOPT
from svc.model.audit.record import chain_hash
from svc.pki.audit_signatures import origin_verifier
from svc.pki.keyring import load_keys
from svc.store.sql.transaction import Transaction
from svc.store.sqlite.connection import SqliteStatements, open_writer
from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY

OTHER = "o" * 26


def write(gateway: Gateway, change: Callable[[ITransaction, Recorder], Any]) -> Any:
    """Run *change* as one transaction beside the Authority, with a recorder of this cluster."""
    keys = load_keys(gateway.files.state(AUTHORITY) / "keys", time.time, os.urandom)
    ledger = StateLedger(origin_verifier(keys.root_der, keys.cluster))
    recorder = Recorder(
        origin=OTHER,
        sealer=Sealer(os.urandom),
        now=time.time,
        entropy=os.urandom,
        ledger=ledger,
        key=origin_key(keys),
    )
    with closing(open_writer(str(gateway.files.store))) as connection:
        connection.execute("BEGIN IMMEDIATE")
        result = change(Transaction(SqliteStatements(connection), chain_hash), recorder)
        connection.execute("COMMIT")
    return result


def stored(gateway: Gateway, text: str) -> int:
    """Put a text in force without asking the Authority; its version."""

    def change(tx: ITransaction, recorder: Recorder) -> int:
        version = tx.policies.add(text, "nobody", time.time()).version
        tx.policies.activate(version, time.time())
        state = [POLICIES.now(tx, version)]
        recorder.append(tx, POLICY_ACTIVATE, node(OTHER), policy_version=version, state=state)
        return version

    return int(write(gateway, change))


def removed(gateway: Gateway, version: int) -> None:
    """Take it out again."""

    def change(tx: Any, recorder: Recorder) -> None:
        tx.state._db.change("DELETE FROM policy_versions WHERE version = ?", version)
        state = [POLICIES.now(tx, version)]
        recorder.append(tx, STATE_ADOPT, node(OTHER), details={"count": 1}, state=state)

    write(gateway, change)


def taken_over(gateway: Gateway) -> None:
    """Start the Authority again, which goes on from what was written beside it."""
    gateway.restart(AUTHORITY)

    def all_are_back() -> bool:
        status = gateway.status()
        return bool(status["proxies"] and status["connectors"])

    until("Proxy and Connector are back", all_are_back)
