"""Renews a person's certificate in the background, where it came by a sign-in that can be.

``sign-in.json`` beside the identity says until when; no token of the provider is
on this machine.  Once a renewal is refused for good, the file is removed and the
warnings before the certificate's end say how to go on.

Commands write to the same directory meanwhile: whoever signs in there, as the same person or as
another, is not to find their identity replaced by a renewal of the one before.  Who signs out there
holds the identity meanwhile (``IdentityStore.hold``), as each try to renew does.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from attrs import define, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svc.errors import Denied, Fault, SvcError
from svc.model.certificate import CertificateFacts
from svc.pki.identity import TransportIdentity
from svc.pki.renewal import Renew, RenewalLoop
from svc.runtime import durable

_log = Logger(namespace="svc_client")

SIGN_IN_FILE = "sign-in.json"
_MAX_FILE = 4096
_LOOK_AGAIN = 60.0
"""The file is written a moment after the identity that it is of."""

_FOR_GOOD = (Fault.DENIED, Fault.UNAUTHENTICATED, Fault.PRECONDITION, Fault.UNIMPLEMENTED)


@frozen
class SignInFile:
    """Until when the certificate in a directory is renewed; blocks for the disk."""

    directory: Path

    @property
    def path(self) -> Path:
        """Of the file."""
        return self.directory / SIGN_IN_FILE

    def renew_until(self) -> float:
        """Seconds since the epoch; 0 where nothing is renewed, or the file says nothing."""
        try:
            with self.path.open("rb") as file:
                found = json.loads(file.read(_MAX_FILE)).get("renew_until")
        except (OSError, ValueError, AttributeError):
            return 0.0
        return float(found) if isinstance(found, int | float) else 0.0

    def write(self, renew_until: float) -> None:
        """Say until when; 0: nothing is renewed."""
        if renew_until > 0:
            durable.replace(self.path, json.dumps({"renew_until": renew_until}).encode() + b"\n")
        else:
            self.path.unlink(missing_ok=True)


@frozen
class RenewedSignIn:
    """What Authority answered to a renewal."""

    chain: tuple[bytes, ...]
    renew_until: float


@define(slots=False, eq=False)
class SignInRenewal(Service):
    """Renews while it may; begins again when another sign-in is found.

    Attributes:
        ask: Asks Authority, with the certificate in use.
        check: Raises SvcError unless the identity in use is the one on disk, or became it.
        loop: Makes the loop that renews at two thirds of a certificate's life.
    """

    identity: TransportIdentity
    file: SignInFile
    clock: IReactorTime
    now: Callable[[], float]
    ask: Callable[[bytes], Awaitable[RenewedSignIn]]
    check: Callable[[], object]
    loop: Callable[[Renew], RenewalLoop]
    _running: RenewalLoop | None = field(default=None, init=False)
    _again: IDelayedCall | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.identity.on_renewed(self._taken)

    def startService(self) -> None:
        """Begin, if there is something to renew."""
        Service.startService(self)
        self._look()

    def stopService(self) -> Deferred[None]:
        """Stop; fires when a try under way has ended."""
        Service.stopService(self)
        if self._again is not None and self._again.active():
            self._again.cancel()
        return self._halt()

    def _taken(self, _: CertificateFacts) -> None:
        if self.running and self._running is None and self._again is not None:
            self._again.reset(0)

    def _look(self) -> None:
        if not self.running:
            return
        self._again = self.clock.callLater(_LOOK_AGAIN, self._look)
        is_due = self.file.renew_until() > self.now() and self.identity.problem is None
        if self._running is None and is_due:
            self._running = self.loop(self._renew)
            self._running.startService()

    def _halt(self) -> Deferred[None]:
        running, self._running = self._running, None
        return succeed(None) if running is None else running.stopService()

    async def _renew(self, csr: bytes) -> tuple[bytes, ...]:
        chain = self.identity.chain
        if self.file.renew_until() <= self.now():
            # Authority takes a renewal after the sign-out for a copy's, and takes approvals away.
            over = Denied("this sign-in has ended here; run `svc login`", reason="sign_in_ended")
            self._end(over)
            raise over
        self._require_still(chain)
        try:
            renewed = await self.ask(csr)
        except SvcError as refusal:
            if refusal.fault in _FOR_GOOD and self._is_still(chain):
                self._end(refusal)
            raise
        self._require_still(chain)
        self.file.write(renewed.renew_until)
        return renewed.chain

    def _require_still(self, chain: tuple[bytes, ...]) -> None:
        """Return if the identity on disk is the one with this *chain*."""
        self.check()
        if self.identity.chain != chain:
            raise SvcError(
                "there is a newer sign-in in this directory; nothing of the one before is renewed",
                reason="sign_in_replaced",
                fault=Fault.ABORTED,
            )

    def _is_still(self, chain: tuple[bytes, ...]) -> bool:
        try:
            self._require_still(chain)
        except SvcError:
            return False
        return True

    def _end(self, refusal: SvcError) -> None:
        self.file.write(0)
        _log.warn(
            "your certificate is not renewed any more; run `svc login` before it ends",
            reason=refusal.reason,
            error=refusal.text,
        )
        self.clock.callLater(0, self._halt)
