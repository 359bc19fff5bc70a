"""The facets of a store: one page per sort of rows, at most eight methods each.

Every method is synchronous and belongs to the transaction whose function calls
it.  Times are seconds since the epoch and are passed in.  Ids are checked by
the callers; a facet keeps what it is given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zope.interface import Interface

from svc.model.audit.ledger import (
    ChainHead,
    ChainRow,
    EntitySlice,
    PersonalValue,
    StoredRow,
    StoredValue,
)
from svc.model.audit.record import SealedRecord
from svc.model.audit.state import StateHead, StateRow
from svc.model.cluster.key_revision import KeyRevision, KeyState
from svc.model.cluster.lease import LeaderLease, Member
from svc.model.cluster.node import KeptToken, Leaf, Node, RegistryRenewal, SpentToken, TokenRecord
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.resource import Resource, Undeclared
from svc.model.distribution import RotationPause
from svc.model.policy.version import PolicyVersion
from svc.model.session.session import ReportedEnd, Session, SessionEnd
from svc.model.store.migration import AppliedMigration


class ISchema(Interface):
    """Which shape this store has, and whose it is."""

    def applied() -> tuple[AppliedMigration, ...]:
        """The ledger, in order."""

    def fact(name: str) -> str | None:
        """A fact of this store (``cluster``, ``log_id``, ``open_tunnel.SEQ``), or None."""

    def settle(name: str, value: str) -> str:
        """Set a fact unless it is set; return the value that now holds."""

    def facts(prefix: str, limit: int) -> tuple[str, ...]:
        """The names of at most *limit* facts that begin with *prefix* and a dot, in order."""

    def drop(name: str) -> bool:
        """Remove a fact that no longer holds; whether it was set."""


class ILease(Interface):
    """Who may write.  Each change compares the lease that it replaces, whole."""

    def held() -> LeaderLease:
        """The current lease."""

    def take(owner: str, instance: str, seen: LeaderLease) -> LeaderLease | None:
        """Begin the next epoch if the lease still is as *seen*; else None, and no change.

        The caller has judged that *seen* may be taken.
        """

    def beat(mine: LeaderLease) -> LeaderLease | None:
        """Count one more sign of life of the holder; None when the lease is not *mine* any more."""

    def leave(mine: LeaderLease) -> bool:
        """Give the lease up; whether it still was *mine*.  The epoch stays."""

    def require(mine: LeaderLease) -> None:
        """Return if the lease is *mine*, whatever its beats; called first in each write.

        Epoch, owner and process are compared: a database that failed over to a replica without
        the newest epoch gives one epoch to two.

        Raises:
            LeaseLost: another epoch has begun, another process holds it, or nobody does.
        """

    def members() -> list[Member]:
        """Every Authority that has ever used the store, as it described itself; ordered by name."""

    def appear(member: Member, seen: Member | None) -> bool:
        """Put *member* in the place of its row as *seen* (None: of none); whether it was so."""


class ITokens(Interface):
    """Join tokens; only hashes of their secrets are kept."""

    def add(token: TokenRecord, at: float) -> None:
        """Store a token. Raises AlreadyExists if its id is in use."""

    def spend(token_id: str, secret_sha256: bytes, at: float) -> SpentToken:
        """Spend a token if it is good; of any number of attempts one succeeds."""

    def waiting(at: float) -> tuple[TokenRecord, ...]:
        """Tokens that could still be spent at *at*, soonest to expire first."""

    def get(token_id: str) -> KeptToken | None:
        """The token, also when spent or expired."""

    def unexpired(at: float) -> tuple[KeptToken, ...]:
        """Every token that has not expired at *at*, spent ones included, by id."""

    def withdraw(token_id: str, at: float) -> bool:
        """Make a token unusable; return whether it was still usable."""


class INodes(Interface):
    """The node registry."""

    def register(node: Node) -> None:
        """Add a node. Raises AlreadyExists if its id, active name or audit key is in use."""

    def get(node_id: str) -> Node | None:
        """The node, also when revoked."""

    def named(name: str) -> Node | None:
        """The active node of that name."""

    def keyed(audit_key: bytes) -> Node | None:
        """The node of that audit key, also when revoked: a key is one node's for ever."""

    def all() -> tuple[Node, ...]:
        """Every node, by name, revoked ones included."""

    def revoke(node_id: str, at: float) -> bool:
        """Revoke for ever; whether it was active until now."""

    def renewed(node_id: str, from_generation: int, leaf: Leaf) -> RegistryRenewal:
        """Take a new leaf if *from_generation* is the newest (security rule R13).

        A node that asks again from the generation before with the very key of
        the newest leaf lost its answer: ``REPEATED``, the leaf is replaced and
        the generation stays.  Any other older generation is a ``CLONE`` and
        changes nothing; the caller decides what follows.
        """

    def seen(node_id: str, at: float, version: str) -> None:
        """Remember that the node was here; no effect on an unknown id."""


