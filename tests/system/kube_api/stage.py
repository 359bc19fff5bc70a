"""A gateway of real processes with the small API server behind it, and a person with kubectl."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attrs import define, field

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, Ran, run
from svc.testing.gateway.settings import POLICY, GatewayTarget
from tests.support.temporary import process_directory
from tests.system.kube_api.server import TOKEN, Cluster

KINDS = ["ssh", "tcp", "kube"]
LOOK = """
@id("only-look")
forbid (principal, action == Action::"k8sAccess", resource)
unless {
  context has verb &&
  (["get", "list", "watch"].contains(context.verb) ||
    (context has api_resource &&
      ["configmaps", "selfsubjectaccessreviews"].contains(context.api_resource)))
};

@id("no-secrets")
forbid (principal, action == Action::"k8sAccess", resource)
when { context has api_resource && context.api_resource == "secrets" };
"""


def cluster_target(name: str, cluster: Cluster) -> GatewayTarget:
    """The resource of a cluster; its Connector has the cluster's token."""
    token = process_directory() / f"{name}-token"
    token.write_text(TOKEN, "ascii")
    token.chmod(0o600)
    return GatewayTarget(
        name,
        f"127.0.0.1:{cluster.server_address[1]}",
        "kube",
        more={"tls": "off", "token_file": str(token), "groups": ["svc:people"]},
    )


@define(eq=False)
class Kube:
    """A gateway with one cluster, and a person whose resident runs."""

    cluster: Cluster = field(factory=Cluster)
    gateway: Gateway = field(init=False)
    person: GatewayPerson = field(init=False)

    def __attrs_post_init__(self) -> None:
        target = cluster_target("prod", self.cluster)
        self.gateway = make_gateway([target], numbers={"plugins.kinds": KINDS})
        self.person = self.gateway.add_person("ada", "ops")
        config = self.person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        self.gateway.set_policy(POLICY + LOOK)
        self.person.up("prod")

    @property
    def kubeconfig(self) -> Path:
        """Of the one cluster, as the resident has written it."""
        return self.person.directory / "kube" / "prod.yaml"

    def kubectl(
        self,
        path: str,
        *words: str,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run this kubectl once."""
        command = [path, "--kubeconfig", str(self.kubeconfig), "--request-timeout=20s", *words]
        return self.ran(command, environ, stdin)

    def ran(
        self, command: list[str], environ: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> Ran:
        """Run any program in the person's home."""
        return run(command, self.person.home, environ, stdin=stdin)

    def begin(self, path: str, *words: str, environ: Mapping[str, str]) -> Child:
        """Start one that runs until it is stopped; its output goes to its log."""
        started = Child(
            name=" ".join(words),
            words=[path, "--kubeconfig", str(self.kubeconfig), *words],
            home=self.person.home,
            log=process_directory() / "kubectl.log",
            environ=environ,
        )
        started.start()
        return started


@cache
def kube() -> Kube:
    """The one of this process."""
    return Kube()
