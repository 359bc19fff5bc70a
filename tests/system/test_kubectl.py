"""What kubectl does all day, through a gateway: by WebSocket and by SPDY, of two generations."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Child, Ran, run, until
from svc.testing.gateway.settings import POLICY
from tests.support.temporary import process_directory
from tests.support.tools import stock_tool
from tests.system.kube_api.stage import LOOK, kube

RUN_BY = "make fault"

IS_LONG = os.environ.get("SVC_LONG") == "1"
WEBSOCKET, SPDY = (
    {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": word, "KUBECTL_PORT_FORWARD_WEBSOCKETS": word}
    for word in ("true", "false")
)
"""What kubectl is told; one that is older than WebSockets speaks SPDY whatever it is told."""

MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: colours, namespace: shop}
data: {sky: %s}
"""
STOP = """
@id("stop-streams")
forbid (principal, action in [Action::"k8sExec", Action::"k8sPortForward"], resource);

@id("stop-watches")
forbid (principal, action == Action::"k8sAccess", resource)
when { context has verb && context.verb == "watch" };
"""
NO_SPDY = """
@id("no-spdy")
forbid (principal, action == Action::"k8sExec", resource)
when { context has opaque_upgrade && context.opaque_upgrade };
"""


DIFFS_SINCE = 28
"""An older kubectl compares only where the server has OpenAPI 2.0, which the small one has not."""


def minor(path: str) -> int:
    """Which 1.x a kubectl is."""
    said = run([path, "version", "--client", "-o", "json"], process_directory()).checked().stdout
    return int(re.match(r"\d+", json.loads(said)["clientVersion"]["minor"])[0])  # type: ignore[index]


def kubectls() -> list[str]:
    """The stock one, and the oldest of those that are installed beside it."""
    stock = stock_tool("kubectl")
    beside = Path(os.path.realpath(stock)).parent.glob("kubectl.1.*")
    older = sorted(beside, key=lambda path: int(path.name.rpartition(".")[2]))
    return [stock, *(str(path) for path in older[:1])]


