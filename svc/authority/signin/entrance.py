"""What every flow ends with: the ID token verified, its account let in, or the refusal recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from attrs import define, frozen
from twisted.logger import Logger

from svc.authority.refusals import JOINERS, RefusalRecords
from svc.authority.signin.account import Account, read_account
from svc.authority.signin.admission import SignedIn, SignInAdmission
from svc.authority.signin.attempts import Attempt, Flow
from svc.authority.signin.id_token import ExpectedToken
from svc.authority.signin.once import IssuedOnce
from svc.authority.signin.provider import Provider
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import ANONYMOUS, Recorder
from svc.errors import Fault, StoreUnavailable, SvcError
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import SIGN_IN_REFUSED
from svc.model.certificate import NewCertificate
from svc.pki.enroll import CertificateIssuer
from svc.proto.gate.v1 import sign_in_pb2 as pb

_log = Logger(namespace="svc_authority")


@frozen
class SignInRules:
    """What the configuration says of signing in.

    Attributes:
        flows: How people may sign in.
        profile: What anybody may know of it, as it is signed.
        pending_errors, interval, expires_in: ``[oidc.device]``.
    """

    cluster: str
    flows: Set[Flow]
    scopes: tuple[str, ...]
    extra_params: Mapping[str, str]
    groups_claim: str | None
    profile: bytes
    pending_errors: tuple[str, ...] = ()
    interval: int | None = None
    expires_in: int | None = None


@frozen
class Bound:
    """What a sign-in is bound to from its first message."""

    flow: Flow
    csr: bytes
    key_sha256: bytes

    @classmethod
    def of(cls, attempt: Attempt) -> Bound:
        """What an attempt is bound to."""
        return cls(attempt.flow, attempt.csr, attempt.key_sha256)


@define
class Entrance:
    """Lets verified accounts in.

    Attributes:
        provider: None: nobody signs in here at a provider.
    """

    provider: Provider | None
    rules: SignInRules
    admission: SignInAdmission
    issuer: CertificateIssuer
    state_cache: ClusterStateCache
    store: IStore
    recorder: Recorder
    refusals: RefusalRecords

    @property
    def configured(self) -> Provider:
        """The provider.

        Raises:
            SvcError: ``sign_in_not_configured``.
        """
        if self.provider is None:
            raise SvcError(
                "nobody signs in at an identity provider here: the Authority has no [oidc]; "
                "sign in with an account of its own (`svc login --local`), or join with a token "
                "from your operator (`svc join`)",
                reason="sign_in_not_configured",
                fault=Fault.PRECONDITION,
            )
        return self.provider

    def allow(self, flow: Flow) -> None:
        """Return if people may sign in so.

        Raises:
            SvcError: ``sign_in_not_configured``, ``sign_in_flow``.
        """
        self.configured  # noqa: B018 - raises where nobody signs in here
        if flow not in self.rules.flows:
            others = ", ".join(sorted(one.value for one in self.rules.flows))
            raise SvcError(
                f"sign-in by {flow.value} is switched off here, only {others} is allowed; "
                f'your operator can add "{flow.value}" to oidc.flows of the Authority',
                reason="sign_in_flow",
                fault=Fault.PRECONDITION,
            )

    async def admit(
        self,
        bound: Bound,
        token: str,
        expected: ExpectedToken,
        refresh: str = "",
        take: Callable[[Mapping[str, Any]], IssuedOnce] = lambda claims: IssuedOnce(),
    ) -> pb.SignInResponse:
        """Verify an ID token and let its account in.

        Args:
            take: Given the verified claims, before anybody is let in by them; may refuse.  By its
                answer who was let in before is given the same again.

        Raises:
            SvcError: it is refused; the refusal is recorded.
        """
        account: Account | None = None
        try:
            account = await self.verified(token, expected)
            once = take(account.claims)
            signed_in = await self._let_in(bound, account, refresh, once)
        except SvcError as refusal:
            await self.record(bound, refusal, account)
            raise
        return self.answer(signed_in)

    async def verified(self, token: str, expected: ExpectedToken) -> Account:
        """The account of an ID token.

        Raises:
            SvcError: the token is refused, or the provider not reached.
        """
        claims = await self.configured.verified(token, expected)
        return read_account(claims, self.rules.groups_claim)

    async def _let_in(
        self, bound: Bound, account: Account, refresh: str, once: IssuedOnce
    ) -> SignedIn:
        def admit(tx: ITransaction) -> SignedIn:
            return self.admission.admit(tx, account, bound.csr, bound.flow, refresh)

        def let_in(tx: ITransaction) -> SignedIn:
            signed_in: SignedIn = once.issue(tx, admit)
            # Who was let in by an answer that was lost may have been revoked since.
            self.admission.active_person(tx, signed_in.person.id)
            return signed_in

        signed_in = await self.store.run("sign in", let_in)
        await self.refresh()
        _log.info("signed in", person=signed_in.person.id, flow=bound.flow.value)
        return signed_in

    async def refresh(self) -> None:
        """Know the person; what they were given must reach them all the same."""
        try:
            await self.state_cache.refresh()
        except StoreUnavailable as e:
            _log.warn("a sign-in is known from the next reload pass on", reason=e.reason)

    def answer(self, signed_in: SignedIn) -> pb.SignInResponse:
        """What the person is told."""
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

    def agent_answer(self, issued: NewCertificate, name: str = "") -> pb.SignInResponse:
        """What an agent is told; its certificate is renewed as long as it is in force."""
        principal = issued.facts.principal
        return pb.SignInResponse(
            cluster=principal.cluster,
            principal=principal.uri,
            chain=issued.chain,
            root=self.issuer.keys.root_der,
            name=name,
            renew_until=int(issued.facts.not_after),
        )

    async def record(self, bound: Bound, refusal: SvcError, account: Account | None = None) -> None:
        """Record a refusal, within the share of everybody without a certificate (rule R12)."""
        details: dict[str, str] = {
            "sign_in_flow": bound.flow.value,
            "key_digest": bound.key_sha256.hex(),
        }
        if account is not None:
            details |= {"issuer": account.issuer, "subject_at_issuer": account.subject}
        _log.warn("sign-in refused", reason=refusal.reason, flow=bound.flow.value)
        await self.refusals.write(
            JOINERS,
            "refuse a sign-in",
            lambda tx: self.recorder.append(
                tx, SIGN_IN_REFUSED, ANONYMOUS, reason=refusal.reason, details=details
            ),
        )
