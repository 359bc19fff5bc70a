"""A Kubernetes API through a gateway of real processes, by stock kubectl."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread
from typing import Any
from unittest import SkipTest
from urllib.parse import urlsplit

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import POLICY, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.strangers import as_stranger, knock, need_root

KINDS = ["ssh", "tcp", "kube"]
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TOKEN = "connector.own.token"
LOOK = """
@id("only-look")
forbid (principal, action == Action::"k8sAccess", resource)
unless { context has verb && ["get", "list", "watch"].contains(context.verb) };

@id("no-secrets")
forbid (principal, action == Action::"k8sAccess", resource)
when { context has api_resource && context.api_resource == "secrets" };
"""
NO_EXEC = """
@id("no-exec")
forbid (principal, action == Action::"k8sExec", resource);
"""
WEBSOCKETS_SINCE = 31
VERBS = ["get", "list", "watch", "create", "delete"]
CORE = [
    {
        "name": f"{name}s",
        "singularName": name,
        "shortNames": [short],
        "namespaced": kind != "Namespace",
        "kind": kind,
        "verbs": VERBS,
    }
    for name, short, kind in (
        ("namespace", "ns", "Namespace"),
        ("pod", "po", "Pod"),
        ("secret", "sec", "Secret"),
        ("configmap", "cm", "ConfigMap"),
    )
]
COLUMNS = [
    {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
    {"name": "Status", "type": "string", "format": "", "description": "", "priority": 0},
]


def of_v1(kind: str, **more: Any) -> dict[str, Any]:
    """An object of the API's core."""
    return {"kind": kind, "apiVersion": "v1", **more}


def pod(name: str) -> dict[str, Any]:
    """A pod as far as kubectl shows it."""
    metadata = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"}
    return of_v1(
        "Pod",
        metadata=metadata,
        spec={"containers": [{"name": "shop"}]},
        status={"phase": "Running"},
    )


def table(names: list[str]) -> dict[str, Any]:
    """What kubectl prints as it is."""
    rows = [
        {"cells": [name, "Running"], "object": {**pod(name), "kind": "PartialObjectMetadata"}}
        for name in names
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "1"},
        "columnDefinitions": COLUMNS,
        "rows": rows,
    }


class ApiServer(BaseHTTPRequestHandler):
    """Discovery, two pods, and a role that may not read configmaps."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Cluster

    def do_GET(self) -> None:
        """Answer as kube-apiserver does."""
        self.server.heard.append((self.command, self.path, list(self.headers.items())))
        path = urlsplit(self.path).path
        if path.endswith("/exec") and self.headers["Upgrade"] == "websocket":
            self._execute()
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._say(401, self._failure(401, "Unauthorized", "Unauthorized"))
        elif "/configmaps" in path:
            user = self.headers["Impersonate-User"]
            text = f'configmaps is forbidden: User "{user}" cannot list resource "configmaps"'
            self._say(403, self._failure(403, "Forbidden", text))
        else:
            found = self._found(path)
            self._say(404 if found is None else 200, found or self._failure(404, "NotFound", path))

    do_DELETE = do_POST = do_GET

    def _execute(self) -> None:
        """Open a WebSocket, write one line to its standard output, and succeed."""
        proof = sha1(self.headers["Sec-WebSocket-Key"].encode() + GUID).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", b64encode(proof).decode())
        self.send_header("Sec-WebSocket-Protocol", self.headers["Sec-WebSocket-Protocol"])
        self.end_headers()
        self.close_connection = True
        status = json.dumps(of_v1("Status", metadata={}, status="Success")).encode()
        for frame in (b"\x01hello from the pod\n", b"\x03" + status):
            self.wfile.write(bytes((0x82, len(frame))) + frame)
        self.wfile.write(b"\x88\x02\x03\xe8")
        self.rfile.read()

    def _found(self, path: str) -> dict[str, Any] | None:
        pods = "/api/v1/namespaces/shop/pods"
        if path == pods and "as=Table" in self.headers.get("Accept", ""):
            return table(["front", "back"])
        return {
            "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
            "/api": of_v1("APIVersions", versions=["v1"], serverAddressByClientCIDRs=[]),
            "/apis": of_v1("APIGroupList", groups=[]),
            "/api/v1": of_v1("APIResourceList", groupVersion="v1", resources=CORE),
            pods: of_v1("PodList", metadata={}, items=[pod("front"), pod("back")]),
            f"{pods}/front": pod("front"),
            "/api/v1/namespaces": of_v1(
                "NamespaceList", metadata={}, items=[of_v1("Namespace", metadata={"name": "shop"})]
            ),
        }.get(path)

    def _failure(self, code: int, reason: str, message: str) -> dict[str, Any]:
        return of_v1("Status", status="Failure", reason=reason, message=message, code=code)

    def _say(self, code: int, told: dict[str, Any]) -> None:
        text = json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Cluster(ThreadingHTTPServer):
    """A small API server.

    Attributes:
        heard: Method, path and header fields of the requests that reached it.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ApiServer)
        self.heard: list[tuple[str, str, list[tuple[str, str]]]] = []
        Thread(target=self.serve_forever, daemon=True).start()