class IPeople(Interface):
    """Persons and groups."""

    def add(person: Person, at: float) -> None:
        """Add a person and its memberships.

        Raises:
            AlreadyExists: the id, or the name, is taken.
            NoSuchRow: a group of the person's does not exist.
        """

    def get(person_id: str) -> Person | None:
        """The person, also when revoked."""

    def named(name: str) -> Person | None:
        """The person of that name."""

    def all() -> tuple[Person, ...]:
        """Every person with groups, by name."""

    def add_group(name: str, at: float) -> None:
        """Add a group.  Raises AlreadyExists where it is there."""

    def groups() -> tuple[str, ...]:
        """The names of all groups."""

    def set_groups(person_id: str, groups: Collection[str]) -> None:
        """Make *groups* the person's groups.  Raises NoSuchRow for either."""

    def revoke(person_id: str, at: float) -> bool:
        """Revoke the person for good; whether it was not revoked until now."""


class IPeopleChanges(Interface):
    """What operators change of persons that are there."""

    def disable(person_id: str) -> bool:
        """Disable the person until it is enabled; whether it was active until now."""

    def enable(person_id: str) -> bool:
        """Make a disabled person active; whether it was disabled until now."""

    def forget_name(person_id: str, salt: bytes) -> bool:
        """Put the id in the place of the name, and *salt* in that of the salt.

        Returns whether there was a name.
        """

    def remove_group(name: str) -> bool:
        """Remove a group that nobody is in; whether it was there."""


class ICertificates(Interface):
    """Certificates issued to persons."""

    def issued(certificate: IssuedCertificate) -> None:
        """Remember one.  Raises AlreadyExists for a known hash, NoSuchRow for no person."""

    def get(sha256: bytes) -> IssuedCertificate | None:
        """The certificate of that SHA-256."""

    def put(certificate: IssuedCertificate) -> None:
        """Keep one in the place of whatever row has its hash or its serial."""

    def of(person_id: str) -> tuple[IssuedCertificate, ...]:
        """A person's certificates, newest first."""

    def unexpired(at: float) -> tuple[IssuedCertificate, ...]:
        """Every certificate that has not expired at *at*, revoked ones included, by hash."""

    def revoked(at: float) -> tuple[IssuedCertificate, ...]:
        """Those of them that were revoked, by hash."""

    def revoke(sha256: bytes, at: float, *, signed_out: bool = False) -> bool:
        """Revoke one; whether that changed it.

        Args:
            signed_out: Because its holder signs out; one that was revoked stays as it is.
                Otherwise one whose holder had signed out is from now on simply revoked.
        """


