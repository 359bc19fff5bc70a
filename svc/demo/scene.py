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
RESOURCES = (ECHO, WEB, SSH, VAULT)
KINDS = tuple(sorted({one.kind for one in RESOURCES}))
CLOSED_PATH = "/admin"
"""A page of WEB that nobody may ask for."""

POLICY = f"""\
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
  action in [Action::"tcpConnect", Action::"sshConnect", Action::"webConnect"],
  resource
);

@id("{GROUP}-reads")
permit (
  principal in Group::"{GROUP}",
  action == Action::"webAccess",
  resource
)
when {{ context has method && context.method == "GET" }};

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
