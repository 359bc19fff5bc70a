"""Signs people in with a password and a second factor that are kept here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Generic, TypeVar

from attrs import define, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.authority.accounts.lockout import Lockouts
from svc.authority.accounts.opened import (
    AccountJudge,
    FoundAccount,
    Presented,
    SecondFactor,
)
from svc.authority.accounts.passwords import PasswordHashes
from svc.authority.accounts.refusals import LocalSignInRefused
from svc.authority.accounts.secrets import MAX_DEVICE_BYTES, SealedSecrets
from svc.authority.refusals import JOINERS
from svc.authority.signin.account import Account
from svc.authority.signin.admission import SignedIn, SignInAdmission
from svc.authority.signin.attempts import Attempt, Flow
from svc.authority.signin.entrance import Bound, Entrance
from svc.authority.signin.links import link_account
from svc.authority.signin.refusals import SignInRefused
from svc.authority.state.recorder import ANONYMOUS, person
from svc.authority.state.tables import SECRETS, SignedRows, StateUnsigned
from svc.errors import StoreUnavailable, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import ACCOUNT_USE, SIGN_IN_REFUSED
from svc.model.audit.state import secret_entry
from svc.model.cluster.account import LOCAL_ISSUER, PersonSecret, SecretKind
from svc.model.cluster.person import Person
from svc.model.cluster.sign_in import SignIn
from svc.pki.credentials import SealBroken
from svc.proto.gate.v1 import account_pb2 as pb

_log = Logger(namespace="svc_authority")

ANSWER_STEP_SECS = 0.25
_T = TypeVar("_T")


@frozen
class Proven(Generic[_T]):
    """What came of a sign-in that was good.

    Attributes:
        source: Who tried: a machine where this person signed in before, or an address.
    """

    result: _T
    source: str


@define
class LocalSignIns:
    """Judges sign-ins, and lets in whose are good.

    Attributes:
        admission: As the provider's, with these accounts' time of renewal.
        answer_step: A refusal is told a whole number of these seconds after the question, so
            that what little time one reason takes more than another is not seen.
    """

    entrance: Entrance
    admission: SignInAdmission
    secrets: SealedSecrets
    hashes: PasswordHashes
    lockouts: Lockouts
    judge: AccountJudge
    clock: IReactorTime
    answer_step: float = ANSWER_STEP_SECS

    async def sign_in(
        self, bound: Bound, asked: pb.LocalSignInRequest, presented: Presented, host: str
    ) -> pb.LocalSignInResponse:
        """Sign in; every refusal but that of somebody who has proven who they are is the same.

        Args:
            host: The address that the call came from.

        Raises:
            SvcError: it is refused; the true reason is on record.
        """
        proven = await self.proven(
            bound, asked, presented, host, lambda tx, *proof: self.let_in(tx, bound, *proof)
        )
        signed_in, left = proven.result
        device = asked.device if proven.source.startswith(_DEVICE) else b""
        return await self.answer(bound, signed_in, left, device)

    async def proven(
        self,
        bound: Bound,
        asked: pb.LocalSignInRequest,
        presented: Presented,
        host: str,
        then: Callable[[ITransaction, FoundAccount, SecondFactor], _T],
    ) -> Proven[_T]:
        """Judge what somebody presents, and do something in the transaction that uses it up.

        Raises:
            SvcError: as of :meth:`sign_in`.
        """
        began = self.clock.seconds()
        account = await self.entrance.store.read(
            "find an account", lambda tx: self._find(tx, asked.name)
        )
        source = self._source(account, asked.device, host)
        may_try = self.lockouts.begin(asked.name, source)
        try:
            factor = await self._judged(account, asked.password, presented, may_try)
            result = await self.entrance.store.run("sign in", lambda tx: then(tx, account, factor))
        except SvcError as refusal:
            if isinstance(refusal, StoreUnavailable):
                # What was presented was good: the store locks nobody out.
                self.lockouts.take_back(asked.name, source)
            await self.record(bound, refusal, account.known)
            if isinstance(refusal, LocalSignInRefused):
                await self.until_told(began)
            raise
        self.lockouts.succeeded(asked.name, source)
        return Proven(result, source)

    async def answer(
        self, bound: Bound, signed_in: SignedIn, left: int, device: bytes = b""
    ) -> pb.LocalSignInResponse:
        """What somebody who was let in is told.

        Args:
            left: How many recovery codes are.
            device: By what this machine is known already.
        """
        await self.entrance.refresh()
        _log.info("signed in", person=signed_in.person.id, flow=bound.flow.value)
        return pb.LocalSignInResponse(
            signed_in=self.entrance.answer(signed_in),
            device=device or self.secrets.device(signed_in.person.id),
            recovery_codes_left=left,
        )

    async def until_told(self, began: float) -> None:
        """Wait for the moment at which a refusal of what was asked at *began* is told."""
        if self.answer_step:
            gone = (self.clock.seconds() - began) % self.answer_step
            await deferLater(self.clock, self.answer_step - gone)

    def _find(self, tx: ITransaction, name: str) -> FoundAccount:
        rows = self.entrance.recorder.rows(tx)
        return self._found(
            rows, lambda: rows.person_named(name), otherwise=lambda: tx.people.named(name)
        )

    def find_of(self, tx: ITransaction, person_id: str) -> FoundAccount:
        """The account of the person that a passkey names."""
        rows = self.entrance.recorder.rows(tx)
        return self._found(
            rows, lambda: rows.person(person_id), otherwise=lambda: tx.people.get(person_id)
        )

    def _found(
        self,
        rows: SignedRows,
        look: Callable[[], Person | None],
        *,
        otherwise: Callable[[], Person | None],
    ) -> FoundAccount:
        """The account of a person; *otherwise* finds one whose row is unsigned, for the record."""
        found: Sequence[PersonSecret] = ()
        try:
            known = look()
            found = rows.secrets_of("" if known is None else known.id)
        except StateUnsigned:
            return FoundAccount(otherwise(), why=StateUnsigned.reason)
        finally:
            # As many digests for a name that nobody has.
            for decoy in self.judge.decoys[len(found) :]:
                secret_entry(decoy)
        if not any(one.kind is SecretKind.PASSWORD for one in found):
            return FoundAccount(known, why="account_unknown")
        return FoundAccount(known, found)

    def _source(self, account: FoundAccount, device: bytes, host: str) -> str:
        """Who tries: a machine where this person signed in, else everybody behind an address."""
        if account.known is not None and 0 < len(device) <= MAX_DEVICE_BYTES:
            try:
                return f"{_DEVICE}{self.secrets.device_id(device, account.known.id)}"
            except SealBroken:
                pass
        return host

    async def _judged(
        self, account: FoundAccount, password: str, presented: Presented, may_try: bool
    ) -> SecondFactor:
        """The second factor, if all is good; everything is computed whatever is wrong."""
        why, rows = account.why, account.rows
        try:
            hashed = self.judge.password(rows)
            factor = self.judge.second_factor(rows, presented)
        except SealBroken as broken:
            why, rows = broken.reason, ()
            hashed = self.judge.password(rows)
            factor = self.judge.second_factor(rows, presented)
        is_password = await self.hashes.verify(hashed, password)
        if not may_try:
            why = "account_locked"
        elif not why and not is_password:
            why = "password_wrong"
        if why or factor.why:
            raise LocalSignInRefused(why or factor.why)
        return factor

    def let_in(
        self, tx: ITransaction, bound: Bound, account: FoundAccount, factor: SecondFactor
    ) -> tuple[SignedIn, int]:
        """Use up what was judged, and let its person in; how many recovery codes are left."""
        known, password = self.use(tx, account, factor)
        left = sum(one.kind is SecretKind.RECOVERY for one in tx.secrets.of(known.id))
        return self.admit(tx, bound, known, password), left

    def use(
        self, tx: ITransaction, account: FoundAccount, factor: SecondFactor
    ) -> tuple[Person, PersonSecret]:
        """Use up what was judged; whose it is, and their password.

        Raises:
            LocalSignInRefused: it was used, or is not in force any more.
        """
        assert account.known is not None
        assert factor.row is not None
        known = self.admission.active_person(tx, account.known.id)
        recorder = self.entrance.recorder
        rows = recorder.rows(tx).secrets_of(known.id)
        used = [one for one in account.rows if one.kind is SecretKind.PASSWORD] + [factor.row]
        if any(one not in rows for one in used):
            # Whoever came at the same moment with the same code was first.
            raise LocalSignInRefused("code_replayed")
        if factor.counter is None:
            tx.secrets.remove(factor.row.id)
        else:
            tx.secrets.count(factor.row.id, factor.counter)
        recorder.append(
            tx,
            ACCOUNT_USE,
            person(known.id),
            details={"person_id": known.id, "second_factor": factor.kind.value},
            state=[SECRETS.now(tx, factor.row.id)],
        )
        return known, used[0]

    def admit(
        self, tx: ITransaction, bound: Bound, known: Person, password: PersonSecret
    ) -> SignedIn:
        """Let a person in who has proven who they are."""
        recorder = self.entrance.recorder
        link = recorder.rows(tx).identity_of(LOCAL_ISSUER, known.id)
        if link is not None and link.person_id != known.id:
            # An operator linked what is no provider's account: it makes nobody somebody else.
            raise LocalSignInRefused("account_linked")
        if link is None:
            link_account(
                tx,
                recorder,
                self.admission.entropy,
                known=known,
                issuer=LOCAL_ISSUER,
                subject=known.id,
                actor=person(known.id),
            )
        now = self.admission.now()
        account = Account(LOCAL_ISSUER, known.id, auth_time=now, factor_at=now)
        # What it is renewed by, as by a provider's token: this password is still in force.
        return self.admission.admit(tx, account, bound.csr, bound.flow, password.id)

    async def confirmed(self, row: SignIn, password_id: str) -> Account:
        """The account of a sign-in that is to be renewed, while its password is in force.

        Raises:
            SignInRefused: ``sign_in_ended``.
        """

        def look(tx: ITransaction) -> bool:
            kept = self.entrance.recorder.rows(tx).secrets_of(row.person_id)
            return any(one.id == password_id for one in kept)

        if not await self.entrance.store.read("confirm an account", look):
            raise SignInRefused(
                "the password of this account was changed since; run `svc login`",
                reason="sign_in_ended",
            )
        return Account(LOCAL_ISSUER, row.person_id, auth_time=row.auth_time)

    async def record(self, bound: Bound, refusal: SvcError, known: Person | None) -> None:
        """Record a refusal with its true reason, within the share of everybody (rule R12)."""
        why = getattr(refusal, "why", refusal.reason)
        details = {"sign_in_flow": bound.flow.value, "key_digest": bound.key_sha256.hex()}
        if known is not None:
            details["person_id"] = known.id
        _log.warn("sign-in refused", reason=why, flow=bound.flow.value)
        await self.entrance.refusals.write(
            JOINERS,
            "refuse a sign-in",
            lambda tx: self.entrance.recorder.append(
                tx, SIGN_IN_REFUSED, ANONYMOUS, reason=why, details=details
            ),
        )


_DEVICE = "device:"


def key_challenge(attempt: Attempt) -> bytes:
    """What a security key signs: of this attempt, and of the key to be certified (rule R35)."""
    assert attempt.flow is Flow.LOCAL
    return sha256(b"svc-sign-in-key-v1\0" + attempt.key_sha256 + attempt.secret).digest()
