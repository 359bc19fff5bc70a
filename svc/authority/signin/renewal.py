"""Renews a person's certificate while the provider confirms the sign-in, and ends sign-ins.

The certificate's own key signs the request; the certificate names the sign-in.
Whoever renews by another certificate than the newest has a copy of somebody's
directory: the sign-in ends for both (rule R13).  So it does where a sign-in is ended
by another than the newest.  Who renews after the sign-out has a copy too: nothing of
that sign-in counts as ended in order any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, evolve, field
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from svc.authority.enroll.agents import AgentCertificates
from svc.authority.signin.account import Account
from svc.authority.signin.admission import SignedIn
from svc.authority.signin.certificates import revoke_certificates
from svc.authority.signin.entrance import Entrance
from svc.authority.signin.id_token import ExpectedToken
from svc.authority.signin.provider import SESSION_OVER, ProviderRefused
from svc.authority.signin.refreshed import UnstoredTokens
from svc.authority.signin.refusals import ProviderFault, SignInRefused
from svc.authority.state.recorder import person
from svc.authority.state.tables import SIGN_INS
from svc.errors import Denied, Malformed, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.store import ITransaction
from svc.messages.forms import parse
from svc.model.audit.events import RENEW_REFUSED, SIGN_IN_END
from svc.model.audit.state import StateEntry
from svc.model.canonical import Json
from svc.model.certificate import CertificateFacts
from svc.model.clocks import check_clock
from svc.model.cluster.account import LOCAL_ISSUER
from svc.model.cluster.sign_in import SIGNED_OUT, SignIn
from svc.model.principal import CALLERS, Role
from svc.model.signing import Purpose, verify
from svc.pki.enroll import CloneSuspected
from svc.proto.gate.v1 import sign_in_pb2 as pb

_log = Logger(namespace="svc_authority")

_MAX_PAYLOAD = 8192
_ROWS = 256
"""So many rows one record names; a sign-in may have had more certificates."""

_SET_THE_CLOCK = "set the clock; the certificate was not renewed"


class _SignedOut(Denied):
    """The holder of the certificate has signed out, and somebody renews by it."""

    reason = "revoked_certificate"


LocalAccounts = Callable[[SignIn, str], Awaitable[Account]]
"""The account of a sign-in that is to be renewed, given what was sealed with it."""


@define
class SignInRenewals:
    """Serves holders of certificates that came by a sign-in.

    Attributes:
        local: Confirms sign-ins of accounts that are kept here.
    """

    entrance: Entrance
    verifier: IChainVerifier
    now: Callable[[], float]
    local: LocalAccounts | None = None
    _locks: dict[str, DeferredLock] = field(factory=dict, init=False)
    _unstored: UnstoredTokens = field(factory=UnstoredTokens, init=False)

    async def renew(self, request: pb.SignInRenewRequest) -> pb.SignInResponse:
        """The next certificate.

        Raises:
            SvcError: the sign-in has ended, the provider does not confirm it, or is not reached.
        """
        shown, asked = self._proven(request)
        if not asked.csr:
            raise Malformed("sign-in renewal: there is no certificate request")
        self.entrance.issuer.examine(asked.csr)
        if shown.principal.role is Role.AGENT:
            return await self._agent(shown, asked.csr)
        person_id = shown.principal.id
        # One after the other: a provider takes two uses of one refresh token for a theft.
        lock = self._locks.setdefault(person_id, DeferredLock())
        await lock.acquire()
        try:
            row, token, issuer = await self._found_to_renew(shown)
            if shown.not_after >= int(row.ends_at):
                # Asked again it would be shorter each time, and use up the provider's tokens.
                raise _not_renewed()
            account, refresh = await self._confirmed(row, token, issuer)
            return await self._renewed(row, shown, asked.csr, account, refresh)
        finally:
            lock.release()
            if not lock.locked:
                self._locks.pop(person_id, None)

    async def end(self, request: pb.SignInEndRequest) -> pb.SignInEndResponse:
        """End a sign-in on its holder's word; certificate and refresh token are good no more.

        Who asks again is answered alike: the first answer may have been lost.

        Raises:
            CloneSuspected: it has ended, but somebody else had renewed it.
        """
        shown, asked = self._proven(request)
        if asked.csr:
            raise Malformed("the end of a sign-in: a certificate request is not expected")

        try:
            row, token, issuer = await self._found(shown)
        except _SignedOut:
            return pb.SignInEndResponse()
        token = self._unstored.newest(row.id, token)
        reason = await self._end(row, SIGNED_OUT, shown)
        if token and issuer != LOCAL_ISSUER:
            try:
                await self.entrance.configured.revoke(token)
            except SvcError as failed:
                _log.warn("the provider did not forget a refresh token", reason=failed.reason)
        if reason == CloneSuspected.reason:
            raise _cloned()
        return pb.SignInEndResponse()

    def forget_ended(self) -> None:
        """Forget the refresh tokens of sign-ins that have ended by themselves."""
        self._unstored.forget_ended(self.now())

    async def _agent(self, shown: CertificateFacts, csr: bytes) -> pb.SignInResponse:
        """The next certificate of an agent, which no provider confirms but its owner's standing."""
        entrance = self.entrance
        agents = AgentCertificates(entrance.issuer, entrance.recorder, self.now)
        try:
            issued = await entrance.store.run(
                "renew an agent", lambda tx: agents.renew(tx, shown, csr)
            )
        except Denied as refusal:
            await self._record_refused(shown, refusal.reason)
            raise
        await entrance.refresh()
        if issued is None:
            raise CloneSuspected(
                "this identity was renewed by another holder; the agent was revoked: have an "
                "operator find out who has the copy, and add another agent"
            )
        return entrance.agent_answer(issued)

    async def _record_refused(self, shown: CertificateFacts, reason: str) -> None:
        """Record why an agent's certificate was not renewed, within the agent's share."""
        actor = person(shown.principal.id)
        details: dict[str, Json] = {
            "serial": shown.serial,
            "generation": shown.generation,
            "role": shown.principal.role.value,
        }
        await self.entrance.refusals.write(
            actor,
            "refuse a renewal",
            lambda tx: self.entrance.recorder.append(
                tx, RENEW_REFUSED, actor, reason=reason, details=details
            ),
        )

    def _proven(
        self, request: pb.SignInRenewRequest | pb.SignInEndRequest
    ) -> tuple[CertificateFacts, pb.SignInRenewal]:
        """Whose request it is: signed by the key of a person's certificate that is good now."""
        shown = self.verifier.verify(tuple(request.chain), CALLERS)
        verify(shown.public_key, Purpose.SIGN_IN_RENEWAL, request.payload, request.signature)
        asked = parse(pb.SignInRenewal, request.payload, _MAX_PAYLOAD, "sign-in renewal")
        if asked.cluster != shown.principal.cluster:
            raise Denied("the request is for another cluster", reason="certificate_cluster")
        check_clock(asked.sent_at_ms / 1000, self.now(), _SET_THE_CLOCK)
        return shown, asked

    async def _found(self, shown: CertificateFacts) -> tuple[SignIn, str, str]:
        return await self.entrance.store.read(
            "find a sign-in", lambda tx: self._renewable(tx, shown)
        )

    async def _found_to_renew(self, shown: CertificateFacts) -> tuple[SignIn, str, str]:
        try:
            return await self._found(shown)
        except _SignedOut:
            row = await self.entrance.store.read(
                "find an ended sign-in", lambda tx: self._signed_out(tx, shown)
            )
            if row is not None:
                await self._end(row, CloneSuspected.reason)
            raise

    def _signed_out(self, tx: ITransaction, shown: CertificateFacts) -> SignIn | None:
        rows = self.entrance.recorder.rows(tx)
        issued = rows.certificate(shown.sha256)
        return rows.sign_in(issued.sign_in_id) if issued and issued.sign_in_id else None

    def _renewable(self, tx: ITransaction, shown: CertificateFacts) -> tuple[SignIn, str, str]:
        """The sign-in that a certificate is of, its refresh token, its issuer."""
        rows, admission = self.entrance.recorder.rows(tx), self.entrance.admission
        issued = rows.certificate(shown.sha256)
        if issued is not None and issued.signed_out:
            raise _SignedOut("the certificate was revoked: its holder signed out")
        if issued is None or issued.revoked_at is not None:
            raise Denied("the certificate was revoked", reason="revoked_certificate")
        row = rows.sign_in(issued.sign_in_id) if issued.sign_in_id else None
        if row is None or row.ends_at <= self.now():
            raise SignInRefused(
                "this certificate did not come by a sign-in that can be renewed; run `svc login`",
                reason="sign_in_unknown",
            )
        if row.ended_at is not None:
            raise SignInRefused("this sign-in has ended; run `svc login`", reason="sign_in_ended")
        admission.active_person(tx, row.person_id)
        link = rows.identity(row.identity_id)
        if link is None or link.person_id != row.person_id:
            raise SignInRefused("the account is no longer linked", reason="unknown_account")
        return row, admission.opened(row, link.issuer), link.issuer

    async def _confirmed(self, row: SignIn, token: str, issuer: str) -> tuple[Account, str]:
        """What the provider says of the account now, and the refresh token from now on."""
        if issuer == LOCAL_ISSUER and token and self.local is not None:
            return await self.local(row, token), token
        provider = self.entrance.configured
        if not token or issuer != provider.issuer:
            raise _not_renewed()
        newest = self._unstored.newest(row.id, token)
        try:
            tokens = await provider.redeem({"grant_type": "refresh_token", "refresh_token": newest})
        except ProviderRefused as refused:
            if refused.error != SESSION_OVER:
                # Of our configuration or of the provider's state: the session may well go on.
                raise ProviderFault(f"the certificate was not renewed: {refused.text}") from None
            await self._end(row, refused.reason)
            raise SignInRefused(
                f"the provider's session has ended: {refused.text}; run `svc login`",
                reason="provider_session_ended",
            ) from None
        refresh = tokens.refresh or newest
        # Before anything else can fail: the one before it is good no more.
        self._unstored.came(row.id, token, refresh, row.ends_at)
        expected = ExpectedToken(
            issuer=provider.issuer, audience=provider.client_id, access_token=tokens.access_token
        )
        return await self.entrance.verified(tokens.id_token, expected), refresh

    async def _renewed(
        self, row: SignIn, shown: CertificateFacts, csr: bytes, account: Account, refresh: str
    ) -> pb.SignInResponse:
        def renew(tx: ITransaction) -> SignedIn:
            rows, admission = self.entrance.recorder.rows(tx), self.entrance.admission
            now = rows.sign_in(row.id)
            link = rows.identity(row.identity_id)
            if now != row:
                raise SignInRefused("the sign-in changed meanwhile", reason="sign_in_ended")
            if link is None or (link.issuer, link.subject) != (account.issuer, account.subject):
                raise SignInRefused(
                    "the provider answered for another account", reason="account_differs"
                )
            admission.take_groups(tx, admission.active_person(tx, row.person_id), account)
            return admission.renew(tx, row, shown, csr, refresh)

        try:
            signed_in = await self.entrance.store.run("renew a sign-in", renew)
        except CloneSuspected:
            await self._end_clone(row)
            raise
        except SignInRefused as refusal:
            if refusal.reason == "account_differs":
                await self._end(row, refusal.reason)
            raise
        self._unstored.forget(row.id)
        await self.entrance.refresh()
        return self.entrance.answer(signed_in)

    async def _end_clone(self, row: SignIn) -> None:
        await self._end(row, CloneSuspected.reason)
        raise _cloned()

    async def _end(self, row: SignIn, reason: str, shown: CertificateFacts | None = None) -> str:
        """End a sign-in, with every certificate that came by it and has not expired.

        Args:
            shown: Of the certificate of who ends it; one that is not the newest is a clone's.

        Returns:
            The reason that was recorded.
        """
        reason = await self.entrance.store.run(
            "end a sign-in", lambda tx: self._end_now(tx, row.id, reason, shown)
        )
        self._unstored.forget(row.id)
        await self.entrance.refresh()
        return reason

    def _end_now(
        self, tx: ITransaction, id: str, reason: str, shown: CertificateFacts | None
    ) -> str:
        recorder = self.entrance.recorder
        known = recorder.rows(tx).sign_in(id)
        if known is None:
            return reason
        if shown is not None and shown.sha256 != known.certificate_sha256:
            # Nobody knows who holds the newest, so what it approved does not stand.
            reason = CloneSuspected.reason
        has_ended = known.ended_at is not None
        if has_ended and reason != CloneSuspected.reason:
            return reason
        if not has_ended:
            tx.sign_ins.put(evolve(known, ended_at=self.now(), refresh=b""))
        # Also those before the newest, and those whose answer was lost: somebody may have them.
        revoked = revoke_certificates(
            tx, recorder, known, self.now(), signed_out=reason == SIGNED_OUT
        )
        if revoked or not has_ended:
            self._record_end(tx, known, reason, [SIGN_INS.now(tx, known.id), *revoked])
        return reason

    def _record_end(
        self, tx: ITransaction, ended: SignIn, reason: str, state: list[StateEntry]
    ) -> None:
        for start in range(0, len(state), _ROWS):
            self.entrance.recorder.append(
                tx,
                SIGN_IN_END,
                person(ended.person_id),
                reason=reason,
                details={
                    "person_id": ended.person_id,
                    "sign_in_id": ended.id,
                    "certificate_sha256": ended.certificate_sha256.hex(),
                    "generation": ended.generation,
                },
                state=state[start : start + _ROWS],
            )


def _cloned() -> CloneSuspected:
    return CloneSuspected(
        "this sign-in was renewed from another copy of its directory; it has ended for both: "
        "run `svc login`, and find out who has the copy"
    )


def _not_renewed() -> SignInRefused:
    return SignInRefused(
        "this sign-in is not renewed; run `svc login` before the certificate ends",
        reason="sign_in_not_renewed",
    )
