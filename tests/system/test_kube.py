"""A Kubernetes API through a gateway of real processes, by stock kubectl."""

from __future__ import annotations

import json
import socket
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import POLICY, PROXY
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.kube_api.server import TOKEN
from tests.system.kube_api.stage import LOOK, kube
from tests.system.strangers import as_stranger, knock, need_root

SAYS_WHO = ("impersonate", "authorization", "x-remote", "x_remote", "sec-websocket")
FORGED = (
    b"Impersonate-User: system:admin",
    b"impersonate-user: system:admin",
    b"IMPERSONATE-USER:system:admin",
    b"Impersonate_User: system:admin",
    b"Impersonate-Group: system:masters",
    b"iMpErSoNaTe-gRoUp: system:masters",
    b"Impersonate-Uid: 0",
    b"Impersonate-Extra-Scopes: view",
    b"Impersonate-Extra-a%2Fb: view",
    b"Impersonate-Anything: view",
    b"Authorization: Bearer stolen",
    b"authorization: Basic c3RvbGVu",
    b"X-Remote-User: system:admin",
    b"x-remote-group: system:masters",
    b"X_Remote_User: system:admin",
    b"X-Remote-Extra-Scopes: view",
    b"Connection: Authorization, Impersonate-User, Impersonate-Group",
    b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.c3RvbGVu",
)
"""Every spelling in which a client could say who it is."""

NO_PODS = """
@id("no-pods")
forbid (principal, action == Action::"k8sAccess", resource)
when { context has api_resource && context.api_resource == "pods" };
"""
NO_EXEC = """
@id("no-exec")
forbid (principal, action == Action::"k8sExec", resource);
"""