class KubectlTests(SynchronousTestCase):
    """kubectl against the small API server."""

    def setUp(self) -> None:
        self.path = stock_tool("kubectl")
        self.kube = kube()
        # kubectl takes a connection that ends in order, and says nothing, for success.
        self.addCleanup(lambda: self.assertEqual(self.kube.cluster.faults, []))

    def kubectl(
        self, *words: str, stdin: bytes = b"", environ: Mapping[str, str] = WEBSOCKET
    ) -> Ran:
        """Run it in the namespace of the shop."""
        return self.kube.kubectl(self.path, "-n", "shop", *words, stdin=stdin, environ=environ)

    @contextmanager
    def running(self, *words: str, environ: Mapping[str, str] = WEBSOCKET) -> Iterator[Child]:
        """One that runs meanwhile."""
        started = self.kube.begin(self.path, "-n", "shop", *words, environ=environ)
        try:
            yield started
        finally:
            started.end()

    def says(self, started: Child, text: str, times: int = 1) -> None:
        """Wait until it has said so."""
        until(f"{text} from {started.name}", lambda: started.text().count(text) >= times)

    def test_objects(self) -> None:
        """Objects are applied, compared and listed, and a watch shows what happens to them."""
        place = process_directory() / "map.yaml"
        for self.path in kubectls():
            self.assertIn("configmaps", self.kubectl("api-resources").checked().stdout)
            with self.running("get", "configmaps", "-w") as watch:
                place.write_text(MAP % "blue", "ascii")
                words = ("-f", str(place), "--validate=false")
                self.kubectl("apply", *words).checked()
                self.says(watch, "colours")
                place.write_text(MAP % "grey", "ascii")
                self.assertIn("configured", self.kubectl("apply", *words).checked().stdout)
                self.assertIn("colours", self.kubectl("get", "configmaps").checked().stdout)
                self.kubectl("delete", "configmap", "colours", "--wait=false").checked()
                self.says(watch, "colours", times=3)
        self.path = stock_tool("kubectl")
        if minor(self.path) >= DIFFS_SINCE:
            compared = self.kubectl("diff", "-f", str(place))
            self.assertEqual((compared.status, "+  sky: grey" in compared.stdout), (1, True))

    def test_logs(self) -> None:
        """A log is followed while it grows."""
        with self.running("logs", "-f", "front") as following:
            self.says(following, "first line")
            with (self.kube.cluster.pod / "log").open("a", encoding="ascii") as log:
                log.write("a later line\n")
            self.says(following, "a later line")

    def test_can_i(self) -> None:
        """It is allowed what the policy and the cluster's roles both allow."""
        for words, status, why in (
            (("list", "pods"), 0, "yes"),
            (("delete", "pods"), 1, "the access policy does not allow it"),
            (("list", "secrets"), 1, "the access policy does not allow it"),
            (("list", "services"), 1, "by the roles of the cluster"),
            (("*", "*"), 1, "ask without *"),
            (("get", "pods", "--subresource=exec"), 0, "yes"),
        ):
            ran = self.kubectl("auth", "can-i", *words)
            self.assertEqual((ran.status, why in ran.stdout), (status, True), words)

    def test_streams(self) -> None:
        """exec, attach, cp and port-forward, by either protocol."""
        stock, *older = kubectls()
        # One that knows no WebSockets does the same whatever it is told.
        told = [(stock, WEBSOCKET), *((path, SPDY) for path in (stock, *older))]
        told += [(path, WEBSOCKET) for path in older if IS_LONG]
        for self.path, environ in told:
            self._executes(environ)
            self._copies(environ)
            self._forwards(environ)
        heard = {
            fields["Upgrade"]
            for _, path, fields in ((m, p, dict(f)) for m, p, f in self.kube.cluster.heard)
            if "/exec" in path
        }
        self.assertIn("SPDY/3.1", heard)

    def _executes(self, environ: Mapping[str, str]) -> None:
        ran = self.kubectl("exec", "front", "--", "sh", "-c", "pwd; exit 3", environ=environ)
        self.assertEqual((ran.status, ran.stdout), (3, f"{self.kube.cluster.pod}\n"))
        much = b"x" * 300_000
        counting = ("exec", "-i", "front", "--", "wc", "-c")
        said = self.kubectl(*counting, stdin=much, environ=environ).checked().stdout
        self.assertEqual(said.strip(), "300000")
        words = ("attach", "-i", "front", "-c", "shop")
        said = self.kubectl(*words, stdin=b"to itself\n", environ=environ).checked().stdout
        self.assertIn("to itself\n", said)
        script = [stock_tool("script"), "-qec"]
        typed = f"{self.path} --kubeconfig {self.kube.kubeconfig} -n shop exec -it front -- tty"
        command = [*script, typed, "/dev/null"]
        self.assertIn("/dev/pts/", self.kube.ran(command, environ).checked().stdout)

    def _copies(self, environ: Mapping[str, str]) -> None:
        pod, own = self.kube.cluster.pod, process_directory()
        (own / "there").write_bytes(b"some bytes")
        self.kubectl("cp", str(own / "there"), f"front:{pod}/copy", environ=environ).checked()
        self.kubectl("cp", f"front:{pod}/copy", str(own / "back"), environ=environ).checked()
        self.assertEqual((own / "back").read_bytes(), b"some bytes")

    def _forwards(self, environ: Mapping[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as target:
            port = target.getsockname()[1]
            with self.running("port-forward", "pod/front", f":{port}", environ=environ) as forward:
                self.says(forward, "Forwarding from 127.0.0.1:")
                local = forward.text().partition("127.0.0.1:")[2].split()[0]
                with socket.create_connection(("127.0.0.1", int(local)), 20) as near:
                    far, _ = target.accept()
                    with far:
                        near.sendall(b"there")
                        self.assertEqual(far.recv(5, socket.MSG_WAITALL), b"there")
                        far.sendall(b"back")
                        self.assertEqual(near.recv(4, socket.MSG_WAITALL), b"back")

    def test_no_session_stays(self) -> None:
        """Where kubectl has ended or was killed, its sessions end, though the cluster is silent."""
        stock, *older = kubectls()
        for self.path, environ in ((stock, WEBSOCKET), *((path, SPDY) for path in (stock, *older))):
            self.kubectl("exec", "front", "--", "true", environ=environ).checked()
            for said, *words in (
                ("front", "get", "pods", "-w"),
                ("first line", "logs", "front", "-f"),
                ("on", "exec", "front", "--", "sh", "-c", "echo on; sleep 99"),
                ("Forwarding", "port-forward", "pod/front", ":80"),
            ):
                with self.running(*words, environ=environ) as running:
                    self.says(running, said)
        listed = ("sessions", "list", "--json")
        until("no session", lambda: not self.kube.gateway.operator(*listed).json, seconds=30)

    def test_a_change_of_policy(self) -> None:
        """Ends a watch and an exec within seconds, and both say why."""
        for environ in (WEBSOCKET, SPDY):
            with (
                self.running("get", "pods", "-w", environ=environ) as watch,
                self.running(
                    "exec", "front", "--", "sh", "-c", "echo on; sleep 99", environ=environ
                ) as executing,
                self.running("port-forward", "pod/front", ":80", environ=environ) as forward,
            ):
                self.says(watch, "front")
                self.says(executing, "on")
                self.says(forward, "Forwarding")
                self.kube.gateway.set_policy(POLICY + LOOK + STOP)
                try:
                    self.assertEqual(executing.wait(15), 1)
                    watch.wait(15)
                    # An older one says "lost connection to pod" and is content with that.
                    self.assertIn(forward.wait(15), (0, 1))
                finally:
                    self.kube.gateway.set_policy(POLICY + LOOK)
                for ended in (watch, executing):
                    self.assertIn("the policy no longer allows it (policy_changed)", ended.text())
                self.assertIn("Forbidden", watch.text())
            until("the way back", lambda: self.kubectl("exec", "front", "--", "true").status == 0)
        ends = self.kube.gateway.operator("audit", "show", "--event", "session.end", "--json").json
        self.assertIn("policy_changed", [one["reason"] for one in ends])

    def test_no_spdy(self) -> None:
        """A policy can let streams pass that are read, and refuse those that are not."""
        words = ("exec", "front", "--", "true")
        self.kube.gateway.set_policy(POLICY + LOOK + NO_SPDY)
        self.addCleanup(self.kube.gateway.set_policy, POLICY + LOOK)
        until("the policy", lambda: self.kubectl(*words, environ=SPDY).status != 0)
        self.assertIn("no-spdy", self.kubectl(*words, environ=SPDY).stderr)

    def test_a_failed_upgrade(self) -> None:
        """Where the cluster does not switch, the person sees its answer, and no bytes follow."""
        self.kube.cluster.refuses_upgrades = True
        self.addCleanup(setattr, self.kube.cluster, "refuses_upgrades", False)
        for environ in (WEBSOCKET, SPDY):
            ran = self.kubectl("exec", "front", "--", "true", environ=environ)
            self.assertNotEqual(ran.status, 0)
            self.assertIn("Upgrade request required", ran.stderr)
