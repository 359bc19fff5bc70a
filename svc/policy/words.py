"""The terms that every gateway has, whatever kinds it serves.

Each fact says whether it is public or personal; each action names the only
facts it may come with.  A kind of its own adds to these by its own terms.
Statement text, header values, bodies, query strings and credentials have no
word here and must never get one.
"""

from __future__ import annotations

from svc.model.policy.terms import ActionGroupTerm, ActionTerm, AttributeTerm, EntityTerm, Terms
from svc.policy.facts import FACTS

PEOPLE = ("User", "Agent")
CALLERS = ("User", "Agent", "Operator")
RESOURCES = ("Server", "Database", "KubernetesCluster", "WebApp", "TcpService")

_NAME = AttributeTerm(
    name="name", type="String", classified="personal", help="The name under which it was added."
)
_OWNER = AttributeTerm(
    name="owner", type="String", classified="public", help="The id of the person it belongs to."
)
_ACTS_FOR = AttributeTerm(
    name="acts_for", type="Set<String>", classified="public", help="Its delegations, as texts."
)
_KIND = AttributeTerm(
    name="kind", type="String", classified="public", help="The kind of the resource."
)


def _resource(name: str, help: str) -> EntityTerm:
    return EntityTerm(
        name=name, help=help, member_of=("Organization",), attributes=(_KIND,), tagged=True
    )


ENTITIES = (
    EntityTerm("Organization", "The people and resources of one owner."),
    EntityTerm("Group", "People and agents that policies name together.", ("Organization",)),
    EntityTerm(
        name="User",
        help="A person; the id is opaque.",
        member_of=("Group", "Organization"),
        attributes=(_NAME,),
    ),
    EntityTerm(
        name="Agent",
        help="A program that acts for somebody; the id is opaque.",
        member_of=("Group", "Organization"),
        attributes=(_NAME, _OWNER, _ACTS_FOR),
    ),
    EntityTerm("Operator", "The user of the control socket: `local:<uid>`.", ("Group",)),
    EntityTerm(
        name="Node",
        help="An Authority, a Proxy or a Connector.",
        member_of=("Organization",),
        attributes=(
            AttributeTerm(
                name="role",
                type="String",
                classified="public",
                help="`authority`, `proxy` or `connector`.",
            ),
        ),
    ),
    _resource("Server", "A host that people reach by SSH."),
    _resource("Database", "A database server."),
    _resource("KubernetesCluster", "A Kubernetes API."),
    _resource("WebApp", "A web application."),
    _resource("TcpService", "A plain TCP service."),
    EntityTerm("Cluster", "This gateway itself, the resource of administrative actions."),
)

GROUPS = (
    ActionGroupTerm("use", "Every action that reaches a resource."),
    ActionGroupTerm("administer", "Every action on the gateway itself."),
)

_TIME = ("now", "hour", "weekday")
_ALWAYS = (*_TIME, "mfa_age_seconds", "approved_request", "proxy_reported")
_DATABASE = ("db_role", "db_name", "read_only")


def _use(name: str, request_kind: str, resource: str, help: str, *facts: str) -> ActionTerm:
    return ActionTerm(
        name=name,
        request_kind=request_kind,
        principals=PEOPLE,
        resources=(resource,),
        help=help,
        groups=("use",),
        context=(*_ALWAYS, *facts),
    )


def _lead_out(name: str, help: str, *facts: str) -> ActionTerm:
    """Outside the group ``use``: what leads past the session or its recording is permitted by
    its name.
    """
    return ActionTerm(
        name=name,
        request_kind="connect",
        principals=PEOPLE,
        resources=("Server",),
        help=help,
        groups=(),
        context=(*_ALWAYS, "login_user", *facts),
    )


def _administer(name: str, help: str) -> ActionTerm:
    return ActionTerm(
        name=name,
        request_kind="admin",
        principals=CALLERS,
        resources=("Cluster",),
        help=help,
        groups=("administer",),
        context=_ALWAYS,
    )


