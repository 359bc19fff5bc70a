"""``svc logout`` behind its options: ends a sign-in, and forgets it on this machine.

``svc up`` may be renewing the certificate meanwhile.  Authority takes the end of a sign-in by
another certificate than its newest for a copy's, and a renewal after the end too; and what a
renewal brings is written over what was removed.  So the two do not overlap: whoever comes second
waits, and finds what the first left.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from twisted.internet.task import deferLater

from svc.client.signin import SignInFile
from svc.errors import SvcError
from svc.join.sign_in import Show
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityBusy, IdentityStore
from svc.pki.renewal import FIRST_RETRY
from svc.runtime.context import Runtime

_WAIT_SECS = FIRST_RETRY + 5.0
"""Longer than any renewal takes: it is given up after ``FIRST_RETRY`` seconds."""
_LOOK_AGAIN_SECS = 0.1


async def sign_out(
    runtime: Runtime,
    directory: Path,
    end: Callable[[TransportIdentity], Awaitable[None]],
    show: Show,
    *,
    keep_files: bool,
) -> None:
    """End the sign-in that the identity in *directory* came by, and remove that identity.

    Args:
        end: Has Authority end the sign-in; given the identity in force.
        show: Told where it has to wait.
        keep_files: Leave the files of the identity, which is not valid any more.

    Raises:
        IdentityBusy: another process has the identity and does not let it go.
        SvcError: it came by no sign-in, or Authority is not reached; nothing was removed.
    """
    store = IdentityStore(directory)
    with await _held(runtime, store, show):
        await end(TransportIdentity.load(store, runtime.now))
        SignInFile(directory).write(0)
        if not keep_files:
            shutil.rmtree(directory / "identity")


async def _held(runtime: Runtime, store: IdentityStore, show: Show) -> ExitStack:
    """Holds the identity until it is closed."""
    clock, is_told = runtime.reactor, False
    ends = clock.seconds() + _WAIT_SECS
    while True:
        with ExitStack() as stack:
            try:
                stack.enter_context(store.hold())
                return stack.pop_all()
            except IdentityBusy as busy:
                if clock.seconds() >= ends:
                    raise _still_held(busy) from None
        if not is_told:
            show("svc up is renewing the certificate of this sign-in; waiting until it has")
            is_told = True
        await deferLater(clock, _LOOK_AGAIN_SECS)


def _still_held(busy: SvcError) -> IdentityBusy:
    return IdentityBusy(
        f"{busy.text}, and has not finished within {_WAIT_SECS:g} seconds; nothing was changed: "
        "run `svc logout` again, or end the `svc up` that runs here first"
    )
