"""The terms that every gateway has, whatever kinds it serves.

Each fact says whether it is public or personal; each action names the only
facts it may come with.  A kind of its own adds to these by its own terms.
Statement text, header values, bodies, query strings and credentials have no
word here and must never get one.
"""

from __future__ import annotations

from svc.model.policy.terms import ActionGroupTerm, ActionTerm, AttributeTerm, EntityTerm, Terms

PEOPLE = ("User", "Agent")
CALLERS = ("User", "Agent", "Operator")
RESOURCES = ("Server", "Database", "KubernetesCluster", "WebApp", "TcpService")

_NAME = AttributeTerm(
    name="name", type="String", classified="personal", help="The name under which it was added."
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
        help="A program with an identity.",
        member_of=("Group", "Organization"),
        attributes=(_NAME,),
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

FACTS = (
    AttributeTerm(
        name="now", type="Long", classified="public", help="Seconds since the epoch.", ticking=True
    ),
    AttributeTerm(
        name="hour", type="Long", classified="public", help="Hour of the day, 0 to 23, UTC."
    ),
    AttributeTerm(
        name="weekday",
        type="Long",
        classified="public",
        help="Day of the week, 1 (Monday) to 7, UTC.",
    ),
    AttributeTerm(
        name="mfa_age_seconds",
        type="Long",
        classified="public",
        help="Time since the person presented the second factor.",
        ticking=True,
    ),
    AttributeTerm(
        name="approved_request",
        type="Bool",
        classified="public",
        help="An active approval covers this request.",
    ),
    AttributeTerm(
        name="login_user",
        type="String",
        classified="personal",
        help="The account that the client requests on the target.",
        claimed=True,
    ),
    AttributeTerm(
        name="named_person",
        type="String",
        classified="personal",
        help="The id of the person that the request asks to be made as (see `actAs`).",
    ),
    AttributeTerm(
        name="target_host",
        type="String",
        classified="personal",
        help="The host that a forwarding connects to.",
    ),
    AttributeTerm(
        name="target_port",
        type="Long",
        classified="public",
        help="The port that a forwarding connects to.",
    ),
    AttributeTerm(
        name="db_role",
        type="String",
        classified="public",
        help="The database role that the client requests.",
    ),
    AttributeTerm(
        name="db_name",
        type="String",
        classified="public",
        help="The database that the client requests; nobody fills it, PostgreSQL has `database`.",
        claimed=True,
    ),
    AttributeTerm(
        name="read_only",
        type="Bool",
        classified="public",
        help="The session cannot write; nobody fills it.",
        claimed=True,
    ),
    AttributeTerm(
        name="effects",
        type="Set<String>",
        classified="public",
        help="What a statement does: `read`, `write`, …",
    ),
    AttributeTerm(
        name="objects",
        type="Set<String>",
        classified="public",
        help="The names that a statement refers to.",
    ),
    AttributeTerm(
        name="fingerprint",
        type="String",
        classified="public",
        help="The hash of a statement without its constants; nobody fills it.",
        claimed=True,
    ),
    AttributeTerm(name="verb", type="String", classified="public", help="The Kubernetes verb."),
    AttributeTerm(
        name="api_group", type="String", classified="public", help="The Kubernetes API group."
    ),
    AttributeTerm(
        name="api_resource",
        type="String",
        classified="public",
        help="The Kubernetes resource and subresource.",
    ),
    AttributeTerm(
        name="object_namespace",
        type="String",
        classified="public",
        help="The Kubernetes namespace.",
    ),
    AttributeTerm(
        name="object_name", type="String", classified="public", help="The Kubernetes object's name."
    ),
    AttributeTerm(name="method", type="String", classified="public", help="The HTTP method."),
    AttributeTerm(
        name="path", type="String", classified="personal", help="The path, without its query."
    ),
    AttributeTerm(
        name="proxy_reported",
        type=(
            AttributeTerm(
                name="source_address",
                type="ipaddr",
                classified="personal",
                help="The network address of the caller.",
            ),
        ),
        classified="personal",
        help="Facts that only the Proxy knows and nobody else can check.",
    ),
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
    _use(
        "sshForwardLocal",
        "connect",
        "Server",
        "Forward a port from the person's side.",
        "login_user",
        "target_host",
        "target_port",
    ),
    _use(
        "sshForwardRemote",
        "connect",
        "Server",
        "Forward a port from the server's side.",
        "login_user",
        "target_port",
    ),
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
    _administer("viewStatus", "See what is running and whether it is healthy."),
    _administer("viewAudit", "Read the audit log and the decisions about anybody."),
    _administer("viewPolicy", "Read the texts of policies."),
    _administer("editPolicy", "Propose, change and activate policies."),
    _administer("approveRequest", "Approve another person's request."),
    _administer("manageNodes", "Add and revoke nodes."),
    _administer("managePersons", "Add and revoke people, agents and groups."),
    _administer("manageResources", "Change the catalog."),
    _administer("manageAuditQueue", "Release or discard held rows of the audit queue."),
    _administer("manageSessions", "List and end sessions."),
    _administer("rotateCA", "Replace issuing keys."),
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
