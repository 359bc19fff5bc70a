"""``gate.v1.SignIn``: people sign in at the identity provider, inside TLS to Authority."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qsl, urlencode

from attrs import define, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.refusals import JOINERS, RefusalRecords
from svc.authority.signin.account import Account, read_account
from svc.authority.signin.admission import SignedIn, SignInAdmission
from svc.authority.signin.attempts import ATTEMPT_SECS, Attempt, Attempts, Flow
from svc.authority.signin.id_token import ExpectedToken
from svc.authority.signin.provider import Provider, TokenAnswer
from svc.authority.signin.refusals import SignInRefused, printable
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import ANONYMOUS, Recorder
from svc.errors import Fault, Malformed, StoreUnavailable, SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.interfaces.store import IStore
from svc.model.audit.events import SIGN_IN_REFUSED
from svc.model.clocks import check_clock
from svc.model.signing import Signed
from svc.pki.enroll import CertificateIssuer
from svc.proto.gate.v1 import sign_in_pb2 as pb

_log = Logger(namespace="svc_authority")

CALLBACK_PATH = "/callback"
_MAX_QUERY = 8192
_VERSION = 63
_SET_THE_CLOCK = "set the clock and sign in again"


@frozen
class SignInRules:
    """What the configuration says of signing in.

    Attributes:
        profile: What anybody may know of it, as it is signed.
    """

    scopes: tuple[str, ...]
    extra_params: Mapping[str, str]
    groups_claim: str | None
    profile: bytes


@define
class SignInService:
    """Serves people that sign in; anyone who reaches the join listener may ask.

    Attributes:
        provider: None: nobody signs in here at a provider.
        sign_profile: Signs the profile for whoever passes it on.
    """

    provider: Provider | None
    rules: SignInRules
    admission: SignInAdmission
    attempts: Attempts
    issuer: CertificateIssuer
    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    refusals: RefusalRecords
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
            },
        )

    # -- the profile

    async def _profile(
        self, request: pb.SignInProfileRequest, call: IRpcCall
    ) -> pb.SignInProfileResponse:
        signed = self.sign_profile(self.rules.profile)
        return pb.SignInProfileResponse(
            profile=signed.payload, signature=signed.signature, chain=signed.chain
        )

    # -- beginning

    async def _begin(
        self, request: pb.SignInBeginRequest, call: IRpcCall
    ) -> pb.SignInBeginResponse:
        provider = self._configured()
        if request.sent_at_ms:
            check_clock(request.sent_at_ms / 1000, self.now(), _SET_THE_CLOCK)
        if len(request.version) > _VERSION:
            raise Malformed("sign-in: the version is too long")
        key = self.issuer.examine(request.csr)
        if request.flow == Flow.CODE.value:
            return await self._begin_code(provider, request, key.sha256)
        raise Malformed("sign-in: the flow must be code or device")

    async def _begin_code(
        self, provider: Provider, request: pb.SignInBeginRequest, key_sha256: bytes
    ) -> pb.SignInBeginResponse:
        if not 0 < request.port < 65536:
            raise Malformed("sign-in: the port of the loopback listener is missing")
        metadata = await provider.metadata()
        attempt = self.attempts.begin(Flow.CODE, request.csr, key_sha256, ATTEMPT_SECS)
        attempt.redirect = f"http://127.0.0.1:{request.port}{CALLBACK_PATH}"
        asked = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": attempt.redirect,
            "scope": " ".join(self.rules.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
            **self.rules.extra_params,
        }
        mark = "&" if "?" in metadata.authorization else "?"
        return pb.SignInBeginResponse(
            attempt=attempt.id,
            url=f"{metadata.authorization}{mark}{urlencode(asked)}",
            state=attempt.state,
            expires_in=int(ATTEMPT_SECS),
            issuer=provider.issuer,
        )

    # -- ending with a code

    async def _complete(
        self, request: pb.SignInCompleteRequest, call: IRpcCall
    ) -> pb.SignInResponse:
        provider = self._configured()
        attempt = self.attempts.take(request.attempt, Flow.CODE)
        try:
            metadata = await provider.metadata()
            code = read_redirect(
                request.query, attempt.state, provider.issuer, metadata.names_issuer
            )
            form = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": attempt.redirect,
                "code_verifier": attempt.verifier,
            }
            tokens = await provider.redeem(form)
        except SvcError as refusal:
            await self._record(attempt, refusal)
            raise
        return await self._admit(provider, attempt, tokens)

    async def _admit(
        self, provider: Provider, attempt: Attempt, tokens: TokenAnswer
    ) -> pb.SignInResponse:
        """Verify the ID token of an attempt, and let its account in."""
        nonce = attempt.nonce if attempt.flow is Flow.CODE else None
        expected = ExpectedToken(
            issuer=provider.issuer,
            audience=provider.client_id,
            nonce=nonce,
            access_token=tokens.access_token,
        )
        account: Account | None = None
        try:
            claims = await provider.verified(tokens.id_token, expected)
            account = self._account(claims)
            signed_in = await self._let_in(attempt, account, tokens.refresh)
        except SvcError as refusal:
            await self._record(attempt, refusal, account)
            raise
        return self._answer(signed_in)

    def _account(self, claims: Mapping[str, Any]) -> Account:
        return read_account(claims, self.rules.groups_claim)

    async def _let_in(self, attempt: Attempt, account: Account, refresh: str) -> SignedIn:
        signed_in = await self.store.run(
            "sign in",
            lambda tx: self.admission.admit(tx, account, attempt.csr, attempt.flow, refresh),
        )
        await self._refresh()
        _log.info(
            "signed in",
            person=signed_in.person.id,
            flow=attempt.flow.value,
            issuer=account.issuer,
        )
        return signed_in

    async def _refresh(self) -> None:
        """Know the person; what they were given must reach them all the same."""
        try:
            await self.state_cache.refresh()
        except StoreUnavailable as e:
            _log.warn("a sign-in is known from the next reload pass on", reason=e.reason)

    def _answer(self, signed_in: SignedIn) -> pb.SignInResponse:
        principal, row = signed_in.issued.facts.principal, signed_in.sign_in
        return pb.SignInResponse(
            cluster=principal.cluster,
            principal=principal.uri,
            chain=signed_in.issued.chain,
            root=self.issuer.keys.root_der,
            name=signed_in.person.name,
            renew_until=int(row.ends_at) if row.refresh else 0,
            groups=signed_in.person.groups,
        )

    async def _record(
        self, attempt: Attempt, refusal: SvcError, account: Account | None = None
    ) -> None:
        """Record a refusal, within the share of everybody without a certificate (rule R12)."""
        details: dict[str, str] = {
            "sign_in_flow": attempt.flow.value,
            "key_digest": attempt.key_sha256.hex(),
        }
        if account is not None:
            details |= {"issuer": account.issuer, "subject_at_issuer": account.subject}
        _log.warn("sign-in refused", reason=refusal.reason, flow=attempt.flow.value)
        await self.refusals.write(
            JOINERS,
            "refuse a sign-in",
            lambda tx: self.recorder.append(
                tx, SIGN_IN_REFUSED, ANONYMOUS, reason=refusal.reason, details=details
            ),
        )

    def _configured(self) -> Provider:
        if self.provider is None:
            raise SvcError(
                "nobody signs in at an identity provider here: the Authority has no [oidc]; "
                "join with a token from your operator (`svc join`)",
                reason="sign_in_not_configured",
                fault=Fault.PRECONDITION,
            )
        return self.provider


def read_redirect(query: str, state: str, issuer: str, names_issuer: bool) -> str:
    """The code in a redirect's query; pure.

    Args:
        state: Of this attempt.
        names_issuer: Whether the provider names itself in every redirect (RFC 9207).

    Raises:
        SignInRefused: ``redirect_malformed``, ``redirect_state``, ``redirect_issuer``,
            ``sign_in_denied``, ``provider_refused``.
    """
    if len(query) > _MAX_QUERY:
        raise _redirect("malformed", "its query is too long")
    try:
        pairs = parse_qsl(query, strict_parsing=True, max_num_fields=32, errors="strict")
    except ValueError:
        raise _redirect("malformed", "its query cannot be read") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _redirect("malformed", "it names a parameter twice")
    if not compare_digest(found.get("state", "").encode(), state.encode()):
        raise _redirect("state", "it is not of this sign-in")
    if found.get("iss", issuer) != issuer or (names_issuer and "iss" not in found):
        raise _redirect("issuer", "it is of another identity provider")
    if "error" in found:
        denied = found["error"] == "access_denied"
        word = printable(found["error"])
        raise SignInRefused(
            "the sign-in was denied at the identity provider"
            if denied
            else f"the identity provider refused the sign-in ({word or 'no reason'})",
            reason="sign_in_denied" if denied else "provider_refused",
        )
    code = found.get("code", "")
    if not code:
        raise _redirect("malformed", "it has no code")
    return code


def _redirect(word: str, text: str) -> SignInRefused:
    return SignInRefused(
        f"the browser's return is refused: {text}; run `svc login` again",
        reason=f"redirect_{word}",
    )
