"""What `svc service` prints for programs; how the options go together."""

from __future__ import annotations

from contrib.reference.json_names import unknown
from svc.cli.services import installed_result, uninstalled_result
from svc.setup.units.install import install, uninstall
from tests.cli.terminal import terminal
from tests.setup.units.pieces import ACCOUNT, PLACES, PROGRAM, UnitCase


class ServiceTests(UnitCase):
    """`svc service`."""

    def test_documents(self) -> None:
        """What is printed with `--json` has the names of the reference, and says what was done."""
        wanted = self.wanted("proxy")
        done = install(self.machine, wanted, PROGRAM, PLACES)
        path = str(self.root / "etc/systemd/system/svc-proxy.service")
        first = installed_result(done)
        self.assertEqual(
            first,
            {
                "role": "proxy",
                "name": "svc-proxy.service",
                "path": path,
                "config": wanted.config,
                "account": ACCOUNT,
                "changed": True,
                "commands": ["systemctl restart svc-proxy.service"],
            },
        )
        gone = uninstalled_result("proxy", uninstall(self.machine, wanted))
        self.assertEqual(gone, {"role": "proxy", "path": path, "changed": True})
        again = uninstalled_result("proxy", uninstall(self.machine, wanted))
        self.assertEqual(again, {"role": "proxy", "path": None, "changed": False})
        self.assertEqual(list(unknown([first, gone, again])), [])

    def test_usage(self) -> None:
        """Options that do not go together, and what is missing, are usage errors."""
        for words, said in (
            (("install",), "Missing argument 'ROLE'"),
            (("install", "gateway"), "is not one of"),
            (("install", "proxy"), "requires its configuration: --config"),
            (("install", "client"), "requires its configuration: --config"),
            (("show", "proxy", "--user"), "only a client"),
            (("install", "client", "--user", "--account", "ada"), "give only one"),
            (("uninstall", "proxy", "--stop"), "No such option"),
        ):
            outcome = terminal("service", *words)
            self.assertEqual((outcome.status, outcome.stdout), (64, ""), words)
            self.assertIn(said, outcome.stderr, words)