ACTIONS = (
    ActionTerm(
        name="view",
        request_kind="view",
        principals=CALLERS,
        resources=RESOURCES,
        help="See that the resource exists.",
        groups=(),
        context=_ALWAYS,
    ),
    _use("tcpConnect", "connect", "TcpService", "Open a connection."),
    _use("sshConnect", "connect", "Server", "Open an SSH session.", "login_user"),
    _use("sshShell", "connect", "Server", "Start a shell.", "login_user"),
    _use("sshExec", "connect", "Server", "Run a command; also `scp -O`, rsync, git.", "login_user"),
    _use("sshPty", "connect", "Server", "Have a terminal.", "login_user"),
    _use("sshEnv", "connect", "Server", "Set harmless variables, such as LANG.", "login_user"),
    _use("sshSftpRead", "connect", "Server", "Read files by SFTP (scp too).", "login_user"),
    _use("sshSftpWrite", "connect", "Server", "Change files by SFTP (scp too).", "login_user"),
    _lead_out("sshForwardLocal", "Forward a port from the person's side."),
    _lead_out("sshForwardRemote", "Forward a port from the server's side."),
    _lead_out("sshForwardStreamLocal", "Forward Unix sockets, both ways."),
    _lead_out("sshForwardAgent", "Let the server use the person's SSH agent."),
    _lead_out("sshForwardX11", "Let the server use the person's display."),
    _lead_out("sshUnrecorded", "Go unrecorded where the resource's `record` lets it."),
    _use(
        "mintOnwardSshCert",
        "connect",
        "Server",
        "Get a certificate that the target trusts.",
        "login_user",
    ),
    _use("dbConnect", "db_connect", "Database", "Open a database session.", *_DATABASE),
    _use(
        "dbQuery",
        "db_query",
        "Database",
        "Run one statement.",
        *_DATABASE,
        "effects",
        "objects",
        "fingerprint",
    ),
    _use(
        "k8sAccess",
        "kube",
        "KubernetesCluster",
        "Make one API request.",
        "verb",
        "api_group",
        "api_resource",
        "object_namespace",
        "object_name",
    ),
    _use("webAccess", "web", "WebApp", "Make one HTTP request.", "method", "path"),
    ActionTerm(
        name="actAs",
        request_kind="connect",
        principals=PEOPLE,
        resources=("User",),
        help="Act in the name of a person.",
        groups=(),
        context=_ALWAYS,
    ),
    ActionTerm(
        name="approveAccess",
        request_kind="admin",
        principals=("User",),
        resources=RESOURCES,
        help="Decide about another person's request for access to the resource.",
        groups=(),
        context=(*_ALWAYS, "requested_action"),
    ),
    _administer("viewStatus", "See what is running and whether it is healthy."),
    _administer("viewAudit", "Read the audit log and the decisions about anybody."),
    _administer("viewPolicy", "Read the texts of policies."),
    _administer("editPolicy", "Propose, change and activate policies."),
    _administer("approvePolicy", "Approve or reject a policy that another person proposed."),
    _administer("manageNodes", "Add and revoke nodes."),
    _administer("managePersons", "Add and revoke people, agents and groups."),
    _administer("manageResources", "Change the catalog."),
    _administer("manageAuditQueue", "Release or discard held rows of the audit queue."),
    _administer("manageSessions", "List and end sessions."),
    _administer("viewRecordings", "List, play and export recordings of sessions."),
    _administer("manageRecordings", "Remove recordings of sessions."),
    _administer("rotateCA", "Replace, distribute or pause issuing keys."),
)

CORE = Terms(entities=ENTITIES, groups=GROUPS, facts=FACTS, actions=ACTIONS)
"""The core's own terms: what every vocabulary starts from."""

OPERATORS_POLICY = """\
@id("operators-administer")
permit (
  principal is Operator,
  action in Action::"administer",
  resource is Cluster
);
"""
"""Lets whoever speaks over the control socket administer.

A policy that lets nobody do so is refused; this is how ours begin.
"""
