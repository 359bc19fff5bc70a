"""``gate.v1.LocalSignIn``: people sign in without a provider, inside TLS to Authority."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from svc.authority.accounts.codes import MAX_CODE
from svc.authority.accounts.enrollment import Enrollments
from svc.authority.accounts.opened import Presented
from svc.authority.accounts.passwords import MAX_PASSWORD_BYTES
from svc.authority.accounts.secrets import MAX_DEVICE_BYTES
from svc.authority.accounts.security_keys import KeyAnswer, KeySite
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

    async def _sign_in(
        self, request: pb.LocalSignInRequest, call: IRpcCall
    ) -> pb.LocalSignInResponse:
        self._check(request)
        if len(request.code) > MAX_CODE or len(request.device) > MAX_DEVICE_BYTES:
            raise Malformed("sign-in: the code or what names the machine is too long")
        if bool(request.code) == request.HasField("assertion"):
            raise Malformed("sign-in: it needs a code, or a security key's answer")
        try:
            bound, presented = self._presented(request)
        except AttemptOver as over:
            await self.sign_ins.record(Bound.of(over.attempt), over, None)
            raise
        return await self.sign_ins.sign_in(bound, request, presented, call.peer.host)

    def _presented(self, request: pb.LocalSignInRequest) -> tuple[Bound, Presented]:
        """What it is bound to, and what is presented besides the password."""
        if not request.HasField("assertion"):
            bound = Bound(Flow.LOCAL, request.csr, self.issuer.examine(request.csr).sha256)
            return bound, Presented(request.code)
        attempt = self.attempts.take(request.attempt, Flow.LOCAL)
        if attempt.enrollment is not None:
            raise Malformed("sign-in: this attempt is an enrollment")
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

    def _check(self, request: pb.LocalSignInRequest | pb.BeginEnrollmentRequest) -> None:
        """Bounds, before anything is looked for."""
        if not 0 < len(request.name) <= _MAX_NAME or not request.name.isprintable():
            raise Malformed(f"sign-in: the name must have 1 to {_MAX_NAME} printable characters")
        if not 0 < len(request.password.encode()) <= MAX_PASSWORD_BYTES:
            raise Malformed(f"sign-in: the password must have 1 to {MAX_PASSWORD_BYTES} bytes")
        if len(request.version) > _VERSION:
            raise Malformed("sign-in: the version is too long")
        if request.sent_at_ms:
            check_clock(request.sent_at_ms / 1000, self.now(), _SET_THE_CLOCK)
