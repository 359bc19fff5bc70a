"""The words every gateway has, whatever kinds it serves.

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

_NAME = AttributeTerm("name", "String", "personal", "The name it was added under.")
_KIND = AttributeTerm("kind", "String", "public", "The word of the resource's kind.")


def _resource(name: str, help: str) -> EntityTerm:
    return EntityTerm(name, help, ("Organization",), (_KIND,), tagged=True)


ENTITIES = (
    EntityTerm("Organization", "Everybody and everything of one owner."),
    EntityTerm("Group", "Persons and agents that policies speak of together.", ("Organization",)),
    EntityTerm("User", "A person; the id is opaque.", ("Group", "Organization"), (_NAME,)),
    EntityTerm("Agent", "A program with an identity.", ("Group", "Organization"), (_NAME,)),
    EntityTerm("Operator", "Who speaks over the control socket: `local:<uid>`.", ("Group",)),
    EntityTerm(
        "Node",
        "An Authority, a Proxy or a Connector.",
        ("Organization",),
        (AttributeTerm("role", "String", "public", "`authority`, `proxy` or `connector`."),),
    ),
    _resource("Server", "A host reached by SSH."),
    _resource("Database", "A database server."),
    _resource("KubernetesCluster", "A Kubernetes API."),
    _resource("WebApp", "A web application."),
    _resource("TcpService", "A plain TCP service."),
    EntityTerm("Cluster", "This gateway itself: what administrative actions are about."),
)

GROUPS = (
    ActionGroupTerm("use", "Every action that reaches a resource."),
    ActionGroupTerm("administer", "Every action about the gateway itself."),
)

FACTS = (
    AttributeTerm("now", "Long", "public", "Seconds since the epoch.", ticking=True),
    AttributeTerm("hour", "Long", "public", "Hour of the day, 0 to 23, UTC."),
    AttributeTerm("weekday", "Long", "public", "Day of the week, 1 (Monday) to 7, UTC."),
    AttributeTerm(
        "mfa_age_seconds", "Long", "public", "Since the second factor was shown.", ticking=True
    ),
    AttributeTerm("approved_request", "Bool", "public", "An approval in force covers this."),
    AttributeTerm(
        "login_user", "String", "personal", "The account asked for at the target.", claimed=True
    ),
    AttributeTerm("target_host", "String", "personal", "Where a forwarding leads."),
    AttributeTerm("target_port", "Long", "public", "The port a forwarding leads to."),
    AttributeTerm("db_role", "String", "public", "The database role asked for."),
    AttributeTerm("db_name", "String", "public", "The database asked for."),
    AttributeTerm("read_only", "Bool", "public", "The session cannot write."),
    AttributeTerm("effects", "Set<String>", "public", "What a statement does: `read`, `write`, …"),
    AttributeTerm("objects", "Set<String>", "public", "Names a statement touches."),
    AttributeTerm("fingerprint", "String", "public", "A statement without its constants, hashed."),
    AttributeTerm("verb", "String", "public", "The Kubernetes verb."),
    AttributeTerm("api_group", "String", "public", "The Kubernetes API group."),
    AttributeTerm("api_resource", "String", "public", "The Kubernetes resource and subresource."),
    AttributeTerm("object_namespace", "String", "public", "The Kubernetes namespace."),
    AttributeTerm("object_name", "String", "public", "The Kubernetes object's name."),
    AttributeTerm("method", "String", "public", "The HTTP method."),
    AttributeTerm("path", "String", "personal", "The path, without its query."),
    AttributeTerm(
        "proxy_reported",
        (AttributeTerm("source_address", "ipaddr", "personal", "Where the caller came from."),),
        "personal",
        "What only the Proxy can know, and nobody can check.",
    ),
)

_TIME = ("now", "hour", "weekday")
_ALWAYS = (*_TIME, "mfa_age_seconds", "approved_request", "proxy_reported")
_DATABASE = ("db_role", "db_name", "read_only")


def _use(name: str, request_kind: str, resource: str, help: str, *facts: str) -> ActionTerm:
    return ActionTerm(name, request_kind, PEOPLE, (resource,), help, ("use",), (*_ALWAYS, *facts))


def _administer(name: str, help: str) -> ActionTerm:
    return ActionTerm(name, "admin", CALLERS, ("Cluster",), help, ("administer",), _ALWAYS)


ACTIONS = (
    ActionTerm("view", "view", CALLERS, RESOURCES, "See that the resource exists.", (), _ALWAYS),
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
        "Be given a certificate the target trusts.",
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
    ActionTerm("actAs", "connect", ("Agent",), ("User",), "Name a person.", (), _ALWAYS),
    _administer("viewStatus", "See what runs, and its health."),
    _administer("viewAudit", "Read the audit log and anybody's decisions."),
    _administer("viewPolicy", "Read the text of policies."),
    _administer("editPolicy", "Propose, change and activate policies."),
    _administer("approveRequest", "Approve what somebody else asked for."),
    _administer("manageNodes", "Add and revoke nodes."),
    _administer("managePersons", "Add and revoke persons, agents and groups."),
    _administer("manageResources", "Change the catalog."),
    _administer("manageAuditQueue", "Release or discard held rows of the audit queue."),
    _administer("manageSessions", "List and end sessions."),
    _administer("rotateCA", "Replace issuing keys."),
)

CORE = Terms(ENTITIES, GROUPS, FACTS, ACTIONS)
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
