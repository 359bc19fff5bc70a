"""Holds the identity of a directory for a command that makes, replaces or removes it.

Several processes write the same few files: ``svc up`` as it renews the certificate, ``svc join``,
``svc login`` and ``svc logout``.  Two of them at once would leave the certificate of one beside the
files of the other.  So whoever comes second waits, and finds what the first left.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from svc.errors import SvcError
from svc.pki.identity_store import IdentityBusy, IdentityStore
from svc.pki.renewal import FIRST_RETRY

JOIN_SECS = 50.0
"""How long a join may take."""

_WAIT_SECS = max(FIRST_RETRY, JOIN_SECS) + 5.0
"""Longer than any renewal takes, which is given up after ``FIRST_RETRY`` seconds, and any join."""
_LOOK_AGAIN_SECS = 0.1


async def held(
    clock: IReactorTime, store: IdentityStore, show: Callable[[str], object], command: str
) -> ExitStack:
    """Wait until nobody else has the identity; it is held until what this returns is closed.

    Args:
        show: Told if it has to wait.
        command: Named where it waits in vain.

    Raises:
        IdentityBusy: another process does not let it go.
    """
    is_told, ends = False, clock.seconds() + _WAIT_SECS
    while True:
        with ExitStack() as stack:
            try:
                stack.enter_context(store.hold())
                return stack.pop_all()
            except IdentityBusy as busy:
                if clock.seconds() >= ends:
                    raise _still_held(busy, command) from None
        if not is_told:
            show("another svc process here is changing the identity; waiting until it has finished")
            is_told = True
        await deferLater(clock, _LOOK_AGAIN_SECS)


def _still_held(busy: SvcError, command: str) -> IdentityBusy:
    return IdentityBusy(
        f"{busy.text}, and has not finished within {_WAIT_SECS:g} seconds; nothing was changed "
        f"here: run `{command}` again, or end the `svc up` that runs here first"
    )
