"""What a unit says."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.setup.units.planning import plan_unit
from svc.setup.units.unit import ServiceUnit, command_line
from tests.setup.units.pieces import PLACES, PROGRAM, SERVERS, UnitCase, lines_of
from tests.support.proof import proves

_WORDS = st.text(st.characters(blacklist_categories=("C", "Zl", "Zp")), min_size=1)
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')


def read_back(line: str) -> list[str]:
    """The words of a command line as systemd.syntax(7) and systemd.service(5) read it."""
    words = []
    for at, found in enumerate(_ITEM.finditer(line)):
        word = found[2] if found[1] is None else re.sub(r"\\(.)", r"\1", found[1])
        word = word.replace("%%", "%")
        words.append(word.replace("$$", "$") if at else word)
    return words


def unit_of(config: str, **changes: object) -> ServiceUnit:
    """A unit of a Proxy."""
    given: dict[str, object] = {
        "role": "proxy",
        "name": "svc-proxy.service",
        "account": "svc-proxy",
        "program": ("/opt/svc/bin/svc",),
        "config": config,
        "state_directory": "svc/proxy",
        "writable": (),
        "open_files": 65536,
        "stop_secs": 90,
        "binds_low": False,
    }
    return ServiceUnit(**{**given, **changes})  # type: ignore[arg-type]


class TextTests(SynchronousTestCase):
    """Rendering; no file is touched."""

    @given(st.lists(_WORDS, min_size=1))
    def test_words(self, words: list[str]) -> None:
        """Whatever is in a word, systemd reads the same word: no specifier, variable or split."""
        line = command_line(words)
        self.assertNotIn("\n", line)
        self.assertEqual(read_back(line), words)

    @given(_WORDS)
    def test_same_bytes(self, name: str) -> None:
        """The same values give the same text, with one ExecStart that names the configuration."""
        config = f"/etc/svc/{name}"
        text = unit_of(config).text
        self.assertEqual(text, unit_of(config).text)
        starts = [line for line in text.split("\n") if line.startswith("ExecStart=")]
        words = read_back(starts[0].removeprefix("ExecStart="))
        self.assertEqual(words, ["/opt/svc/bin/svc", "--config", config, "proxy"])
        self.assertEqual(len(starts), 1)

    def test_witnesses(self) -> None:
        """A role may write where its witnesses are, and starts although one of them is away."""
        lines = lines_of(unit_of("/p.toml", writable=("/srv/a b",), witnesses=("/mnt/w", "/x y")))
        self.assertIn('ReadWritePaths="/srv/a b" -/mnt/w "-/x y"', lines)

    def test_statuses(self) -> None:
        """It starts again after a failure, but for what a restart cannot mend."""
        lines = lines_of(unit_of("/etc/svc/proxy.toml"))
        self.assertIn("Restart=on-failure", lines)
        self.assertIn("RestartPreventExitStatus=2 3 4 6 64 78 238", lines)


class PlannedTests(UnitCase):
    """Units of each role."""

    @proves("U-PHA-01", "G-GEN-02")
    def test_names(self) -> None:
        """Units are svc-ROLE, of a client svc-client@USER or svc-client; every name begins so."""
        for role in SERVERS:
            self.assertEqual(self.planned(role).name, f"svc-{role}.service")
        self.assertEqual(self.planned("client").name, "svc-client@daemon.service")
        own = self.planned("client", account="", is_own=True)
        self.assertEqual(own.name, "svc-client.service")
        for role in SERVERS:
            text = self.planned(role).text
            self.assertIn(f"StateDirectory=svc/{role}\n", text)
            self.assertIn("\nExecStart=/opt/svc/bin/svc --config /", text)
            again = f" reload --role {role}\n"
            self.assertRegex(text, f"\nExecReload=/opt/svc/bin/svc --config /.*{again}")
        self.assertNotIn("ExecReload", own.text)

    @proves("U-NOTE-25", "U-NOTE-27")
    def test_own_state_directory(self) -> None:
        """A server's unit has its own account, state directory, and nothing else to write to."""
        for role in SERVERS:
            lines = lines_of(self.planned(role))
            for line in (
                "User=daemon",
                f"StateDirectory=svc/{role}",
                "StateDirectoryMode=0700",
                "ProtectSystem=strict",
                "ProtectHome=yes",
                "NoNewPrivileges=yes",
            ):
                self.assertIn(line, lines, role)
            self.assertFalse([line for line in lines if line.startswith("ReadWritePaths")])

    def test_low_ports(self) -> None:
        """The one capability is granted where an address needs it, and only there."""
        self.assertIn("AmbientCapabilities=CAP_NET_BIND_SERVICE", lines_of(self.planned("proxy")))
        self.assertIn("CapabilityBoundingSet=", lines_of(self.planned("connector")))

    def test_stop_is_longer_than_the_drain(self) -> None:
        """An orderly stop has more time than the configuration gives open sessions."""
        for drain in (0, 30, 3600):
            text = f"{CONNECTOR}limits.drain_secs={drain}\n"
            self.assertGreater(self.planned("connector", text).stop_secs, drain)

    def test_client(self) -> None:
        """A client's unit of the system may write to the client's directory; its own needs none."""
        directory = self.root / "etc/svc"
        lines = lines_of(self.planned("client"))
        self.assertIn(f"ReadWritePaths={directory}", lines)
        self.assertNotIn("ProtectHome=yes", lines)
        own = lines_of(self.planned_own())
        self.assertFalse([line for line in own if line.startswith(("User=", "Protect", "Capab"))])
        self.assertIn("WantedBy=default.target", own)

    def planned_own(self) -> ServiceUnit:
        """A person's own unit."""
        wanted = self.wanted("client", account="", is_own=True)
        return plan_unit(wanted, "", PROGRAM, PLACES)


CONNECTOR = (
    'cluster="a.example"\nstate_dir="/var/lib/svc/connector"\nendpoints.proxy=["127.0.0.1:1"]\n'
)
