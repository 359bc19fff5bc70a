"""The store: Authority's durable state, behind transactions that do not wait.

A caller hands over a function; it runs synchronously with every facet in
reach, may be run again, and either all it wrote is durable when the call
returns, or none of it is.  No SQL and no connection crosses this page.  The
facets are on the page ``svc.interfaces.facets``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.plugin import IPlugin
from zope.interface import Attribute, Interface

from svc.interfaces.access_requests import IAccessRequests
from svc.interfaces.account import ISecrets
from svc.interfaces.agents import IAgentCertificates, IAgents, IDelegations
from svc.interfaces.crash import CrashPoint, no_crash
from svc.interfaces.discovered import ICatalogChanges, IPublications, IScopes
from svc.interfaces.epochs import IEpochs
from svc.interfaces.expected import IExpectedKeys
from svc.interfaces.facets import (
    IAuditLog,
    ICatalog,
    ICertificates,
    IHeads,
    IKeyrings,
    ILease,
    ILogRepair,
    INodes,
    IPeople,
    IPeopleChanges,
    IPolicies,
    ISchema,
    ISessions,
    IStateLog,
    IStoredLog,
    ITokens,
)
from svc.interfaces.inventory import IBindings, IInventories, INodeHealth
from svc.interfaces.outbox import IOrigins, IOutbox, ISpools
from svc.interfaces.proposals import IPolicyApprovals, IProposals
from svc.interfaces.roots import IRoots
from svc.interfaces.sign_in import ISignIns
from svc.model.store.migration import MigrationReport, MigrationStatus
from svc.model.store.rehearsal import Rehearsal

T = TypeVar("T")

ChainHash = Callable[[int, bytes, bytes], bytes]
"""``chain_hash(seq, previous_hash, canonical)``: the link's 32 bytes."""


class ITransaction(Interface):
    """What a function sees while it runs: the facets of one transaction.

    Not to be kept past the function's return.
    """

    repair: ILogRepair = Attribute("What an operator has done to a damaged log.")
    schema: ISchema = Attribute("Applied migrations and the facts of this store.")
    lease: ILease = Attribute("Who may write.")
    tokens: ITokens = Attribute("Join tokens.")
    expected: IExpectedKeys = Attribute("Keys that may join without a token.")
    nodes: INodes = Attribute("The node registry.")
    people: IPeople = Attribute("Persons and groups.")
    people_changes: IPeopleChanges = Attribute("Changes of persons that are there.")
    certificates: ICertificates = Attribute("Certificates issued to persons.")
    access: IAccessRequests = Attribute("Requests for access, and what was decided.")
    sign_ins: ISignIns = Attribute("Sign-ins of people at an identity provider.")
    secrets: ISecrets = Attribute("What people without a provider sign in by.")
    agents: IAgents = Attribute("Programs that act for somebody.")
    agent_certificates: IAgentCertificates = Attribute("Certificates issued to agents.")
    delegations: IDelegations = Attribute("For whom agents may act.")
    catalog: ICatalog = Attribute("Resources and their assignment.")
    catalog_changes: ICatalogChanges = Attribute("Changes of resources that are there.")
    scopes: IScopes = Attribute("What discovery may bring into the catalog.")
    publications: IPublications = Attribute("What Connectors published, to look at.")
    bindings: IBindings = Attribute("Who was meant to serve a resource, and when.")
    epochs: IEpochs = Attribute("What the cluster switched on, and what nodes offer.")
    inventories: IInventories = Attribute("How often what a Connector is to serve changed.")
    health: INodeHealth = Attribute("What nodes reported of their own health.")
    policies: IPolicies = Attribute("Versions of the policy text.")
    proposals: IProposals = Attribute("Proposed policies.")
    policy_approvals: IPolicyApprovals = Attribute("What people decided about them.")
    sessions: ISessions = Attribute("Sessions, open and ended.")
    audit: IAuditLog = Attribute("The hash chain of audit records.")
    stored: IStoredLog = Attribute("The same as it is stored, unread.")
    heads: IHeads = Attribute("Signed heads, for the other Authorities.")
    keyrings: IKeyrings = Attribute("Certificates of issuing and purpose keys.")
    roots: IRoots = Attribute("The root that key material is distributed under.")
    state: IStateLog = Attribute("The signed records that change protected rows.")
    outbox: IOutbox = Attribute("The audit queue.")
    spools: ISpools = Attribute("Which rows of other instances were accepted.")
    origins: IOrigins = Attribute("What became of rows that left the queue.")


