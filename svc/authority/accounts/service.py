"""``gate.v1.LocalSignIn``: people sign in without a provider, inside TLS to Authority."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.accounts.codes import MAX_CODE
from svc.authority.accounts.enrollment import Enrollments
from svc.authority.accounts.opened import Presented
from svc.authority.accounts.passkeys import Passkeys
from svc.authority.accounts.passwords import MAX_PASSWORD_BYTES
from svc.authority.accounts.secrets import MAX_DEVICE_BYTES
from svc.authority.accounts.security_keys import KeyAnswer, KeyRefused, KeySite
from svc.authority.accounts.sign_in import LocalSignIns, key_challenge
from svc.authority.signin.attempts import ATTEMPT_SECS, AttemptOver, Attempts, Flow
from svc.authority.signin.entrance import Bound
from svc.errors import Malformed
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.model.clocks import check_clock
from svc.pki.enroll import CertificateIssuer
from svc.proto.gate.v1 import account_pb2 as pb

_MAX_NAME = 128
_VERSION = 63
_SET_THE_CLOCK = "set the clock and sign in again"


@define
class LocalSignInService:
    """Serves people without a provider; anyone who reaches the join listener may ask."""

    sign_ins: LocalSignIns
    enrollments: Enrollments
    passkeys: Passkeys
    attempts: Attempts
    issuer: CertificateIssuer
    site: KeySite
    now: Callable[[], float]

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        return RpcService(
            "gate.v1.LocalSignIn",
            {
                "Challenge": unary(pb.ChallengeRequest, self._challenge),
                "SignIn": unary(pb.LocalSignInRequest, self._sign_in),
                "BeginEnrollment": unary(pb.BeginEnrollmentRequest, self._begin),
                "CompleteEnrollment": unary(pb.CompleteEnrollmentRequest, self._complete),
                "BeginPasskey": unary(pb.BeginPasskeyRequest, self._begin_passkey),
                "CompletePasskey": unary(pb.CompletePasskeyRequest, self._complete_passkey),
                "PasswordRule": unary(pb.PasswordRuleRequest, self._password_rule),
            },
        )

    async def _challenge(
        self, request: pb.ChallengeRequest, call: IRpcCall
    ) -> pb.ChallengeResponse:
        key_sha256 = self.issuer.examine(request.csr).sha256
        attempt = self.attempts.begin(Flow.LOCAL, request.csr, key_sha256, ATTEMPT_SECS)
        return pb.ChallengeResponse(
            attempt=attempt.id,
            challenge=key_challenge(attempt),
            rp_id=self.site.rp_id,
            origin=self.site.origin,
        )

    async def _password_rule(
        self, request: pb.PasswordRuleRequest, call: IRpcCall
    ) -> pb.PasswordRuleResponse:
        return pb.PasswordRuleResponse(least=self.enrollments.password_min)

    async def _sign_in(
        self, request: pb.LocalSignInRequest, call: IRpcCall
    ) -> pb.LocalSignInResponse:
        bound, presented = await self._presented_in_time(request)
        return await self.sign_ins.sign_in(bound, request, presented, call.peer.host)

    async def _presented_in_time(self, request: pb.LocalSignInRequest) -> tuple[Bound, Presented]:
        """As :meth:`_presented`; what comes too late is put on record."""
        try:
            return self._presented(request)
        except AttemptOver as over:
            await self.sign_ins.record(Bound.of(over.attempt), over, None)
            raise

    def _presented(self, request: pb.LocalSignInRequest) -> tuple[Bound, Presented]:
        """What it is bound to, and what is presented besides the password."""
        self._check(request)
        if len(request.code) > MAX_CODE or len(request.device) > MAX_DEVICE_BYTES:
            raise Malformed("sign-in: the code or what names the machine is too long")
        if bool(request.code) == request.HasField("assertion"):
            raise Malformed("sign-in: it needs a code, or a security key's answer")
        if not request.HasField("assertion"):
            bound = Bound(Flow.LOCAL, request.csr, self.issuer.examine(request.csr).sha256)
            return bound, Presented(request.code)
        attempt = self.attempts.take(request.attempt, Flow.LOCAL)
        if attempt.enrollment is not None or attempt.browser is not None:
            raise Malformed("sign-in: this attempt is an enrollment, or a browser's")
        made = request.assertion
        answer = KeyAnswer(
            credential_id=made.credential_id,
            client_data=made.client_data,
            authenticator_data=made.authenticator_data,
            signature=made.signature,
        )
        return Bound.of(attempt), Presented("", key_challenge(attempt), answer)

    async def _begin(
        self, request: pb.BeginEnrollmentRequest, call: IRpcCall
    ) -> pb.BeginEnrollmentResponse:
        self._check(request)
        if len(request.code) > MAX_CODE:
            raise Malformed("enrollment: the code is too long")
        key_sha256 = self.issuer.examine(request.csr).sha256
        return await self.enrollments.begin(Bound(Flow.LOCAL, request.csr, key_sha256), request)

    async def _complete(
        self, request: pb.CompleteEnrollmentRequest, call: IRpcCall
    ) -> pb.LocalSignInResponse:
        return await self.enrollments.complete(request)

    async def _begin_passkey(
        self, request: pb.BeginPasskeyRequest, call: IRpcCall
    ) -> pb.BrowserAttempt:
        self._check_told(request.version, request.sent_at_ms)
        key_sha256 = self.issuer.examine(request.csr).sha256
        bound, passkeys = Bound(Flow.LOCAL, request.csr, key_sha256), self.passkeys
        if not request.HasField("added_to"):
            return passkeys.told(passkeys.begin(bound, request.port))
        asked = request.added_to
        asked.csr = request.csr
        proof, presented = await self._presented_in_time(asked)
        if proof.key_sha256 != key_sha256:
            # A security key answered for one key: it lets in no other (rule R35).
            refusal = KeyRefused(
                "the security key answered for another key than the one to be certified; run "
                "`svc login --add-passkey` again",
                reason="key_challenge",
            )
            await self.sign_ins.record(bound, refusal, None)
            raise refusal
        attempt = await passkeys.begin_added(bound, request.port, asked, presented, call.peer.host)
        return passkeys.told(attempt)

    async def _complete_passkey(
        self, request: pb.CompletePasskeyRequest, call: IRpcCall
    ) -> pb.LocalSignInResponse:
        return await self.passkeys.complete(request)

    def _check(self, request: pb.LocalSignInRequest | pb.BeginEnrollmentRequest) -> None:
        """Bounds, before anything is looked for."""
        if not 0 < len(request.name) <= _MAX_NAME or not request.name.isprintable():
            raise Malformed(f"sign-in: the name must have 1 to {_MAX_NAME} printable characters")
        if not 0 < len(request.password.encode()) <= MAX_PASSWORD_BYTES:
            raise Malformed(f"sign-in: the password must have 1 to {MAX_PASSWORD_BYTES} bytes")
        self._check_told(request.version, request.sent_at_ms)

    def _check_told(self, version: str, sent_at_ms: int) -> None:
        if len(version) > _VERSION:
            raise Malformed("sign-in: the version is too long")
        if sent_at_ms:
            check_clock(sent_at_ms / 1000, self.now(), _SET_THE_CLOCK)
