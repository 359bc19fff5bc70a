"""``svc login`` without a provider: password and second factor go to Authority, and nowhere else.

They are said inside TLS to the pinned Authority, as everything of a sign-in is; a
Proxy on the way sees ciphertext.  Nothing of them is kept on this machine.  What is
kept is ``known-device``: it only keeps strangers' failures from counting as ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from svc import __version__
from svc.errors import Fault, SvcError
from svc.join.sign_in import BrowserVisit, MachineSignIn, OpenBrowser, SignedInPerson
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.proto.gate.v1 import account_pb2 as pb
from svc.runtime import durable

CHALLENGE_METHOD = "/gate.v1.LocalSignIn/Challenge"
SIGN_IN_METHOD = "/gate.v1.LocalSignIn/SignIn"
BEGIN_METHOD = "/gate.v1.LocalSignIn/BeginEnrollment"
COMPLETE_METHOD = "/gate.v1.LocalSignIn/CompleteEnrollment"
BEGIN_PASSKEY_METHOD = "/gate.v1.LocalSignIn/BeginPasskey"
COMPLETE_PASSKEY_METHOD = "/gate.v1.LocalSignIn/CompletePasskey"
RULE_METHOD = "/gate.v1.LocalSignIn/PasswordRule"
NOT_CONFIGURED = "sign_in_not_configured"
"""The reason of a cluster without a provider."""

DEVICE_FILE = "known-device"
_MAX_DEVICE = 128
_WRONG_CODE = "code_wrong"

Ask = Callable[[str, bool], str]
"""Asks the person for a line; with True it is not shown while it is typed."""


@frozen
class KeyRequest:
    """What a security key is asked to sign for.

    Attributes:
        user: The name of the person.
        user_handle: With a registration: by what the key keeps it.
    """

    challenge: bytes
    rp_id: str
    origin: str
    user: str
    user_handle: bytes = b""


@frozen
class SecurityKey:
    """Asks the security key on this machine; both wait for its holder.

    Attributes:
        register: Makes a new credential.
        sign: Signs with one that is there.
    """

    register: Callable[[KeyRequest], Awaitable[pb.KeyRegistration]]
    sign: Callable[[KeyRequest], Awaitable[pb.KeyAssertion]]


@frozen
class SignedInHere:
    """What a sign-in without a provider came to.

    Attributes:
        recovery_codes: New ones; only after an enrollment.
        recovery_left: How many codes are left.
    """

    person: SignedInPerson
    recovery_left: int
    recovery_codes: Sequence[str] = field(default=(), repr=False)


@frozen
class PasskeyBrowser:
    """How passkeys are asked for.

    Attributes:
        open: None: the person opens the address.
        enrolls: Whether the second factor of an enrollment is a passkey.
    """

    open: OpenBrowser | None = None
    enrolls: bool = False


@frozen
class LocalLogin:
    """One sign-in, or enrollment, from this machine.

    Attributes:
        show_uri: Shows what an authenticator app reads.
        key: None: the second factor is a code.
        browser: Where passkeys are used and made.
    """

    machine: MachineSignIn
    ask: Ask
    show_uri: Callable[[str], object]
    key: SecurityKey | None = None
    browser: PasskeyBrowser = PasskeyBrowser()

    async def sign_in(self, name: str) -> SignedInHere:
        """Ask for password and second factor, and sign in.

        Raises:
            SvcError: refused or not reached; nothing was replaced.
        """
        store = IdentityStore(self.machine.place.directory)
        key = store.pending_key()
        asked = await self._asked(name, make_request(key))
        answer = await self.machine.unary(SIGN_IN_METHOD, asked, pb.LocalSignInResponse)
        return await self._taken(store, key, answer)

    async def by_passkey(self, adds_to: str | None = None) -> SignedInHere:
        """Sign in with a passkey, in a browser.

        Args:
            adds_to: Whose account gets a new one, after password and second factor, instead.

        Raises:
            SvcError: refused or not reached; nothing was replaced.
        """
        store = IdentityStore(self.machine.place.directory)
        key = store.pending_key()
        added_to = None if adds_to is None else await self._asked(adds_to, make_request(key))

        async def begin(port: int) -> pb.BrowserAttempt:
            asked = pb.BeginPasskeyRequest(
                csr=make_request(key),
                port=port,
                version=__version__,
                sent_at_ms=self._now_ms(),
                added_to=added_to,
            )
            begun: pb.BrowserAttempt = await self.machine.unary(
                BEGIN_PASSKEY_METHOD, asked, pb.BrowserAttempt
            )
            return begun

        async def end(attempt: str, query: str) -> SignedInHere:
            completed = pb.CompletePasskeyRequest(attempt=attempt, query=query)
            answer = await self.machine.unary(
                COMPLETE_PASSKEY_METHOD, completed, pb.LocalSignInResponse
            )
            return await self._taken(store, key, answer)

        return await self._visited(begin, end)

    async def _visited(
        self,
        begin: Callable[[int], Awaitable[pb.BrowserAttempt]],
        end: Callable[[str, str], Awaitable[SignedInHere]],
    ) -> SignedInHere:
        async def visit(port: int) -> BrowserVisit:
            begun = await begin(port)
            self.machine.show("Use your passkey in the browser; if none opens, open this address:")
            return BrowserVisit(
                url=begun.url,
                state=begun.state,
                expires_in=float(begun.expires_in),
                attempt=begun.attempt,
            )

        return await self.machine.visited(
            visit,
            lambda visit, query: end(visit.attempt, query),
            self.browser.open,
            lambda done: done.person.name,
        )

    async def _asked(self, name: str, csr: bytes) -> pb.LocalSignInRequest:
        """Password and second factor, which the person is asked for."""
        asked = pb.LocalSignInRequest(
            csr=csr,
            name=name,
            password=self.ask("Password", True),
            device=self._device(),
            version=__version__,
            sent_at_ms=self._now_ms(),
        )
        if self.key is None:
            asked.code = self.ask("Code from the authenticator app, or a recovery code", False)
        else:
            await self._sign(asked, self.key)
        return asked

    async def password_least(self) -> int:
        """How many characters a new password has at least; 0: Authority does not say.

        Raises:
            SvcError: not reached.
        """
        try:
            told = await self.machine.unary(
                RULE_METHOD, pb.PasswordRuleRequest(), pb.PasswordRuleResponse
            )
        except SvcError as refused:
            if refused.fault is not Fault.UNIMPLEMENTED:
                raise
            return 0  # of an earlier build
        return int(told.least)

    async def enroll(
        self, name: str, code: str, password: str, *, first_administrator: bool
    ) -> SignedInHere:
        """Set a password and a second factor with a one-time code, and sign in.

        Raises:
            SvcError: refused or not reached; nothing was replaced.
        """
        store = IdentityStore(self.machine.place.directory)
        key = store.pending_key()
        asked = pb.BeginEnrollmentRequest(
            csr=make_request(key),
            name=name,
            code=code,
            first_administrator=first_administrator,
            password=password,
            security_key=self.key is not None,
            version=__version__,
            sent_at_ms=self._now_ms(),
        )
        if self.browser.enrolls:
            return await self._enrolled(store, key, asked)
        begun = await self.machine.unary(BEGIN_METHOD, asked, pb.BeginEnrollmentResponse)
        answer = await self._completed(name, begun)
        return await self._taken(store, key, answer)

    async def _enrolled(
        self, store: IdentityStore, key: Any, asked: pb.BeginEnrollmentRequest
    ) -> SignedInHere:
        """Complete an enrollment in a browser."""

        async def begin(port: int) -> pb.BrowserAttempt:
            asked.passkey, asked.port = True, port
            begun = await self.machine.unary(BEGIN_METHOD, asked, pb.BeginEnrollmentResponse)
            browser: pb.BrowserAttempt = begun.browser
            return browser

        async def end(attempt: str, query: str) -> SignedInHere:
            completed = pb.CompleteEnrollmentRequest(attempt=attempt, query=query)
            return await self._taken(store, key, await self._complete(completed))

        return await self._visited(begin, end)

    async def _completed(
        self, name: str, begun: pb.BeginEnrollmentResponse
    ) -> pb.LocalSignInResponse:
        asked = pb.CompleteEnrollmentRequest(attempt=begun.attempt)
        if self.key is not None:
            wanted = KeyRequest(
                challenge=begun.challenge,
                rp_id=begun.rp_id,
                origin=begun.origin,
                user=name,
                user_handle=begun.user_handle,
            )
            asked.registration.CopyFrom(await self.key.register(wanted))
            return await self._complete(asked)
        self.show_uri(begun.totp_uri)
        while True:
            asked.code = self.ask("Code that the app shows now", False)
            try:
                return await self._complete(asked)
            except SvcError as refused:
                # After several the attempt is over, and says so.
                if refused.reason != _WRONG_CODE:
                    raise
                self.machine.show(refused.text)

    async def _complete(self, asked: pb.CompleteEnrollmentRequest) -> pb.LocalSignInResponse:
        answer: pb.LocalSignInResponse = await self.machine.unary(
            COMPLETE_METHOD, asked, pb.LocalSignInResponse
        )
        return answer

    async def _sign(self, asked: pb.LocalSignInRequest, key: SecurityKey) -> None:
        given: pb.ChallengeResponse = await self.machine.unary(
            CHALLENGE_METHOD, pb.ChallengeRequest(csr=asked.csr), pb.ChallengeResponse
        )
        wanted = KeyRequest(
            challenge=given.challenge, rp_id=given.rp_id, origin=given.origin, user=asked.name
        )
        asked.assertion.CopyFrom(await key.sign(wanted))
        asked.attempt = given.attempt

    async def _taken(
        self, store: IdentityStore, key: Any, answer: pb.LocalSignInResponse
    ) -> SignedInHere:
        person = await self.machine.adopt(store, key, answer.signed_in)
        if 0 < len(answer.device) <= _MAX_DEVICE:
            durable.replace(self._device_path, answer.device)
        return SignedInHere(person, answer.recovery_codes_left, tuple(answer.recovery_codes))

    @property
    def _device_path(self) -> Path:
        return self.machine.place.directory / DEVICE_FILE

    def _device(self) -> bytes:
        try:
            with self._device_path.open("rb") as file:
                return file.read(_MAX_DEVICE)
        except OSError:
            return b""

    def _now_ms(self) -> int:
        return int(self.machine.runtime.now() * 1000)


def needs_account(refused: SvcError) -> bool:
    """Whether a refused sign-in says that there is no provider, so that accounts are kept there."""
    return refused.fault is Fault.PRECONDITION and refused.reason == NOT_CONFIGURED