class ICatalog(Interface):
    """Resources and who may serve them."""

    def add(resource: Resource, at: float) -> Resource:
        """Add a resource; returns it with its revision.

        Raises:
            AlreadyExists: the id is taken, or the identity was another's once.
            NoSuchRow: the node it is assigned to does not exist.
        """

    def get(resource_id: str) -> Resource | None:
        """The resource, or None."""

    def all() -> tuple[Resource, ...]:
        """Every resource, by id."""

    def remove(resource_id: str, at: float) -> bool:
        """Remove a resource and end its identity; whether it was there."""

    def assign(resource_id: str, node_id: str | None, at: float) -> Resource:
        """Assign the resource to *node_id* (None: to no node); does nothing if that is already so.

        Raises NoSuchRow for either.
        """

    def registered(
        node_id: str, served: Collection[str], undeclared: Collection[Undeclared], at: float
    ) -> None:
        """Remember what a Connector that registered serves, and what it may not.

        *undeclared* replaces what was known of this node.
        """

    def undeclared() -> tuple[Undeclared, ...]:
        """What Connectors offered and may not serve, by resource id."""

    def revision() -> int:
        """Counts every change of resources, persons, groups and memberships."""


class IPolicies(Interface):
    """Versions of the policy text."""

    def add(text: str, author: str, at: float) -> PolicyVersion:
        """Keep a new version, the next number; not yet in force."""

    def activate(version: int, at: float) -> PolicyVersion:
        """Put a version in force.

        Raises:
            NoSuchRow: there is no such version.
            AlreadyExists: this or a later one was put in force before.
        """

    def active() -> PolicyVersion | None:
        """The version in force."""

    def get(version: int) -> PolicyVersion | None:
        """One version."""

    def newer(version: int, limit: int) -> tuple[PolicyVersion, ...]:
        """At most *limit* versions past *version*, in force or not, oldest first."""

    def history(limit: int) -> tuple[PolicyVersion, ...]:
        """The newest *limit* versions, newest first."""


class ISessions(Interface):
    """Sessions, open and ended."""

    def insert(session: Session) -> None:
        """Keep a new session.  Raises AlreadyExists: its uid was used before (a replay)."""

    def end(uid: str, end: SessionEnd) -> ReportedEnd:
        """Record the end of an open session; the first end recorded stays."""

    def get(uid: str) -> Session | None:
        """The session, or None."""

    def beginning(word: str, limit: int) -> tuple[Session, ...]:
        """At most *limit* sessions whose uid begins so, by uid."""

    def open() -> tuple[Session, ...]:
        """Sessions not ended, oldest first."""

    def ask_end(uid: str, reason: str) -> bool:
        """Note why an open session is to end; whether it was open.  Its end overwrites that."""

    def open_of_person(person_id: str) -> tuple[Session, ...]:
        """Open sessions of one person, oldest first."""

    def open_of_proxy(proxy_id: str) -> tuple[Session, ...]:
        """Sessions not ended of one Proxy, oldest first."""