@define(eq=False)
class Kube:
    """A gateway with one cluster, and a person whose resident runs."""

    cluster: Cluster = field(factory=Cluster)
    gateway: Gateway = field(init=False)
    person: GatewayPerson = field(init=False)

    def __attrs_post_init__(self) -> None:
        token = Path(mkdtemp()) / "cluster-token"
        token.write_text(TOKEN, "ascii")
        token.chmod(0o600)
        target = GatewayTarget(
            "prod",
            f"127.0.0.1:{self.cluster.server_address[1]}",
            "kube",
            more={"tls": "off", "token_file": str(token), "groups": ["svc:people"]},
        )
        self.gateway = make_gateway([target], numbers={"plugins.kinds": KINDS})
        self.person = self.gateway.add_person("ada", "ops")
        config = self.person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        self.gateway.set_policy(POLICY + LOOK)
        self.person.up("prod")


@cache
def kube() -> Kube:
    """The one of this process."""
    return Kube()


class KubeTests(SynchronousTestCase):
    """What a person with kubectl sees, and what is recorded of it."""

    def setUp(self) -> None:
        self.kubectl_path = stock_tool("kubectl")
        self.kube = kube()
        self.kube.cluster.heard.clear()

    def kubectl(self, *words: str) -> Ran:
        """Run kubectl once, with the kubeconfig that the resident has written."""
        config = self.kube.person.directory / "kube" / "prod.yaml"
        command = [self.kubectl_path, "--kubeconfig", str(config), "--request-timeout=20s", *words]
        return run(command, self.kube.person.home)

    def decisions(self) -> list[dict[str, Any]]:
        """The requests in the audit log so far."""
        words = ("audit", "show", "--event", "request.decision", "--last", "99", "--json")
        return [one for one in self.kube.gateway.operator(*words).json if one["action"] == "kube"]

    def counted(self) -> dict[str, float]:
        """What the Proxy has counted."""
        return {
            decision: self.kube.gateway.metric(
                PROXY, "svc_request_authorize_total", kind="kube", decision=decision
            )
            for decision in ("allow", "deny")
        }

    @proves("G-SES-04", "U-PHA-24")
    def test_each_request(self) -> None:
        """Pods are listed and may not be deleted: kubectl says Forbidden, and why."""
        before = self.counted()
        self.assertIn("shop", self.kubectl("get", "ns").checked().stdout)
        said = self.kubectl("-n", "shop", "get", "pods").checked().stdout
        self.assertEqual([line.split()[0] for line in said.splitlines()], ["NAME", "front", "back"])
        denied = self.kubectl("-n", "shop", "delete", "pod", "front", "--wait=false")
        self.assertNotEqual(denied.status, 0)
        self.assertIn("Error from server (Forbidden)", denied.stderr)
        self.assertIn("only-look", denied.stderr)
        self.assertNotIn("DELETE", [method for method, _, _ in self.kube.cluster.heard])
        after = self.counted()
        self.assertEqual(after["deny"] - before["deny"], 1)
        self.assertGreaterEqual(after["allow"] - before["allow"], 2)
        decision = denied.stderr.partition("svc why ")[2].split()[0]
        record = until(
            "the denial in the log",
            lambda: [one for one in self.decisions() if one["decision_id"] == decision],
        )[0]
        facts = record["request"]["context"]
        self.assertEqual(
            (record["cedar_action"], record["decision"], record["policies"]),
            ("k8sAccess", "deny", ["only-look"]),
        )
        self.assertEqual(
            [facts[name] for name in ("verb", "api_resource", "object_namespace", "object_name")],
            ["delete", "pods", "shop", "front"],
        )
        why = self.kube.person.svc("why", decision).checked().stdout
        for word in ("deny", "k8sAccess", "only-look"):
            self.assertIn(word, why)

    def test_an_exec(self) -> None:
        """A command in a pod runs where k8sExec is allowed, and is Forbidden where it is not."""
        version = json.loads(self.kubectl("version", "--client", "-o", "json").checked().stdout)
        minor = int(version["clientVersion"]["minor"].rstrip("+"))
        if minor < WEBSOCKETS_SINCE:
            raise SkipTest(
                f"kubectl 1.{minor} speaks SPDY for exec; 1.{WEBSOCKETS_SINCE} is needed"
            )
        words = ("-n", "shop", "exec", "front", "--", "hostname")
        self.assertEqual(self.kubectl(*words).checked().stdout, "hello from the pod\n")
        self.kube.gateway.set_policy(POLICY + LOOK + NO_EXEC)
        self.addCleanup(self.kube.gateway.set_policy, POLICY + LOOK)
        until("the new policy", lambda: self.kubectl(*words).status != 0)
        self.kube.cluster.heard.clear()
        ran = self.kubectl(*words)
        self.assertNotEqual(ran.status, 0)
        self.assertIn("Forbidden", ran.stderr)
        self.assertIn("no-exec", ran.stderr)
        self.assertFalse([path for _, path, _ in self.kube.cluster.heard if "/exec" in path])

    @proves("G-SES-09", "G-ERR-16")
    def test_forbidden(self) -> None:
        """Forbidden in both cases: by our policy, and by the roles of the cluster itself."""
        for resource, word in (("secrets", "no-secrets"), ("configmaps", "cannot list resource")):
            ran = self.kubectl("-n", "shop", "get", resource)
            self.assertNotEqual(ran.status, 0)
            self.assertIn("Error from server (Forbidden)", ran.stderr)
            self.assertIn(word, ran.stderr)
        paths = [path for _, path, _ in self.kube.cluster.heard]
        self.assertFalse([path for path in paths if "secrets" in path])

    def test_in_the_persons_name(self) -> None:
        """The cluster hears of the person from the Connector, and nothing that a client says."""
        self.kubectl("--as", "system:admin", "--as-group", "system:masters", "get", "ns").checked()
        (person,) = self.kube.gateway.operator("persons", "list", "--json").json
        for _, _, fields in self.kube.cluster.heard:
            said = [
                (name.lower(), value)
                for name, value in fields
                if name.lower().startswith(("impersonate", "authorization", "x-remote"))
            ]
            self.assertEqual(
                said,
                [
                    ("authorization", f"Bearer {TOKEN}"),
                    ("impersonate-user", f"svc:{person['id']}"),
                    ("impersonate-group", "svc:people"),
                ],
            )

    @proves("U-PHA-25", "X-67")
    def test_the_local_endpoint(self) -> None:
        """The kubeconfig is the person's alone, speaks plain HTTP, and holds no credential."""
        path = self.kube.person.directory / "kube" / "prod.yaml"
        host, port = self.kube.person.endpoint("prod")
        said = path.read_text("ascii")
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertIn(f'server: "http://{host}:{port}"', said)
        self.assertIn("user: {}", said)
        curl = [stock_tool("curl"), "-sS", "--noproxy", "*", "-H", "Origin: http://evil.example"]
        told = json.loads(run([*curl, f"http://{host}:{port}/api"], path.parent).checked().stdout)
        self.assertEqual((told["kind"], told["reason"]), ("Status", "Forbidden"))
        self.assertEqual(self.kube.cluster.heard, [])

    @proves("U-PHA-25", "X-67")
    def test_another_user(self) -> None:
        """Another user of the machine gets nothing out of the port."""
        need_root()
        address = self.kube.person.endpoint("prod")
        self.assertIn(as_stranger(lambda: knock(address)), ("refused", "heard b''"))
        self.assertEqual(self.kube.cluster.heard, [])