class IReadOnlyStore(Interface):
    """A store that is only read."""

    async def read(desc: str, fn: Callable[[ITransaction], T]) -> T:
        """Run *fn* over one consistent snapshot and return what it returns.

        Args:
            desc: What this is for, in two or three words; for logs and errors.
            fn: Synchronous; may be run again.  What it tries to write is refused.

        Raises:
            StoreUnavailable: the store did not answer within its time.
        """

    async def close() -> None:
        """Finish what has begun, release files and locks.  Idempotent."""


class IStore(IReadOnlyStore):
    """The store of a running Authority: its one writer."""

    async def run(desc: str, fn: Callable[[ITransaction], T]) -> T:
        """Run *fn* as one transaction; return what it returned once that is durable.

        Args:
            desc: What this is for, in two or three words; for logs and errors.
            fn: Synchronous; does no I/O but through the facets; may be run again.
                What it raises undoes its writes and reaches the caller as it is.

        Raises:
            StoreUnavailable: the store failed, or did not answer within its
                time.  ``reason`` is ``store_unavailable`` when nothing was
                written, ``store_outcome_unknown`` when that cannot be said.
                Either way nothing may be granted on it.
        """


@frozen
class StoreNeeds:
    """What the caller passes to a store when it opens it.

    ``clock`` times the deadlines; ``now`` is seconds since the epoch (told to
    whoever is refused because we hold the store); ``call_from_thread`` brings results back to
    the reactor; ``chain_hash`` links audit rows; ``transaction_secs`` is how
    long a caller waits at most; ``crash_point`` is called with
    ``before_commit``, ``after_commit`` and ``before_answer`` (fault tests end
    the process there).
    """

    clock: IReactorTime
    now: Callable[[], float]
    call_from_thread: Callable[..., object]
    chain_hash: ChainHash
    transaction_secs: float = 10.0
    crash_point: CrashPoint = no_crash


class IStoreFactory(IPlugin):
    """Opens stores of one URL scheme; a drop-in ``store_<name>``.

    All but :meth:`open` may be called before the reactor runs, and block.
    """

    name: str = Attribute("The word operators write, and the scheme of its URLs.")
    is_shared: bool = Attribute(
        "Whether several processes may have one of its stores open to write; where not, "
        "having it open is leading."
    )

    def check(url: str) -> None:
        """Refuse a URL that cannot name a store here; touches nothing but its form.

        Raises:
            ConfigError: naming ``store_url``, never showing a password.
        """

    def migration_status(url: str) -> MigrationStatus:
        """Compare the store with this build; read-only, creates nothing.

        A store that does not exist yet has everything pending.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    def migrate(
        url: str,
        binary_version: str,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        wait_secs: float = 120.0,
    ) -> MigrationReport:
        """Apply what is pending, each migration whole; idempotent.

        Args:
            now: Seconds since the epoch, for the ledger.
            monotonic: Seconds of a clock nobody sets, for the wait.

        Raises:
            LockTimeout: another writer held the store for *wait_secs*; names it.
            UnknownApplied: the store is newer than this build; nothing changed.
            MigrationsBroken: the ledger has a gap or a changed checksum.
            StoreUnavailable: the store does not answer.
        """

    def open(url: str, needs: StoreNeeds) -> IStore:
        """Open the store to write; may block for a local file.

        Raises:
            ConfigError: its directory or file is not private to us.
            StoreUnavailable: another process writes to it (``store_in_use``),
                or it does not answer.
            MigrationsPending: the store lacks migrations.
            UnknownApplied: the store is newer than this build.
            MigrationsBroken: the ledger has a gap or a changed checksum.
        """

    def open_read_only(url: str, chain_hash: ChainHash) -> IReadOnlyStore:
        """Open for reading, with or without a running writer; takes no lock, creates no file.

        For commands: its ``read`` runs at once, in the calling thread.

        Raises:
            StoreUnavailable: there is no such store, or it does not answer.
        """


class IRehearser(Interface):
    """A factory that can also show what its migrations would do; asked for with ``providedBy``."""

    def rehearse(
        url: str,
        binary_version: str,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> Rehearsal:
        """Migrate a copy of the store, whether or not an Authority runs; blocks.

        The store itself is only read.  Nothing of the copy is left, however this ends.

        Args:
            monotonic: Seconds of a clock nobody sets, for what each migration takes.

        Raises:
            SvcError: ``rehearsal_refused``: there is no room, or no right, to make a copy;
                the text says what is needed.
            UnknownApplied, MigrationsBroken: there is nothing to rehearse.
            StoreUnavailable: the store does not answer.
        """
