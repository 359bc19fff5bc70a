"""What `svc service` prints for programs; how the options go together."""

from __future__ import annotations

from contrib.reference.json_names import unknown
from svc.cli.services import (
    client_net_result,
    installed_lines,
    installed_result,
    uninstalled_result,
)
from svc.setup.units.client_net import install_client_net
from svc.setup.units.install import install, uninstall
from tests.cli.terminal import terminal
from tests.setup.units.pieces import ACCOUNT, PLACES, PROGRAM, UnitCase
from tests.support.proof import proves


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
                "client_net": None,
                "commands": ["systemctl restart svc-proxy.service"],
            },
        )
        gone = uninstalled_result("proxy", uninstall(self.machine, wanted))
        self.assertEqual(gone, {"role": "proxy", "path": path, "changed": True})
        again = uninstalled_result("proxy", uninstall(self.machine, wanted))
        self.assertEqual(again, {"role": "proxy", "path": None, "changed": False})
        self.assertEqual(list(unknown([first, gone, again])), [])

    @proves("U-PHA-13")
    def test_client_net(self) -> None:
        """With a client's unit comes the one of client-net, which can also be had alone."""
        units = self.root / "etc/systemd/system"
        done = installed_result(install(self.machine, self.wanted("client"), PROGRAM, PLACES))
        path = str(units / "svc-client-net.service")
        self.assertEqual(done["client_net"], {"path": path, "changed": True})
        client = f"svc-client@{ACCOUNT}.service"
        self.assertEqual(
            done["commands"],
            ["systemctl restart svc-client-net.service", f"systemctl restart {client}"],
        )
        self.assertEqual(
            installed_lines(done),
            [
                f"{units / client}: written; {client} is enabled, not started",
                f"{path}: written; svc-client-net.service is enabled, not started",
            ],
        )
        alone = client_net_result(install_client_net(self.machine, PROGRAM, PLACES))
        self.assertEqual((alone["path"], alone["changed"]), (path, False))
        self.assertEqual(list(unknown([done, alone])), [])

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
            (("install", "client-net", "--user"), "neither --account nor --user"),
            (("show", "client-net", "--account", "ada"), "neither --account nor --user"),
        ):
            outcome = terminal("service", *words)
            self.assertEqual((outcome.status, outcome.stdout), (64, ""), words)
            self.assertIn(said, outcome.stderr, words)
