"""People sign in with a passkey, in a browser, or add one to their account.

The command begins, and comes back with what the browser brought it.  Between the two a
browser answers on the page of the public name (``svc.authority.sign_in_page``).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, frozen

from svc.authority.accounts.browser import (
    PATH,
    BrowserStep,
    NewPasskey,
    PasskeyOwner,
    UsedPasskey,
    begin_step,
    passkey_challenge,
    step_of,
)
from svc.authority.accounts.opened import FoundAccount, Presented, SecondFactor
from svc.authority.accounts.refusals import LocalSignInRefused, PasskeyRefused
from svc.authority.accounts.security_keys import (
    KeyAnswer,
    KeyRefused,
    KeySite,
    RegisteredKey,
    registered,
)
from svc.authority.accounts.sign_in import LocalSignIns
from svc.authority.signin.admission import SignedIn
from svc.authority.signin.attempts import ATTEMPT_SECS, Attempt, AttemptOver, Attempts, Flow
from svc.authority.signin.entrance import Bound
from svc.authority.signin.refusals import SignInRefused
from svc.authority.signin.strict_json import encode_base64url
from svc.authority.state.recorder import person
from svc.authority.state.tables import SECRETS
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import ACCOUNT_PASSKEY
from svc.model.cluster.account import MAX_PASSKEYS, PersonSecret, SecretKind
from svc.model.ids import is_opaque_id
from svc.pki.credentials import SealBroken
from svc.proto.gate.v1 import account_pb2 as pb

_CODE_BYTES = 32


@frozen
class PasskeyAssertion:
    """What a browser brings of a passkey that it used.

    Attributes:
        user_handle: Whose it is, as the passkey says.
    """

    user_handle: bytes
    answer: KeyAnswer


@frozen
class PasskeyRegistration:
    """What a browser brings of a passkey that it made."""

    client_data: bytes
    attestation: bytes


@define
class Passkeys:
    """Begins sign-ins in a browser, judges what browsers bring, and completes them.

    Attributes:
        site: Of the public name; None where none is configured.
    """

    site: KeySite | None
    sign_ins: LocalSignIns
    attempts: Attempts

    @property
    def configured(self) -> KeySite:
        """Whom passkeys sign for.

        Raises:
            SvcError: ``passkeys_not_configured``.
        """
        if self.site is None:
            raise SvcError(
                "nobody signs in with a passkey here: your operator first has to give the "
                "Authority a name that browsers reach (accounts.passkeys.public_name, with listen, "
                "cert and key); sign in without --passkey",
                reason="passkeys_not_configured",
                fault=Fault.PRECONDITION,
            )
        return self.site

    # -- the command

    def begin(self, bound: Bound, port: int, owner: PasskeyOwner | None = None) -> Attempt:
        """Begin a step in a browser; *owner*: to make a passkey, not to use one.

        Raises:
            SvcError: nobody signs in so here.
        """
        self.configured  # noqa: B018 - raises
        attempt = self.attempts.begin(bound.flow, bound.csr, bound.key_sha256, ATTEMPT_SECS)
        begin_step(attempt, port, owner)
        return attempt

    def told(self, attempt: Attempt) -> pb.BrowserAttempt:
        """What the command is told of it."""
        return pb.BrowserAttempt(
            attempt=attempt.id,
            expires_in=int(ATTEMPT_SECS),
            url=f"{self.configured.origin}{PATH}{attempt.id}",
            state=attempt.state,
        )

    async def begin_added(
        self, bound: Bound, port: int, asked: pb.LocalSignInRequest, presented: Presented, host: str
    ) -> Attempt:
        """Begin to add a passkey, for somebody who presents password and second factor.

        Raises:
            SvcError: as for a sign-in with them, or there are as many as there may be.
        """
        self.configured  # noqa: B018 - raises
        proven = await self.sign_ins.proven(bound, asked, presented, host, self._owner)
        return self.begin(bound, port, proven.result)

    def _owner(self, tx: ITransaction, account: FoundAccount, factor: SecondFactor) -> PasskeyOwner:
        known, password = self.sign_ins.use(tx, account, factor)
        has = [row for row in account.rows if row.kind is SecretKind.PASSKEY]
        if len(has) >= MAX_PASSKEYS:
            raise SignInRefused(
                f"this account has {MAX_PASSKEYS} passkeys already; have your operator remove one",
                reason="passkeys_full",
            )
        ids = [RegisteredKey.read(self.sign_ins.secrets.open(row).value) for row in has]
        return PasskeyOwner(
            name=known.known_name,
            handle=known.id.encode("ascii"),
            password=password,
            has=[one.credential_id for one in ids],
        )

    async def complete(self, asked: pb.CompletePasskeyRequest) -> pb.LocalSignInResponse:
        """Let somebody in by what the browser brought back.

        Raises:
            SvcError: it is not of this attempt, or the account was changed meanwhile.
        """
        try:
            attempt = self.attempts.take(asked.attempt, Flow.LOCAL)
        except AttemptOver as over:
            await self.sign_ins.record(Bound.of(over.attempt), over, None)
            raise
        if attempt.enrollment is not None:
            raise Malformed("sign-in: this attempt is an enrollment")
        bound, step = Bound.of(attempt), step_of(attempt)
        try:
            done = step.taken(attempt, self.configured, asked.query)
            signed_in, left = await self.sign_ins.entrance.store.run(
                "sign in", lambda tx: self._completed(tx, bound, step, done)
            )
        except SvcError as refusal:
            await self.sign_ins.record(bound, refusal, None)
            raise
        return await self.sign_ins.answer(bound, signed_in, left)

    def _completed(
        self, tx: ITransaction, bound: Bound, step: BrowserStep, done: NewPasskey | UsedPasskey
    ) -> tuple[SignedIn, int]:
        if isinstance(done, UsedPasskey):
            return self.sign_ins.let_in(tx, bound, done.account, done.factor)
        owner = step.owner
        assert owner is not None
        assert owner.password is not None
        return self._added(tx, bound, owner.password, done)

    def _added(
        self, tx: ITransaction, bound: Bound, password: PersonSecret, done: NewPasskey
    ) -> tuple[SignedIn, int]:
        sign_ins = self.sign_ins
        recorder = sign_ins.entrance.recorder
        known = sign_ins.admission.active_person(tx, password.person_id)
        rows = recorder.rows(tx).secrets_of(known.id)
        has = sum(one.kind is SecretKind.PASSKEY for one in rows)
        if password not in rows or has >= MAX_PASSKEYS:
            # A reset, or another passkey, came first.
            raise LocalSignInRefused("account_changed")
        made = sign_ins.secrets.new(known.id, SecretKind.PASSKEY, done.key.kept, counter=done.count)
        tx.secrets.add(made)
        recorder.append(
            tx,
            ACCOUNT_PASSKEY,
            person(known.id),
            details={"person_id": known.id, "key_digest": bound.key_sha256.hex()},
            state=[SECRETS.now(tx, made.id)],
        )
        left = sum(one.kind is SecretKind.RECOVERY for one in rows)
        return sign_ins.admit(tx, bound, known, password), left

    # -- the browser

    def found(self, attempt_id: str) -> tuple[Attempt, BrowserStep]:
        """The attempt of a page, while the browser has something to do.

        Raises:
            SignInRefused: ``attempt_unknown``, ``attempt_over``.
        """
        attempt = self.attempts.find(attempt_id, Flow.LOCAL)
        if not isinstance(attempt.browser, BrowserStep) or attempt.browser.is_over:
            raise self.attempts.unknown()
        return attempt, attempt.browser

    async def answered(
        self, attempt_id: str, brought: PasskeyAssertion | PasskeyRegistration
    ) -> str:
        """Judge what a browser brought; where it goes on.

        Raises:
            SvcError: it is refused; the true reason is on record.
        """
        began = self.sign_ins.clock.seconds()
        try:
            attempt, step = self.found(attempt_id)
        except AttemptOver as over:
            await self.sign_ins.record(Bound.of(over.attempt), over, None)
            raise
        if isinstance(brought, PasskeyRegistration) is (step.owner is None):
            raise Malformed("sign-in: this is not what the page asked the browser for")
        step.tries += 1  # before it is judged, as many may come at once
        try:
            done = await self._done(attempt, brought)
        except SvcError as refusal:
            if isinstance(refusal, PasskeyRefused):
                await self.sign_ins.until_told(began)
            raise
        if step.is_done:
            raise self.attempts.unknown()
        code = encode_base64url(self.sign_ins.secrets.entropy(_CODE_BYTES))
        return step.leave(attempt, self.configured, done, code)

    async def _done(
        self, attempt: Attempt, brought: PasskeyAssertion | PasskeyRegistration
    ) -> NewPasskey | UsedPasskey:
        bound = Bound.of(attempt)
        if isinstance(brought, PasskeyAssertion):
            return await self._used(attempt, bound, brought)
        try:
            challenge = passkey_challenge(attempt)
            key, count = registered(
                self.configured, challenge, brought.client_data, brought.attestation
            )
        except KeyRefused as refusal:
            await self.sign_ins.record(bound, refusal, None)
            raise
        return NewPasskey(key, count)

    async def _used(self, attempt: Attempt, bound: Bound, brought: PasskeyAssertion) -> UsedPasskey:
        sign_ins, owner = self.sign_ins, _owner_of(brought.user_handle)
        account: FoundAccount = await sign_ins.entrance.store.read(
            "find an account", lambda tx: sign_ins.find_of(tx, owner)
        )
        # No count of failures: nobody guesses a signature, and whoever knows somebody's id would
        # make them wait.
        factor = self._judged(attempt, account.rows, brought)
        if why := account.why or factor.why:
            refusal = PasskeyRefused(why)
            await sign_ins.record(bound, refusal, account.known)
            raise refusal
        return UsedPasskey(account, factor)

    def _judged(
        self, attempt: Attempt, rows: Sequence[PersonSecret], brought: PasskeyAssertion
    ) -> SecondFactor:
        judge, challenge = self.sign_ins.judge, passkey_challenge(attempt)
        try:
            return judge.passkey(self.configured, rows, challenge, brought.answer)
        except SealBroken as broken:
            judge.passkey(self.configured, (), challenge, brought.answer)
            return SecondFactor(SecretKind.PASSKEY, why=broken.reason)


def _owner_of(user_handle: bytes) -> str:
    """The id of a person, which passkeys are made for; empty for what is none."""
    text = user_handle.decode("ascii", "replace")
    return text if is_opaque_id(text) else ""
