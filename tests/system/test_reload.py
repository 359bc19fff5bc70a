"""``svc reload`` and SIGHUP: a running role takes a new configuration, whole or not at all."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from svc.config.keys import KEYS
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Ran, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.system.world import around

MOST = "limits.max_sessions_per_person"


@cache
def made() -> Gateway:
    """A gateway whose configurations this module changes, and puts back."""
    return make_gateway([GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")])


@cache
def ada() -> GatewayPerson:
    """Somebody with a resident."""
    person = made().add_person("ada", "ops")
    person.up("echo")
    return person


def reload(role: str, *words: str, config: str = "", meant: str = "") -> Ran:
    """The command, at this role's process; without --role, unless one is meant."""
    gateway = made()
    path = config or str(gateway.files.config(role))
    named = ("--role", meant) if meant else ()
    command = svc_command("--config", path, "reload", *named, *words)
    return run(command, gateway.directory, seconds=60)


def reloaded(role: str) -> dict[str, Any]:
    """The document of a reload that took effect."""
    found: dict[str, Any] = json.loads(reload(role, "--json").checked().stdout)
    assert not list(unknown(found)), found
    return found


def _echo(peer: socket.socket) -> bytes:
    peer.sendall(b"word")
    return peer.recv(4)


class ReloadTests(SynchronousTestCase):
    """At a gateway that goes on all the while."""

    def setUp(self) -> None:
        self.gateway = made()
        self.files = self.gateway.files

    def change(self, role: str, **keys: Any) -> None:
        """Write other keys, until the end of the test, with dots for ``__``."""
        before = dict(self.files.table(role))

        def restored() -> None:
            self.files.write(role, before)
            self.assertEqual(reload(role).status, 0)

        self.addCleanup(restored)
        self.gateway.configure(role, {name.replace("__", "."): one for name, one in keys.items()})

    def sessions(self, count: int) -> list[bytes]:
        """What so many sessions at once are answered; an empty answer is a refusal."""
        place, answers = ada().endpoint("echo"), []
        with ExitStack() as ending:
            peers: list[socket.socket | None] = []
            for _ in range(count):
                try:
                    peers.append(ending.enter_context(socket.create_connection(place, 20)))
                except ConnectionError:
                    peers.append(None)  # refused before the kernel told us that it stands
            for peer in peers:
                try:
                    answers.append(b"" if peer is None else _echo(peer))
                except ConnectionError:
                    answers.append(b"")
        until("all are over", lambda: not self.gateway.status()["open_sessions"])
        return answers

    @proves("G-CLI-18", "G-OPEN-53")
    def test_limits(self) -> None:
        """A limit is in force when the command ends with 0, and again once it is put back."""
        self.assertEqual(self.sessions(3), [b"word"] * 3)
        first = reloaded(PROXY)
        self.assertEqual(first["changed_keys"], [])
        config, before = self.files.config(PROXY), dict(self.files.table(PROXY))
        self.change(PROXY, **{MOST: 1})
        told = reloaded(PROXY)
        self.assertEqual((told["changed_keys"], told["restart_keys"]), ([MOST], []))
        self.assertEqual(told["generation"], first["generation"] + 1)
        self.assertEqual(told["sha256"], sha256(config.read_bytes()).hexdigest())
        self.assertEqual(self.sessions(2), [b"word", b""])
        self.files.write(PROXY, before)
        shown = reload(PROXY)
        self.assertEqual((shown.status, shown.stderr), (0, ""))
        self.assertIn(f"changed: {MOST}\n", shown.stdout)
        self.assertEqual(self.sessions(3), [b"word"] * 3)

    def test_every_key(self) -> None:
        """Each key that the reference marks takes effect at each role that reads it."""
        for role in (AUTHORITY, PROXY, CONNECTOR):
            table = self.files.table(role)
            changed: dict[str, Any] = {}
            for key in KEYS:
                if key.reloads and role in key.roles:
                    changed[key.path] = _another(table.get(key.path, key.default))
            self.change(role, **changed)
            self.assertEqual(reloaded(role)["changed_keys"], list(changed), role)

    @proves("G-CLI-18", "G-OPEN-53")
    def test_restart_only(self) -> None:
        """A key that needs a restart is named, the status is 1, and the other keys stay as well."""
        first = reloaded(PROXY)
        self.change(PROXY, profile="blue", limits__max_sessions_per_person=1)
        told = reload(PROXY, "--json")
        self.assertEqual(told.status, 1)
        self.assertEqual(
            told.stderr, "svc: nothing was changed: profile needs a restart of the proxy\n"
        )
        document = json.loads(told.stdout)
        self.assertEqual((document["changed_keys"], document["restart_keys"]), ([], ["profile"]))
        for name in ("generation", "sha256"):
            self.assertEqual(document[name], first[name])
        self.assertEqual(self.sessions(2), [b"word"] * 2)

    @proves("G-CLI-18")
    def test_refused(self) -> None:
        """A file that is refused is told as at a start; the role goes on by what it had."""
        config = self.files.config(PROXY)
        before = config.read_bytes()
        for text, said in (
            (b"nonsense = 1\n" + before, "nonsense: unknown key"),
            (b"store_auto_migrate = 7\n" + before, "store_auto_migrate: must be true or false"),
            (b"= not a table", "is not valid TOML"),
        ):
            config.write_bytes(text)
            try:
                told = reload(PROXY)
            finally:
                config.write_bytes(before)
            self.assertEqual((told.status, told.stdout), (1, ""), text)
            self.assertIn(said, told.stderr)
        self.assertEqual(self.gateway.get(PROXY, "/readyz")[0], 200)
        self.assertEqual(self.sessions(2), [b"word"] * 2)

    def test_role(self) -> None:
        """Which role the file is for need not be said, and may be."""
        for role in (AUTHORITY, PROXY, CONNECTOR):
            for meant in ("", role):
                told = json.loads(reload(role, "--json", meant=meant).checked().stdout)
                self.assertEqual(told["role"], role)

    def test_of_no_role(self) -> None:
        """A person's configuration, and none at all, are wrong usage; what to type is said."""
        own = str(ada().directory / "client.toml")
        told = reload(PROXY, config=own)
        self.assertEqual((told.status, told.stdout), (64, ""))
        self.assertIn(f"{own}: is for no role of a gateway", told.stderr)
        told = run(svc_command("reload"), ada().home)
        self.assertEqual((told.status, told.stdout), (64, ""))
        self.assertIn("on its host: svc --config FILE reload", told.stderr)

    @proves("G-CLI-18")
    def test_nobody_is_meant(self) -> None:
        """Without a process, for another role's, and with another's file: an error, no reload."""
        copy = self.gateway.directory / "copy.toml"
        shutil.copy(self.files.config(PROXY), copy)
        for role, config, meant, said in (
            (PROXY, "", "connector", "this process runs proxy, not connector"),
            (PROXY, str(copy), "", f"not {copy}"),
            (PROXY, str(self.gateway.directory / "none.toml"), "", "cannot be read"),
        ):
            told = reload(role, config=config, meant=meant)
            self.assertEqual((told.status, told.stdout), (1, ""), said)
            self.assertIn(said, told.stderr)
        self.gateway.child(CONNECTOR).kill()
        self.addCleanup(self.gateway.await_tunnels, 1)
        self.addCleanup(self.gateway.start, CONNECTOR)
        told = reload(CONNECTOR)
        self.assertEqual(told.status, 1)
        self.assertIn("process.sock: no answer; the connector does not run", told.stderr)

    @proves("G-OPEN-53")
    def test_socket(self) -> None:
        """The socket is its owner's alone, in the directory of the state."""
        for role in (AUTHORITY, PROXY, CONNECTOR):
            mode = (self.files.state(role) / "process.sock").stat().st_mode
            self.assertEqual(oct(mode & 0o777), "0o600", role)

    @proves("G-OPEN-53")
    def test_hangup(self) -> None:
        """SIGHUP does the same; what came of it is in the log."""
        self.assertEqual(self.sessions(1), [b"word"])
        self.change(CONNECTOR, connector__reach=["192.0.2.0/24"])
        told = self.hung_up(CONNECTOR, "configuration reloaded")
        self.assertEqual(told["keys"], ["connector.reach"])
        self.assertEqual(self.sessions(1), [b""])
        self.assertIn("address_out_of_reach", self.gateway.child(CONNECTOR).text())
        self.change(CONNECTOR, tunnel__backoff_max_secs=20)
        line = "the configuration was not reloaded: keys that changed need a restart"
        self.assertEqual(self.hung_up(CONNECTOR, line)["keys"], ["tunnel.backoff_max_secs"])

    def hung_up(self, role: str, message: str) -> dict[str, Any]:
        """Send SIGHUP; what the log says of it, which tells of earlier reloads as well."""
        child = self.gateway.child(role)
        before = len(child.events(message))
        child.signal(signal.SIGHUP)
        return until("it is told", lambda: child.events(message)[before:], alive=[child])[0]

    def test_periodic_checks(self) -> None:
        """Periodic checks are turned on, with their series, and off again."""
        role, series = CONNECTOR, "svc_doctor_last_run_timestamp_seconds"
        self.change(role, doctor__check_interval_secs=1)
        self.assertEqual(reloaded(role)["changed_keys"], ["doctor.check_interval_secs"])
        until("they are made", lambda: series in self.gateway.get(role, "/metrics")[1], 30)
        self.gateway.configure(role, {"doctor.check_interval_secs": 0})
        reloaded(role)
        self.assertNotIn("svc_doctor", self.gateway.get(role, "/metrics")[1])

    def test_recorded(self) -> None:
        """Authority records who changed which keys to which file; nothing where nothing changed."""
        self.change(AUTHORITY, limits__opens_per_minute=2999)
        told = reloaded(AUTHORITY)
        reloaded(AUTHORITY)
        rows = self.gateway.operator("audit", "show", "--event", "config.reload", "--json").json
        (record,) = [one for one in rows if one["details"]["config_sha256"] == told["sha256"]]
        self.assertEqual(record["details"]["keys"], ["limits.opens_per_minute"])
        self.assertEqual(record["actor"]["kind"], "operator")


def _another(value: Any) -> Any:
    """A value of the same form that changes little."""
    if isinstance(value, bool):
        return not value
    return ["127.0.0.0/8"] if isinstance(value, list) else value + 3600
