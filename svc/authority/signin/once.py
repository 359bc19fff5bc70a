"""Issues one certificate where the same is asked for again because an answer was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from svc.authority.state.recorder import RecordedOnce
from svc.interfaces.store import ITransaction
from svc.model.audit.ledger import ChainRow


@define(eq=False)
class IssuedOnce:
    """What one device code or one token of a machine gives (rule R35).

    A store that does not answer, or a caller that breaks off, leaves open whether the
    transaction was committed.  The next one looks at the log before it issues anything.
    """

    _record: RecordedOnce = field(factory=RecordedOnce)
    _issued: Any = field(default=None, init=False, repr=False)

    def issue(self, tx: ITransaction, issue: Callable[[ITransaction], Any]) -> Any:
        """What was issued, by an earlier transaction or now; called inside a store function.

        Args:
            issue: Appends a record of what it issues, and returns that.
        """

        def append(tx: ITransaction) -> ChainRow:
            self._issued = issue(tx)
            return tx.audit.tail(1)[-1]

        self._record.append(tx, append)
        return self._issued
