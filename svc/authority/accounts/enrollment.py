"""A person with a one-time code sets a password and a second factor, and is signed in by it.

Nothing is stored before the second factor has been shown to work; then all of
it at once, and the code is used up in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.authority.accounts.browser import NewPasskey, PasskeyOwner, step_of
from svc.authority.accounts.codes import (
    code_sha256,
    is_totp,
    matching,
    recovery_code,
    totp_secret,
    totp_step,
    totp_uri,
)
from svc.authority.accounts.first import FirstAdministratorCode
from svc.authority.accounts.passkeys import Passkeys
from svc.authority.accounts.passwords import PasswordHashes, check_password
from svc.authority.accounts.refusals import EnrollmentRefused
from svc.authority.accounts.secrets import SealedSecrets
from svc.authority.accounts.security_keys import KeySite, registered
from svc.authority.accounts.sign_in import LocalSignIns, key_challenge
from svc.authority.registry.groups import GroupAdmin
from svc.authority.registry.secrets import take_secrets
from svc.authority.signin.admission import SignedIn
from svc.authority.signin.attempts import ATTEMPT_SECS, Attempt, AttemptOver, Attempts, Flow
from svc.authority.signin.entrance import Bound
from svc.authority.signin.links import SALT_BYTES
from svc.authority.signin.refusals import SignInRefused
from svc.authority.state.recorder import person
from svc.authority.state.tables import PERSONS, SECRETS, SignedRows, StateUnsigned
from svc.errors import Denied, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import ACCOUNT_SET, PERSON_ADD
from svc.model.cluster.account import ADMINISTRATORS, RECOVERY_CODES, PersonSecret, SecretKind
from svc.model.cluster.person import Person, PersonState
from svc.model.ids import is_member_name, is_opaque_id, person_id
from svc.pki.credentials import SealBroken
from svc.proto.gate.v1 import account_pb2 as pb

MOST_TRIES = 5
"""Wrong first codes of TOTP; after them the enrollment begins anew."""


@define(eq=False)
class PendingEnrollment:
    """What a person is about to set; in memory only.

    Attributes:
        person_id: Empty for the first administrator, who is nobody yet.
        code_id: The row of the code.
        totp: The secret; empty where a security key or passkey is to be registered.
        new_id: Of a person who is added.
    """

    name: str
    person_id: str
    code_id: str
    code: str = field(repr=False)
    hashed: str = field(repr=False)
    totp: bytes = field(repr=False)
    new_id: str = ""
    tries: int = 0

    @property
    def is_first(self) -> bool:
        """Whether it is the first administrator's."""
        return not self.person_id


