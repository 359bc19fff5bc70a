"""Tells a row that says nothing from a store that does not answer."""

from __future__ import annotations

from svc.interfaces.store import ITransaction


def require_store(tx: ITransaction) -> None:
    """Return if the store answers: what could not be read is then a row that says nothing.

    Raises:
        StoreUnavailable: it does not answer.
    """
    tx.state.tip()
