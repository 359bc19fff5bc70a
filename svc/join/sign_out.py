"""``svc logout`` behind its options: ends a sign-in, and forgets it on this machine.

``svc up`` may be renewing the certificate meanwhile.  Authority takes the end of a sign-in by
another certificate than its newest for a copy's, and a renewal after the end too; and what a
renewal brings is written over what was removed.  So the two do not overlap: whoever comes second
waits, and finds what the first left.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from svc.client.signin import SignInFile
from svc.join.held import held
from svc.join.sign_in import Show
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.runtime.context import Runtime


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
    with await held(runtime.reactor, store, show, "svc logout"):
        await end(TransportIdentity.load(store, runtime.now))
        SignInFile(directory).write(0)
        if not keep_files:
            shutil.rmtree(directory / "identity")