@define
class Enrollments:
    """Begins and completes them."""

    sign_ins: LocalSignIns
    attempts: Attempts
    secrets: SealedSecrets
    hashes: PasswordHashes
    site: KeySite
    first: FirstAdministratorCode
    groups: GroupAdmin
    passkeys: Passkeys
    password_min: int
    now: Callable[[], float]

    async def begin(
        self, bound: Bound, asked: pb.BeginEnrollmentRequest
    ) -> pb.BeginEnrollmentResponse:
        """What the second factor is made from.

        Raises:
            SvcError: the code is not good, or the password is not taken.
        """
        if asked.passkey:
            self.passkeys.configured  # noqa: B018 - raises, before the code is looked for
        known: Person | None = None
        began = self.sign_ins.clock.seconds()
        try:
            if asked.first_administrator:
                await self._check_first(asked)
                known, code_id = None, ""
            else:
                known, code_id = await self._found(asked)
            check_password(asked.password, asked.name, self.password_min)
        except SvcError as refusal:
            await self.sign_ins.record(bound, refusal, known)
            if isinstance(refusal, EnrollmentRefused):
                await self.sign_ins.until_told(began)
            raise
        hashed = await self.hashes.hash(asked.password)
        has_key = asked.security_key or asked.passkey
        pending = PendingEnrollment(
            name=asked.name,
            person_id="" if known is None else known.id,
            code_id=code_id,
            code=asked.code,
            hashed=hashed,
            totp=b"" if has_key else totp_secret(self.secrets.entropy),
            new_id=person_id(self.secrets.entropy) if known is None else "",
        )
        return self._begun(bound, asked, pending)

    def _begun(
        self, bound: Bound, asked: pb.BeginEnrollmentRequest, pending: PendingEnrollment
    ) -> pb.BeginEnrollmentResponse:
        if asked.passkey:
            handle = (pending.person_id or pending.new_id).encode("ascii")
            owner = PasskeyOwner(name=pending.name, handle=handle)
            attempt = self.passkeys.begin(bound, asked.port, owner)
            attempt.enrollment = pending
            return pb.BeginEnrollmentResponse(
                attempt=attempt.id, browser=self.passkeys.told(attempt)
            )
        attempt = self.attempts.begin(Flow.LOCAL, bound.csr, bound.key_sha256, ATTEMPT_SECS)
        attempt.enrollment, totp = pending, pending.totp
        return pb.BeginEnrollmentResponse(
            attempt=attempt.id,
            expires_in=int(ATTEMPT_SECS),
            totp_uri=totp_uri(totp, asked.name, self.secrets.cluster) if totp else "",
            challenge=key_challenge(attempt),
            rp_id=self.site.rp_id,
            origin=self.site.origin,
            user_handle=_user_handle(attempt),
        )

    async def complete(self, asked: pb.CompleteEnrollmentRequest) -> pb.LocalSignInResponse:
        """Store what was begun, if the second factor works, and sign the person in.

        Raises:
            SvcError: it does not, or the code was used meanwhile.
        """
        try:
            attempt = self.attempts.find(asked.attempt, Flow.LOCAL)
        except AttemptOver as over:
            await self.sign_ins.record(Bound.of(over.attempt), over, None)
            raise
        pending = attempt.enrollment
        if not isinstance(pending, PendingEnrollment):
            raise Malformed("enrollment: this attempt is a sign-in")
        bound = Bound.of(attempt)
        codes = [recovery_code(self.secrets.entropy) for _ in range(RECOVERY_CODES)]
        try:
            factor = self._second_factor(attempt, pending, asked)
            if pending.is_first and not await self.first.matches(pending.code):
                raise EnrollmentRefused("code_used")
            signed_in = await self.sign_ins.entrance.store.run(
                "enroll a person", lambda tx: self._set(tx, bound, pending, factor, codes)
            )
        except SvcError as refusal:
            await self.sign_ins.record(bound, refusal, None)
            raise
        self.attempts.end(attempt)
        if pending.is_first:
            await self.first.remove()
        await self.sign_ins.entrance.refresh()
        return pb.LocalSignInResponse(
            signed_in=self.sign_ins.entrance.answer(signed_in),
            device=self.secrets.device(signed_in.person.id),
            recovery_codes_left=len(codes),
            recovery_codes=codes,
        )

    async def _check_first(self, asked: pb.BeginEnrollmentRequest) -> None:
        if not await self.first.matches(asked.code):
            raise EnrollmentRefused("code_wrong")
        # Whoever has the code is told what is wrong.
        if not is_member_name(asked.name) or is_opaque_id(asked.name):
            raise Malformed(
                "name: may have letters, digits and . _ @ -, must start with a letter or digit, "
                "and has at most 128 characters"
            )
        await self.sign_ins.entrance.store.read(
            "look for administrators", lambda tx: self._check_nobody(tx, asked.name)
        )

    def _check_nobody(self, tx: ITransaction, name: str) -> None:
        rows = self.sign_ins.entrance.recorder.rows(tx)
        if has_administrator(tx, rows):
            raise EnrollmentRefused("administrator_exists")
        if rows.person_named(name) is not None:
            raise SignInRefused(
                f"there already is a person {name}; choose another name", reason="name_taken"
            )

    async def _found(self, asked: pb.BeginEnrollmentRequest) -> tuple[Person, str]:
        def look(tx: ITransaction) -> tuple[Person | None, tuple[PersonSecret, ...]]:
            rows = self.sign_ins.entrance.recorder.rows(tx)
            try:
                known = rows.person_named(asked.name)
                return known, rows.secrets_of("" if known is None else known.id)
            except StateUnsigned as unsigned:
                raise EnrollmentRefused(unsigned.reason) from None

        known, rows = await self.sign_ins.entrance.store.read("find an enrollment", look)
        row = self._code_row(rows, asked.code)
        if known is None or row is None:
            raise EnrollmentRefused("account_unknown" if known is None else "code_wrong")
        if known.state is not PersonState.ACTIVE:
            raise EnrollmentRefused(f"{known.state.value}_person")
        return known, row.id

    def _code_row(self, rows: tuple[PersonSecret, ...], code: str) -> PersonSecret | None:
        """The row of a code that is good."""
        waiting = [
            one
            for one in rows
            if one.kind is SecretKind.ENROLLMENT and (one.expires_at or 0.0) > self.now()
        ]
        try:
            id = matching(((one.id, self.secrets.open(one).value) for one in waiting), code)
        except SealBroken as broken:
            raise EnrollmentRefused(broken.reason) from None
        return next((one for one in waiting if one.id == id), None)

    def _second_factor(
        self, attempt: Attempt, pending: PendingEnrollment, asked: pb.CompleteEnrollmentRequest
    ) -> tuple[SecretKind, bytes, int]:
        """Its kind, what is sealed of it, and its counter."""
        if attempt.browser is not None:
            done = step_of(attempt).taken(attempt, self.passkeys.configured, asked.query)
            assert isinstance(done, NewPasskey)
            return SecretKind.PASSKEY, done.key.kept, done.count
        if not pending.totp:
            key, count = registered(
                self.site,
                key_challenge(attempt),
                asked.registration.client_data,
                asked.registration.attestation,
            )
            return SecretKind.KEY, key.kept, count
        step = totp_step(pending.totp, asked.code, self.now()) if is_totp(asked.code) else None
        if step is None:
            pending.tries += 1
            if pending.tries >= MOST_TRIES:
                self.attempts.end(attempt)
            raise SignInRefused(
                "this is not the code that the app shows now; check the clock of the device, "
                "and type the next one",
                reason="code_wrong",
            )
        return SecretKind.TOTP, pending.totp, step

    def _set(
        self,
        tx: ITransaction,
        bound: Bound,
        pending: PendingEnrollment,
        factor: tuple[SecretKind, bytes, int],
        codes: list[str],
    ) -> SignedIn:
        known = self._first(tx, pending) if pending.is_first else self._enrolling(tx, pending)
        recorder, (kind, value, counter) = self.sign_ins.entrance.recorder, factor
        password = self.secrets.new(known.id, SecretKind.PASSWORD, pending.hashed.encode())
        made = [password, self.secrets.new(known.id, kind, value, counter=counter)]
        for code in codes:
            made.append(self.secrets.new(known.id, SecretKind.RECOVERY, code_sha256(code)))
        gone = take_secrets(tx, recorder, known)
        for one in made:
            tx.secrets.add(one)
        recorder.append(
            tx,
            ACCOUNT_SET,
            person(known.id),
            details={
                "person_id": known.id,
                "second_factor": kind.value,
                "key_digest": bound.key_sha256.hex(),
            },
            state=[*gone, *(SECRETS.now(tx, one.id) for one in made)],
        )
        return self.sign_ins.admit(tx, bound, known, password)

    def _enrolling(self, tx: ITransaction, pending: PendingEnrollment) -> Person:
        rows = self.sign_ins.entrance.recorder.rows(tx)
        known = self.sign_ins.admission.active_person(tx, pending.person_id)
        row = self._code_row(rows.secrets_of(known.id), pending.code)
        if row is None or row.id != pending.code_id:
            raise EnrollmentRefused("code_used")
        return known

    def _first(self, tx: ITransaction, pending: PendingEnrollment) -> Person:
        """The first administrator, who becomes a person here."""
        self._check_nobody(tx, pending.name)
        recorder, entropy = self.sign_ins.entrance.recorder, self.secrets.entropy
        added = Person(
            pending.new_id, pending.name, groups=(ADMINISTRATORS,), salt=entropy(SALT_BYTES)
        )
        actor = person(added.id)
        self.groups.ensure(tx, ADMINISTRATORS, actor)
        tx.people.add(added, self.now())
        recorder.append(
            tx,
            PERSON_ADD,
            actor,
            details={"person_id": added.id, "name": added.name},
            state=[PERSONS.now(tx, added.id)],
        )
        self.groups.record_join(tx, added, ADMINISTRATORS, actor)
        return added


def has_administrator(tx: ITransaction, rows: SignedRows) -> bool:
    """Whether somebody who is an administrator can sign in here.

    Raises:
        StateUnsigned: the row of a person or of a secret is not what was signed for.
    """
    for one in tx.people.all():
        if ADMINISTRATORS in one.groups and one.state is PersonState.ACTIVE:
            rows.require(PERSONS.entry_of(one))
            if any(each.kind is SecretKind.PASSWORD for each in rows.secrets_of(one.id)):
                return True
    return False


def refuse_administrator() -> Denied:
    """The refusal of a code where somebody administers."""
    return Denied(
        "an administrator with an account is there already; add others with `svc authority "
        "accounts add`",
        reason="administrator_exists",
    )


def _user_handle(attempt: Attempt) -> bytes:
    """By what the key tells several accounts apart; not the person's id, which is not public."""
    return key_challenge(attempt)[:16]
