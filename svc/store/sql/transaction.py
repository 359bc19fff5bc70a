"""All facets over one connection.

Facets keep no state between calls but what *head* and *appended* remember, so one
object serves every transaction of its connection.
"""

from __future__ import annotations

from zope.interface import implementer

from svc.interfaces.store import ChainHash, ITransaction
from svc.store.sql.access_requests import AccessRequests
from svc.store.sql.agents import AgentCertificateRows, Agents, Delegations
from svc.store.sql.audit import Appended, AuditLog, HeadMemory, LogRepair, StoredLog
from svc.store.sql.bindings import Bindings
from svc.store.sql.catalog import Catalog
from svc.store.sql.certificates import Certificates
from svc.store.sql.discovered import CatalogChanges, Publications, Scopes
from svc.store.sql.epochs import Epochs
from svc.store.sql.expected import ExpectedKeys
from svc.store.sql.heads import Heads
from svc.store.sql.health import NodeHealthRows
from svc.store.sql.inventories import Inventories
from svc.store.sql.keyrings import Keyrings
from svc.store.sql.lease import LeaseRow
from svc.store.sql.nodes import Nodes
from svc.store.sql.origins import Origins
from svc.store.sql.outbox import Outbox
from svc.store.sql.people import People, PeopleChanges
from svc.store.sql.policies import Policies
from svc.store.sql.proposals import PolicyApprovals, Proposals
from svc.store.sql.roots import Roots
from svc.store.sql.schema import Schema
from svc.store.sql.secrets import Secrets
from svc.store.sql.sessions import Sessions
from svc.store.sql.sign_ins import SignIns
from svc.store.sql.spools import Spools
from svc.store.sql.state import StateLog
from svc.store.sql.statements import Statements
from svc.store.sql.tokens import Tokens


@implementer(ITransaction)
class Transaction:
    """The facets, over whatever transaction is open on *db*."""

    def __init__(
        self,
        db: Statements,
        chain_hash: ChainHash,
        head: HeadMemory | None = None,
        appended: Appended | None = None,
    ) -> None:
        self.schema = Schema(db)
        self.lease = LeaseRow(db)
        self.tokens = Tokens(db)
        self.expected = ExpectedKeys(db)
        self.nodes = Nodes(db)
        self.people = People(db)
        self.people_changes = PeopleChanges(db)
        self.certificates = Certificates(db)
        self.sign_ins = SignIns(db)
        self.secrets = Secrets(db)
        self.access = AccessRequests(db)
        self.agents = Agents(db)
        self.agent_certificates = AgentCertificateRows(db)
        self.delegations = Delegations(db)
        self.catalog = Catalog(db)
        self.catalog_changes = CatalogChanges(db)
        self.scopes, self.publications = Scopes(db), Publications(db)
        self.bindings = Bindings(db)
        self.inventories, self.epochs = Inventories(db), Epochs(db)
        self.health = NodeHealthRows(db)
        self.policies = Policies(db)
        self.proposals = Proposals(db)
        self.policy_approvals = PolicyApprovals(db)
        self.sessions = Sessions(db)
        self._log_facets(db, chain_hash, head, appended)

    def _log_facets(
        self,
        db: Statements,
        chain_hash: ChainHash,
        head: HeadMemory | None,
        appended: Appended | None,
    ) -> None:
        self.stored = StoredLog(db)
        self.audit = AuditLog(db=db, chain_hash=chain_hash, memory=head, appended=appended)
        self.repair = LogRepair(db, head)
        self.heads = Heads(db)
        self.keyrings, self.roots = Keyrings(db), Roots(db)
        self.state = StateLog(db)
        self.outbox = Outbox(db)
        self.spools = Spools(db)
        self.origins = Origins(db, self.audit)