class KubeTests(SynchronousTestCase):
    """What a person with kubectl sees, and what is recorded of it."""

    def setUp(self) -> None:
        self.kubectl_path = stock_tool("kubectl")
        self.kube = kube()
        self.kube.cluster.heard.clear()

    def kubectl(self, *words: str) -> Ran:
        """Run kubectl once, with the kubeconfig that the resident has written."""
        return self.kube.kubectl(self.kubectl_path, *words)

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

    @proves("G-SES-04", "U-PHA-24", "G-MET-30", "G-ROLE-21")
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
        words = ("-n", "shop", "exec", "front", "--", "pwd")
        self.assertEqual(self.kubectl(*words).checked().stdout, f"{self.kube.cluster.pod}\n")
        self.kube.gateway.set_policy(POLICY + LOOK + NO_EXEC)
        self.addCleanup(self.kube.gateway.set_policy, POLICY + LOOK)
        denied = until("the new policy", lambda: self.denied(*words))
        known = self.recorded(denied)
        self.kube.cluster.heard.clear()
        ran = self.kubectl(*words)
        self.assertNotEqual(ran.status, 0)
        self.assertIn("Forbidden", ran.stderr)
        self.assertIn("no-exec", ran.stderr)
        self.assertFalse([path for _, path, _ in self.kube.cluster.heard if "/exec" in path])
        # By WebSocket, which older ones do not know; and again by SPDY, a request of its own.
        tried = [
            one
            for one in self.recorded(ran)
            if one not in known and one["cedar_action"] == "k8sExec"
        ]
        self.assertIn(tried[-1]["decision_id"], ran.stderr)
        facts = [one["request"]["context"] for one in tried]
        told = [(one["verb"], one.get("opaque_upgrade", False)) for one in facts]
        self.assertIn(told, ([("create", True)], [("get", False), ("create", True)]))

    def denied(self, *words: str) -> Ran | None:
        """What kubectl said, where it failed."""
        ran = self.kubectl(*words)
        return ran if ran.status else None

    def recorded(self, ran: Ran) -> list[dict[str, Any]]:
        """The log, once what kubectl printed of a denial is in it."""
        printed = ran.stderr.partition("svc why ")[2].split()[0]
        until(
            "the denial in the log",
            lambda: printed in {one["decision_id"] for one in self.decisions()},
        )
        return self.decisions()

    @proves("G-SES-09", "G-ERR-16", "G-OPEN-56")
    def test_forbidden(self) -> None:
        """Forbidden in both cases: by our policy, and by the roles of the cluster itself."""
        for resource, word in (("secrets", "no-secrets"), ("services", "cannot list resource")):
            ran = self.kubectl("-n", "shop", "get", resource)
            self.assertNotEqual(ran.status, 0)
            self.assertIn("Error from server (Forbidden)", ran.stderr)
            self.assertIn(word, ran.stderr)
        paths = [path for _, path, _ in self.kube.cluster.heard]
        self.assertFalse([path for path in paths if "secrets" in path])
        pods = b"/api/v1/namespaces/shop/"
        ours = json.loads(self.said(b"GET " + pods + b"secrets").partition("\r\n\r\n")[2])
        self.assertEqual(
            [ours[name] for name in ("kind", "status", "reason", "code")],
            ["Status", "Failure", "Forbidden", 403],
        )
        self.assertEqual([one["message"] for one in ours["details"]["causes"]], ["no-secrets"])
        theirs = self.said(b"GET " + pods + b"services")
        self.assertIn("403 Forbidden", theirs.splitlines()[0])
        self.assertTrue(theirs.startswith("HTTP/1.1 403 Forbidden\r\nServer: BaseHTTP"))

    def said(self, line: bytes, *fields: bytes) -> str:
        """What the endpoint answers to these very bytes."""
        host, port = self.kube.person.endpoint("prod")
        named = b"Host: %s:%d" % (host.encode(), port)
        lines = (line + b" HTTP/1.1", named, *fields, b"", b"")
        with socket.create_connection((host, port), 20) as knocking:
            knocking.sendall(b"\r\n".join(lines))
            with knocking.makefile("rb") as answer:
                head = b"".join(iter(answer.readline, b"\r\n")) + b"\r\n"
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                return (head + answer.read(length)).decode()

    @proves("G-SES-10")
    def test_in_the_persons_name(self) -> None:
        """The cluster hears of the person from the Connector, and nothing that a client says."""
        self.kubectl("--as", "system:admin", "--as-group", "system:masters", "get", "ns").checked()
        before = len(self.kube.cluster.heard)
        for field in FORGED:
            self.assertIn("200 OK", self.said(b"GET /api", field).splitlines()[0], field)
        self.assertEqual(len(self.kube.cluster.heard) - before, len(FORGED))
        for field in (b"Impersonate-User : a", b" Impersonate-User: a", b"Impersonate-User\t: a"):
            self.assertIn("400 Bad Request", self.said(b"GET /api", field).splitlines()[0], field)
        (person,) = self.kube.gateway.operator("persons", "list", "--json").json
        for _, _, fields in self.kube.cluster.heard:
            said = [
                (name.lower(), value) for name, value in fields if name.lower().startswith(SAYS_WHO)
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

    def test_before_it_is_in_force(self) -> None:
        """A policy is checked on one request, and replayed over those that were made."""
        self.kubectl("-n", "shop", "get", "pods").checked()
        self.kubectl("-n", "shop", "get", "secrets")
        text = (POLICY + LOOK + NO_PODS).encode()
        gateway, asked = self.kube.gateway, ("--as", "ada", "--resource", "prod", "--json")
        for facts, action, decision, why in (
            (("verb=list", "api_resource=pods"), "k8sAccess", "deny", "no-pods"),
            (("verb=list", "api_resource=nodes"), "k8sAccess", "allow", "ops-all"),
            (("verb=create", "api_resource=pods/exec"), "k8sExec", "allow", "ops-all"),
        ):
            given = [word for fact in facts for word in ("--fact", fact)]
            words = ("policy", "check", "-", *asked, "--action", action, *given)
            told = gateway.operator(*words, stdin=text, check=False).json
            self.assertEqual((told["decision"], told["policies"]), (decision, [why]))

        def replayed() -> list[dict[str, Any]]:
            words = ("policy", "replay", "-", "--since", "1h", "--json")
            found: list[dict[str, Any]] = gateway.operator(*words, stdin=text).json["changes"]
            return [one for one in found if one["resource"] == "prod"]

        (change,) = until("the request in the log", replayed)
        self.assertEqual(
            [change[name] for name in ("action", "decision_before", "decision_after")],
            ["k8sAccess", "allow", "deny"],
        )
        self.assertEqual(change["policies_after"], ["no-pods"])

    def test_one_for_all(self) -> None:
        """One kubeconfig names every cluster; a file of somebody else's is left as it is."""
        person, out = self.kube.person, self.kube.person.home / "all.yaml"
        self.assertEqual(person.svc("kubeconfig", "--out", str(out)).checked().stdout, "")
        self.assertEqual(out.stat().st_mode & 0o777, 0o600)
        self.assertEqual(person.svc("kubeconfig").checked().stdout, out.read_text("ascii"))
        command = [
            self.kubectl_path,
            "--kubeconfig",
            str(out),
            "--context",
            "svc-prod",
            "get",
            "ns",
        ]
        self.assertIn("shop", self.kube.ran(command).checked().stdout)
        person.svc("kubeconfig", "--out", str(out)).checked()
        out.write_text("apiVersion: v1\n", "ascii")
        refused = person.svc("kubeconfig", "--out", str(out))
        self.assertNotEqual(refused.status, 0)
        self.assertIn("svc has not written this file", refused.stderr)
        self.assertEqual(out.read_text("ascii"), "apiVersion: v1\n")

    @proves("U-PHA-25", "X-67")
    def test_another_user(self) -> None:
        """Another user of the machine gets nothing out of the port."""
        need_root()
        address = self.kube.person.endpoint("prod")
        self.assertIn(as_stranger(lambda: knock(address)), ("refused", "heard b''"))
        self.assertEqual(self.kube.cluster.heard, [])
