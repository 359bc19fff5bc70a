"""``gate.v1.SignIn``: people sign in at the identity provider, inside TLS to Authority."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from svc.authority.signin.assertion import TakenAssertions
from svc.authority.signin.attempts import ATTEMPT_SECS, AttemptOver, Attempts, Flow
from svc.authority.signin.device import DeviceSignIns
from svc.authority.signin.entrance import Bound, Entrance
from svc.authority.signin.id_token import ExpectedToken
from svc.authority.signin.platforms import AgentAssertions
from svc.authority.signin.redirect import read_redirect
from svc.authority.signin.renewal import SignInRenewals
from svc.errors import Malformed, SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.model.clocks import check_clock
from svc.model.signing import Signed
from svc.proto.gate.v1 import sign_in_pb2 as pb

CALLBACK_PATH = "/callback"
FORGET_SECS = 60.0
"""How often what has ended is forgotten."""

_VERSION = 63
_SET_THE_CLOCK = "set the clock and sign in again"


@define
class SignInService:
    """Serves people that sign in; anyone who reaches the join listener may ask.

    Attributes:
        sign_profile: Signs the profile for whoever passes it on.
    """

    entrance: Entrance
    attempts: Attempts
    devices: DeviceSignIns
    renewals: SignInRenewals
    taken: TakenAssertions
    agents: AgentAssertions
    sign_profile: Callable[[bytes], Signed]
    now: Callable[[], float]
    clock: IReactorTime

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        return RpcService(
            "gate.v1.SignIn",
            {
                "Profile": unary(pb.SignInProfileRequest, self._profile),
                "Begin": unary(pb.SignInBeginRequest, self._begin),
                "Complete": unary(pb.SignInCompleteRequest, self._complete),
                "Poll": unary(pb.SignInPollRequest, self._poll),
                "Assert": unary(pb.SignInAssertRequest, self._assert),
                "Renew": unary(pb.SignInRenewRequest, self._renew),
                "End": unary(pb.SignInEndRequest, self._end),
            },
        )

    async def forget_ended(self) -> None:
        """Forget attempts, tokens of machines and refresh tokens that have ended.

        Nobody may ask for them any more, and some are secrets; called now and then.
        """
        self.attempts.forget_ended()
        self.taken.forget_ended()
        self.renewals.forget_ended()

    async def _profile(
        self, request: pb.SignInProfileRequest, call: IRpcCall
    ) -> pb.SignInProfileResponse:
        signed = self.sign_profile(self.entrance.rules.profile)
        return pb.SignInProfileResponse(
            profile=signed.payload, signature=signed.signature, chain=signed.chain
        )

    async def _begin(
        self, request: pb.SignInBeginRequest, call: IRpcCall
    ) -> pb.SignInBeginResponse:
        if request.flow not in (Flow.CODE.value, Flow.DEVICE.value):
            raise Malformed("sign-in: the flow must be code or device")
        flow = Flow(request.flow)
        key_sha256 = self._key(request, flow)
        if flow is Flow.CODE:
            return await self._begin_code(request, key_sha256)
        return await self.devices.begin(request.csr, key_sha256)

    def _key(self, request: pb.SignInBeginRequest | pb.SignInAssertRequest, flow: Flow) -> bytes:
        """The key that the sign-in is bound to from now on, if people may sign in so."""
        self.entrance.allow(flow)
        self._check(request)
        return self.entrance.issuer.examine(request.csr).sha256

    def _check(self, request: pb.SignInBeginRequest | pb.SignInAssertRequest) -> None:
        if request.sent_at_ms:
            check_clock(request.sent_at_ms / 1000, self.now(), _SET_THE_CLOCK)
        if len(request.version) > _VERSION:
            raise Malformed("sign-in: the version is too long")

    async def _begin_code(
        self, request: pb.SignInBeginRequest, key_sha256: bytes
    ) -> pb.SignInBeginResponse:
        if not 0 < request.port < 65536:
            raise Malformed("sign-in: the port of the loopback listener is missing")
        rules, provider = self.entrance.rules, self.entrance.configured
        metadata = await provider.metadata()
        attempt = self.attempts.begin(Flow.CODE, request.csr, key_sha256, ATTEMPT_SECS)
        attempt.redirect = f"http://127.0.0.1:{request.port}{CALLBACK_PATH}"
        asked = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": attempt.redirect,
            "scope": " ".join(rules.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
            **rules.extra_params,
        }
        mark = "&" if "?" in metadata.authorization else "?"
        return pb.SignInBeginResponse(
            attempt=attempt.id,
            url=f"{metadata.authorization}{mark}{urlencode(asked)}",
            state=attempt.state,
            expires_in=int(ATTEMPT_SECS),
            issuer=provider.issuer,
        )

    async def _complete(
        self, request: pb.SignInCompleteRequest, call: IRpcCall
    ) -> pb.SignInResponse:
        provider = self.entrance.configured
        try:
            attempt = self.attempts.take(request.attempt, Flow.CODE)
        except AttemptOver as over:
            await self.entrance.record(Bound.of(over.attempt), over)
            raise
        bound = Bound.of(attempt)
        try:
            metadata = await provider.metadata()
            code = read_redirect(
                request.query,
                state=attempt.state,
                issuer=provider.issuer,
                names_issuer=metadata.names_issuer,
            )
            form = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": attempt.redirect,
                "code_verifier": attempt.verifier,
            }
            tokens = await provider.redeem(form)
        except SvcError as refusal:
            await self.entrance.record(bound, refusal)
            raise
        expected = ExpectedToken(
            issuer=provider.issuer,
            audience=provider.client_id,
            nonce=attempt.nonce,
            access_token=tokens.access_token,
        )
        return await self.entrance.admit(bound, tokens.id_token, expected, tokens.refresh)

    async def _poll(self, request: pb.SignInPollRequest, call: IRpcCall) -> pb.SignInPollResponse:
        return await self.devices.poll(request.attempt)

    async def _assert(self, request: pb.SignInAssertRequest, call: IRpcCall) -> pb.SignInResponse:
        """A machine's token: of an agent, or for this cluster alone; taken once."""
        self._check(request)
        enrolled = await self.agents.enrolled(request)
        if enrolled is not None:
            return enrolled
        key_sha256 = self._key(request, Flow.TOKEN)
        bound = Bound(Flow.TOKEN, request.csr, key_sha256)
        expected = ExpectedToken(
            issuer=self.entrance.configured.issuer,
            audience=self.entrance.rules.cluster,
            only_audience=True,
        )
        use = self.taken.use(request.id_token, key_sha256)
        try:
            return await self.entrance.admit(bound, request.id_token, expected, take=use.take)
        except (SvcError, CancelledError) as failure:
            use.failed(failure)
            raise

    async def _renew(self, request: pb.SignInRenewRequest, call: IRpcCall) -> pb.SignInResponse:
        return await self.renewals.renew(request)

    async def _end(self, request: pb.SignInEndRequest, call: IRpcCall) -> pb.SignInEndResponse:
        return await self.renewals.end(request)
