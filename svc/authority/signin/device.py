"""Signing in with a code that is typed on another device (RFC 8628).

Authority has the device code, and asks the provider only when the machine that
waits asks it: nobody waits, nobody polls.  The settings of ``[oidc.device]``
move what the provider says in one direction only.
"""

from __future__ import annotations

from math import ceil

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from svc.authority.signin.attempts import ATTEMPT_SECS, Attempt, AttemptOver, Attempts, Flow
from svc.authority.signin.entrance import Bound, Entrance, SignInRules
from svc.authority.signin.id_token import ExpectedToken
from svc.authority.signin.provider import (
    PENDING,
    SLOW_DOWN,
    ProviderRefused,
    TokenAnswer,
)
from svc.authority.signin.refusals import SignInRefused
from svc.errors import Fault, SvcError
from svc.proto.gate.v1 import sign_in_pb2 as pb

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SLOWER_SECS = 5
"""What ``slow_down`` adds to the interval (RFC 8628, 3.5)."""


@define
class DeviceSignIns:
    """Begins and polls them."""

    entrance: Entrance
    attempts: Attempts
    clock: IReactorTime

    async def begin(self, csr: bytes, key_sha256: bytes) -> pb.SignInBeginResponse:
        """What the person is to open and type.

        Raises:
            SvcError: the provider offers it not, or is not reached.
        """
        rules, provider = self.entrance.rules, self.entrance.configured
        scope = " ".join(rules.scopes)
        given = await provider.device_code({"scope": scope, **rules.extra_params})
        secs = min(given.expires_in, rules.expires_in or given.expires_in, int(ATTEMPT_SECS))
        attempt = self.attempts.begin(Flow.DEVICE, csr, key_sha256, secs)
        attempt.device_code = given.device_code
        attempt.interval = max(given.interval, rules.interval or 0)
        attempt.due = self.clock.seconds() + attempt.interval
        return pb.SignInBeginResponse(
            attempt=attempt.id,
            url=given.url,
            user_code=given.user_code,
            complete_url=given.complete_url,
            interval=attempt.interval,
            expires_in=secs,
            issuer=provider.issuer,
        )

    async def poll(self, attempt_id: str) -> pb.SignInPollResponse:
        """Ask the provider, if it is time; the certificate once the person has signed in.

        Raises:
            SvcError: it was denied, took too long, or the provider's answer is refused.
        """
        try:
            attempt = self.attempts.find(attempt_id, Flow.DEVICE)
        except AttemptOver as over:
            expired = _expired()
            await self.entrance.record(Bound.of(over.attempt), expired)
            raise expired from None
        left = attempt.due - self.clock.seconds()
        if left > 0 or attempt.is_polled:
            return pb.SignInPollResponse(wait=max(1, ceil(left)))
        attempt.is_polled = True
        try:
            signed_in = await self._signed_in(attempt)
        except CancelledError:
            # A caller whose time is up polls again; the log tells then who was let in.
            raise
        except Exception as failure:
            if not _may_pass(failure):
                self.attempts.end(attempt)
            raise
        finally:
            attempt.is_polled = False
            attempt.due = self.clock.seconds() + attempt.interval
        if signed_in is None:
            return pb.SignInPollResponse(wait=attempt.interval)
        self.attempts.end(attempt)
        return pb.SignInPollResponse(signed_in=signed_in)

    async def _signed_in(self, attempt: Attempt) -> pb.SignInResponse | None:
        """Who has signed in; None: nobody yet."""
        bound, provider = Bound.of(attempt), self.entrance.configured
        # A code is good for one answer: the poll that follows a failure goes on with it.
        tokens = attempt.tokens
        if tokens is None:
            try:
                tokens = attempt.tokens = await self._tokens(attempt)
            except SvcError as refusal:
                if not _may_pass(refusal):
                    await self.entrance.record(bound, refusal)
                raise
        if tokens is None:
            return None
        expected = ExpectedToken(
            issuer=provider.issuer,
            audience=provider.client_id,
            access_token=tokens.access_token,
        )
        return await self.entrance.admit(
            bound, tokens.id_token, expected, tokens.refresh, take=lambda claims: attempt.once
        )

    async def _tokens(self, attempt: Attempt) -> TokenAnswer | None:
        """The tokens; None while the person has not signed in yet."""
        form = {"grant_type": GRANT, "device_code": attempt.device_code}
        try:
            return await self.entrance.configured.redeem(form)
        except ProviderRefused as refused:
            if refused.error == SLOW_DOWN:
                attempt.interval += SLOWER_SECS
                return None
            if is_pending(refused, self.entrance.rules):
                return None
            raise _named(refused) from None


def _may_pass(failure: Exception) -> bool:
    return isinstance(failure, SvcError) and failure.fault is Fault.UNAVAILABLE


def is_pending(refused: ProviderRefused, rules: SignInRules) -> bool:
    """Whether a refusal only says that the person has not signed in yet (U-OPEN-16); pure."""
    if refused.error == PENDING:
        return True
    return refused.error == "invalid_grant" and any(
        refused.description.startswith(text) for text in rules.pending_errors
    )


def _named(refused: ProviderRefused) -> SignInRefused:
    if refused.error == "access_denied":
        return SignInRefused(
            "the sign-in was denied at the identity provider", reason="sign_in_denied"
        )
    if refused.error == "expired_token":
        return _expired()
    return refused


def _expired() -> SignInRefused:
    return SignInRefused(
        "nobody signed in with the code in time; run `svc login` again", reason="device_expired"
    )
