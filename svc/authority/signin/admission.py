"""Lets a verified account in: person, groups, certificate and record in one transaction."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, field, frozen

from svc.authority.enroll.issued import certificate_details
from svc.authority.signin.account import Account, account_name
from svc.authority.signin.attempts import Flow
from svc.authority.signin.links import SALT_BYTES, link_account
from svc.authority.signin.refusals import SignInRefused
from svc.authority.state.recorder import Recorder, person
from svc.authority.state.tables import CERTIFICATES, PERSONS, SIGN_INS
from svc.interfaces.store import ITransaction
from svc.model.audit.events import (
    GROUP_JOIN,
    GROUP_LEAVE,
    PERSON_ADD,
    PERSON_SIGN_IN,
    SIGN_IN_RENEW,
)
from svc.model.certificate import CertificateFacts, NewCertificate
from svc.model.cluster.account import ADMINISTRATORS
from svc.model.cluster.person import IssuedCertificate, Person, require_active
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.cluster.token import TokenGrant
from svc.model.ids import Entropy, person_id, random_id
from svc.model.principal import Role
from svc.pki.credentials import CredentialPlace, CredentialSeal
from svc.pki.enroll import CertificateIssuer, HolderStanding

SIGN_INS_TABLE = "sign_ins"


@frozen
class SignedIn:
    """Somebody who was let in, or whose certificate was renewed."""

    issued: NewCertificate
    person: Person
    sign_in: SignIn


@define
class SignInAdmission:
    """Turns a verified account into a certificate.

    Attributes:
        create_persons: Whether an account that is nobody's here becomes a new person.
        name_claim: What that person is called by.
        renew_secs: How long after a sign-in its certificate is renewed.
    """

    cluster: str
    issuer: CertificateIssuer
    recorder: Recorder
    seal: CredentialSeal
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    create_persons: bool
    name_claim: str
    renew_secs: float

    def admit(
        self, tx: ITransaction, account: Account, csr: bytes, flow: Flow, refresh: str
    ) -> SignedIn:
        """Sign somebody in; called inside a transaction.

        Raises:
            SignInRefused, Denied: the account is nobody's here, or of somebody who may not.
        """
        link = self.recorder.rows(tx).identity_of(account.issuer, account.subject)
        if link is None:
            link = self._first(tx, account)
        known = self.active_person(tx, link.person_id)
        known = self.take_groups(tx, known, account)
        at = account.factor_at
        issued = self.issuer.admit(
            TokenGrant("", Role.USER, subject_id=known.id, name=known.name),
            csr,
            factor_at=None if at is None else int(at),
        )
        row = self._kept(tx, link, known, account, issued, refresh)
        self.recorder.append(
            tx,
            PERSON_SIGN_IN,
            person(known.id),
            details={
                **certificate_details(issued),
                "person_id": known.id,
                "sign_in_id": row.id,
                "identity_id": link.id,
                "sign_in_flow": flow.value,
                "issuer": account.issuer,
            },
            state=[CERTIFICATES.now(tx, issued.facts.sha256), SIGN_INS.now(tx, row.id)],
        )
        return SignedIn(issued, known, row)

    def renew(
        self, tx: ITransaction, row: SignIn, shown: CertificateFacts, csr: bytes, refresh: str
    ) -> SignedIn:
        """The next certificate of a sign-in that the provider has just confirmed.

        Raises:
            CloneSuspected, IdentityRevoked: see CertificateIssuer.renew.
        """
        known = self.active_person(tx, row.person_id)
        standing = HolderStanding(row.generation, row.key_sha256)
        # The last one ends with the sign-in, however long certificates last otherwise.
        issued = self.issuer.renew(shown, csr, standing, ends_by=row.ends_at)
        self._issued(tx, known, issued, row.id)
        link = self.recorder.rows(tx).identity(row.identity_id)
        renewed = evolve(
            row,
            certificate_sha256=issued.facts.sha256,
            key_sha256=issued.key_sha256,
            generation=issued.facts.generation,
            refresh=self._sealed(refresh, row.id, known, "" if link is None else link.issuer),
        )
        tx.sign_ins.put(renewed)
        self.recorder.append(
            tx,
            SIGN_IN_RENEW,
            person(known.id),
            details={
                **certificate_details(issued),
                "person_id": known.id,
                "sign_in_id": row.id,
            },
            state=[CERTIFICATES.now(tx, issued.facts.sha256), SIGN_INS.now(tx, row.id)],
        )
        return SignedIn(issued, known, renewed)

    def active_person(self, tx: ITransaction, id: str) -> Person:
        """The person, if they may sign in.

        Raises:
            Denied: ``unknown_person``, ``revoked_person`` or ``disabled_person``.
        """
        return require_active(self.recorder.rows(tx).person(id))

    def take_groups(self, tx: ITransaction, known: Person, account: Account) -> Person:
        """Put the person into those of the account's groups that exist here, and no other.

        But for the administrators: a company's directory often has a group of that name, and the
        shipped policy lets it administer.  Who is among them is decided here alone.
        """
        if account.groups is None:
            return known
        rows = self.recorder.rows(tx)
        # A group that exists only at the provider gives nothing, and is not made for it.
        there = {group for group in tx.people.groups() if group in account.groups}
        wanted = {group for group in there - {ADMINISTRATORS} if rows.group(group)}
        wanted |= {ADMINISTRATORS} & set(known.groups)
        if wanted == set(known.groups):
            return known
        tx.people.set_groups(known.id, wanted)
        state = [PERSONS.now(tx, known.id)]  # the first record has it for all of them
        for event, changed in (
            (GROUP_JOIN, wanted - set(known.groups)),
            (GROUP_LEAVE, set(known.groups) - wanted),
        ):
            for group in sorted(changed):
                details = {"group": group, "person_id": known.id}
                self.recorder.append(tx, event, person(known.id), details=details, state=state)
                state = []
        return evolve(known, groups=tuple(sorted(wanted)))

    def opened(self, row: SignIn, issuer: str) -> str:
        """The refresh token of a sign-in; empty where it has none.

        Raises:
            SealBroken: it is another row's, or was sealed by another key.
        """
        if not row.refresh:
            return ""
        return self.seal.open(row.refresh, self._place(row.id, row.person_id, issuer)).decode()

    def _first(self, tx: ITransaction, account: Account) -> IdentityLink:
        """The link of an account that is nobody's here yet."""
        if not self.create_persons:
            raise SignInRefused(
                "your account at the identity provider is nobody's here yet; ask your operator "
                f"to link it: issuer {account.issuer}, subject {account.subject}",
                reason="unknown_account",
            )
        name = account_name(account, self.name_claim)
        if self.recorder.rows(tx).person_named(name) is not None:
            raise SignInRefused(
                f"there already is a person {name} here, who has not signed in with this "
                "account; ask your operator to link the account to that person, or to rename it",
                reason="name_taken",
            )
        added = self._added(tx, name)
        return link_account(
            tx,
            self.recorder,
            self.entropy,
            known=added,
            issuer=account.issuer,
            subject=account.subject,
            actor=person(added.id),
        )

    def _added(self, tx: ITransaction, name: str) -> Person:
        """A new person, in no group yet."""
        added = Person(person_id(self.entropy), name, salt=self.entropy(SALT_BYTES))
        tx.people.add(added, self.now())
        self.recorder.append(
            tx,
            PERSON_ADD,
            person(added.id),
            details={"person_id": added.id, "name": added.name},
            state=[PERSONS.now(tx, added.id)],
        )
        return added

    def _kept(
        self,
        tx: ITransaction,
        link: IdentityLink,
        known: Person,
        account: Account,
        issued: NewCertificate,
        refresh: str,
    ) -> SignIn:
        """The row of a new sign-in, with that of its certificate."""
        id, now = random_id(self.entropy), self.now()
        self._issued(tx, known, issued, id)
        token = refresh if self.renew_secs else ""
        row = SignIn(
            id=id,
            identity_id=link.id,
            person_id=known.id,
            auth_time=account.auth_time,
            began_at=now,
            ends_at=now + max(self.renew_secs, issued.facts.not_after - now),
            certificate_sha256=issued.facts.sha256,
            key_sha256=issued.key_sha256,
            generation=issued.facts.generation,
            refresh=self._sealed(token, id, known, link.issuer),
        )
        tx.sign_ins.put(row)
        return row

    def _issued(self, tx: ITransaction, known: Person, issued: NewCertificate, of: str) -> None:
        facts = issued.facts
        tx.certificates.issued(
            IssuedCertificate(
                sha256=facts.sha256,
                serial=facts.serial,
                person_id=known.id,
                issued_at=self.now(),
                expires=facts.not_after,
                sign_in_id=of,
            )
        )

    def _sealed(self, refresh: str, row: str, known: Person, issuer: str) -> bytes:
        if not refresh:
            return b""
        return self.seal.seal(refresh.encode(), self._place(row, known.id, issuer))

    def _place(self, row: str, known: str, issuer: str) -> CredentialPlace:
        return CredentialPlace(
            cluster=self.cluster, table=SIGN_INS_TABLE, row=row, person_id=known, provider=issuer
        )
