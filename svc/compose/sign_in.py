"""The renewal of a person's certificate that came by a sign-in, wired."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from svc.client.signin import SignInFile, SignInRenewal
from svc.config import Address
from svc.join.sign_in import SignInPlace, renew_sign_in
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.renewal import RenewalLoop
from svc.pki.verify import ca_pin
from svc.runtime.context import Runtime


def sign_in_renewal(
    *,
    runtime: Runtime,
    proxies: tuple[Address, ...],
    state: Path,
    store: IdentityStore,
    identity: TransportIdentity,
    check: Callable[[], object],
) -> SignInRenewal:
    """Renews the certificate where it came by a sign-in.

    Args:
        check: Raises SvcError unless the identity in use is the one on disk, or became it.
    """
    place = SignInPlace(
        directory=state,
        proxies=proxies,
        authority=None,
        pin=ca_pin(identity.verifier.root),
        writes_config=False,
    )
    return SignInRenewal(
        identity=identity,
        file=SignInFile(state),
        clock=runtime.reactor,
        now=runtime.now,
        ask=lambda csr: renew_sign_in(runtime, place, identity, csr),
        check=check,
        loop=lambda renew: RenewalLoop(
            identity,
            store,
            renew,
            clock=runtime.reactor,
            now=runtime.now,
            entropy=runtime.entropy,
            on_outcome=lambda _: None,
            alone=store.hold,
        ),
    )