class IAuditLog(Interface):
    """The hash chain.  Appended to in the transaction of the effect it records."""

    def append(
        canonical: bytes,
        personal: Sequence[PersonalValue] = (),
        entities: EntitySlice | None = None,
        signature: bytes = b"",
        before: Sequence[SealedRecord] = (),
    ) -> ChainRow:
        """Link a record to the chain; its link.

        Args:
            canonical: The record as RFC 8785 JSON, an object; kept as it is.  The
                searchable columns are derived from it and cannot differ from it.
            personal: Values the record holds only as salted hashes.
            entities: The slice of entities the decision was made over.
            signature: Of the origin, where that is not the leader.
            before: Records that come right before it; they cost no statement of their own.

        Raises:
            Malformed: *canonical* has not the form of a JSON object in UTF-8.  One
                that does not parse inside fails the transaction.
        """

    def head() -> ChainHead:
        """The last link."""

    def rows(from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        """At most *limit* links from *from_seq* on, in order."""

    def tail(limit: int) -> tuple[ChainRow, ...]:
        """The last *limit* links, in order."""

    def by_decision(decision_id: str) -> tuple[ChainRow, ...]:
        """Every record that names this decision, in order."""

    def personal(first: int, last: int) -> Mapping[int, tuple[PersonalValue, ...]]:
        """The personal values that are not erased, by record, of the records *first* to *last*."""

    def erase_personal(seq: int, left: PersonalValue | None = None) -> int:
        """Erase the personal values of a record; how many.  The chain still verifies.

        Args:
            left: Of a batch, the values that stay, in the place of those at its path; the
                entries always stay.
        """

    def slices(
        after: str, limit: int, among: Collection[str] | None = None
    ) -> tuple[EntitySlice, ...]:
        """At most *limit* slices of entities with a digest beyond *after*, in order of these.

        Args:
            among: Only those of these digests, of whom at most 500 are asked for at once.
        """


class IStoredLog(Interface):
    """The hash chain and what is beside it as they are stored, for whoever judges all of it.

    Nothing is looked at as it is read, and no object is made of it: a log has millions of rows.
    """

    def rows(from_seq: int, limit: int) -> Sequence[StoredRow]:
        """At most *limit* links from *from_seq* on, in order."""

    def values(first: int, last: int) -> Sequence[StoredValue]:
        """The personal values of the records *first* to *last*, in order of record and path."""


class ILogRepair(Interface):
    """What is taken from a log on an operator's word, and at no other time."""

    def cut_after(seq: int) -> int:
        """Drop every record past *seq*, and all that refers to one; how many records.

        What only refers to records that are not there any more goes as well, and so does a
        slice of entities that no decision is left to name.  The caller has kept what is
        dropped, and records that it was.
        """

    def erase_slice(digest: str) -> bool:
        """Erase a slice of entities; whether it was there.  The caller records that it was."""


class IHeads(Interface):
    """Signed heads on their way to the other Authorities of this store."""

    def add(tree_size: int, line: bytes, kept: int) -> None:
        """Keep a head's line (ASCII), and of all only the newest *kept*.

        Raises:
            AlreadyExists: there is one over as many records.
        """

    def after(tree_size: int, limit: int) -> tuple[bytes, ...]:
        """At most *limit* lines of heads over more records than *tree_size*, in order."""

    def drop_after(tree_size: int) -> int:
        """Delete heads over more records, for a log that continues from fewer; return how many."""


class IKeyrings(Interface):
    """Certificates of issuing authorities and purpose keys; never a private key."""

    def add(kind: str, certificate: str, at: float) -> KeyRevision:
        """Keep a certificate (PEM) as the kind's next revision, ``PREPARED``."""

    def enter(kind: str, revision: int, state: KeyState, at: float) -> KeyRevision:
        """Change the state of a revision; the one active before is retired.

        Raises:
            NoSuchRow: there is no such revision.
        """

    def active(kind: str) -> KeyRevision | None:
        """The revision in use."""

    def all() -> tuple[KeyRevision, ...]:
        """Every revision, by kind and revision."""

    def pauses() -> tuple[RotationPause, ...]:
        """Whether rotation is paused; no row: it never was."""

    def pause(pause: RotationPause) -> None:
        """Keep that it is paused, or not any more."""


class IStateLog(Interface):
    """Which records of the log change protected rows, and who signed them (rule R8).

    Nothing here is trusted: each row is verified by whoever reads it.
    """

    def append(n: int, seq: int, key_id: str, signature: bytes, certificate: bytes) -> None:
        """Keep the signature of record *seq*, the *n*-th that changes state.

        Raises:
            AlreadyExists: there is an *n*-th, or *seq* has a number.
        """

    def tip() -> int:
        """The highest n; 0 if there is none. Read at every session."""

    def head() -> StateHead:
        """The record with the greatest n; its hash is empty where the log lacks it."""

    def since(n: int, limit: int) -> tuple[StateRow, ...]:
        """At most *limit* records past the *n*-th, in order; holes are left as they are."""
