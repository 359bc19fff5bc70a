"""Who and what appears in the demo."""

from __future__ import annotations

from attrs import frozen

from svc.policy.words import OPERATORS_POLICY

CLUSTER = "demo.svc.internal"
PERSON = "ada"
GROUP = "demo"
CONNECTOR = "c1"


@frozen
class DemoResource:
    """One resource of the demo.

    Attributes:
        port: Its native port, which the local one is made from.
    """

    id: str
    kind: str
    port: int


ECHO = DemoResource("echo", "tcp", 7)
WEB = DemoResource("web", "web", 80)
SSH = DemoResource("ssh-demo", "ssh", 22)
VAULT = DemoResource("vault", "tcp", 1234)
DATABASE = DemoResource("orders", "postgres", 5432)
"""Only where there is a PostgreSQL server to start."""
KUBE = DemoResource("k8s", "kube", 6443)
NAMESPACE, POD = "shop", "front"
RESOURCES = (ECHO, WEB, SSH, VAULT, KUBE)
CLOSED_PATH = "/admin"
"""A page of WEB that nobody may ask for."""

DATABASE_NAME, DATABASE_ROLE, TABLE = "shop", "app", "items"
READS, DROPS = f"SELECT item FROM {TABLE} WHERE id = 1", f"DROP TABLE {TABLE}"
FIRST_ITEM = "tea"

_POLICY = f"""\
{OPERATORS_POLICY}
@id("{GROUP}-sees-everything")
permit (
  principal in Group::"{GROUP}",
  action == Action::"view",
  resource
);

@id("{GROUP}-connects")
permit (
  principal in Group::"{GROUP}",
  action in
    [Action::"tcpConnect", Action::"sshConnect", Action::"webConnect", Action::"k8sConnect"],
  resource
);

@id("{GROUP}-reads")
permit (
  principal in Group::"{GROUP}",
  action == Action::"webAccess",
  resource
)
when {{ context has method && context.method == "GET" }};

@id("{GROUP}-looks")
permit (
  principal in Group::"{GROUP}",
  action == Action::"k8sAccess",
  resource
)
when {{ context has verb && ["get", "list", "watch"].contains(context.verb) }};

@id("{GROUP}-asks-what-it-may")
permit (
  principal in Group::"{GROUP}",
  action == Action::"k8sAccess",
  resource
)
when {{
  context has verb && context.verb == "create" &&
  context has api_resource && context.api_resource == "selfsubjectaccessreviews"
}};

@id("no-secrets")
@reason("secrets of a cluster stay in it")
forbid (
  principal,
  action == Action::"k8sAccess",
  resource
)
when {{ context has api_resource && context.api_resource == "secrets" }};

@id("no-admin")
@reason("nobody administers the demo's page")
forbid (
  principal,
  action == Action::"webAccess",
  resource == WebApp::"{WEB.id}"
)
when {{ context has path && context.path like "{CLOSED_PATH}*" }};

@id("vault-is-closed")
@reason("nobody opens the vault from a demo")
forbid (
  principal,
  action == Action::"tcpConnect",
  resource == TcpService::"{VAULT.id}"
);
"""

_DATABASE_POLICY = f"""
@id("{GROUP}-queries")
permit (
  principal in Group::"{GROUP}",
  action in [Action::"dbConnect", Action::"dbQuery"],
  resource
);

@id("no-ddl")
@reason("tables are changed by migrations only")
forbid (
  principal,
  action in [Action::"dbQuery", Action::"dbQueryOpaque"],
  resource
)
when {{ context has effects && context.effects.contains("ddl") }};
"""


@frozen
class Scene:
    """What the demo has on this machine."""

    has_database: bool

    @property
    def resources(self) -> tuple[DemoResource, ...]:
        """Everything that its Connector serves."""
        return (*RESOURCES, DATABASE) if self.has_database else RESOURCES

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of these."""
        return tuple(sorted({one.kind for one in self.resources}))

    @property
    def policy(self) -> str:
        """What is in force; it speaks of no kind that is not there."""
        return _POLICY + _DATABASE_POLICY if self.has_database else _POLICY
