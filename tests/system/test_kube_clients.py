"""The Kubernetes project's own clients for Python and JavaScript, through a gateway."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import POLICY
from tests.interop.stage import node
from tests.support.proof import proves
from tests.system.kube_api.stage import LOOK, kube
from tests.system.test_kube import NO_EXEC

RUN_BY = "make fault"

PYTHON = str(Path(__file__).with_name("kube_api") / "python_client.py")


class ClientTests(SynchronousTestCase):
    """Lists, watches, commands in pods, and refusals, as a program reads them."""

    def setUp(self) -> None:
        self.kube = kube()

    def told(self, *words: str) -> dict[str, Any]:
        """What a client saw of each case."""
        ran = self.kube.ran([*words, str(self.kube.kubeconfig)])
        seen: dict[str, Any] = ran.checked().json
        return seen

    def sees(self, name: str, *words: str) -> None:
        """Run a client with and without the right to execute."""
        seen = self.told(*words)
        self.assertEqual(seen["list"], ["front", "back"])
        self.assertEqual(seen["watch"], [f"ADDED {name}", f"DELETED {name}"])
        self.assertEqual(seen["exec"], ["typed\n", 3])
        for case, word in (("denied", "no-secrets"), ("by the cluster", "cannot list resource")):
            status, reason, message = seen[case]
            self.assertEqual((status, reason), (403, "Forbidden"))
            self.assertIn(word, message)
        self.kube.gateway.set_policy(POLICY + LOOK + NO_EXEC)
        try:
            refused = until("the policy", lambda: self.refused(*words))
        finally:
            self.kube.gateway.set_policy(POLICY + LOOK)
        self.assertIn("403", str(refused))

    def refused(self, *words: str) -> list[Any] | None:
        """How a command in a pod is refused; None while it is not."""
        said: list[Any] = self.told(*words)["exec"]
        return None if said == ["typed\n", 3] else said

    @proves("G-SES-04")
    def test_python(self) -> None:
        """PyPI `kubernetes`."""
        self.sees("python", sys.executable, PYTHON)

    @proves("G-SES-04")
    def test_node(self) -> None:
        """npm `@kubernetes/client-node`."""
        self.sees("node", *node("kubernetes.js"))
