"""The checks of a machine: identity, network and service; each finding is provoked."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar
from unittest import skipIf

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

import svc
from svc.compose.doctor import role_contexts, this_program
from svc.config import Address, StoreUrl
from svc.config.values import PasskeySettings
from svc.model.doctor import CheckSeverity
from svc.ops.doctor import network, probes
from svc.ops.doctor.checks import CHECKS
from svc.ops.doctor.probes import is_running
from svc.ops.doctor.run import examine
from svc.ops.doctor.service import first_word
from svc.pki.receiver import load_receiver
from svc.runtime.state_directory import StateDirectory
from svc.setup.units.unit import command_line
from tests.ops.doctor.ended import NODES, PERSON, CopyCase
from tests.support.proof import proves
from tests.support.public_name import write_certificate

T = TypeVar("T")

DAY = 86400.0


class IdentityTests(CopyCase):
    """``identity.*``."""

    @proves("G-DOC-13")
    def test_state_directory(self) -> None:
        """Not there, and open to others."""
        self.assert_ok("proxy", "identity.state_directory")
        self.copy.state("proxy").chmod(0o755)
        self.assert_found("proxy", "identity.state_directory", "fail", "0755", "chmod 700")
        (self.copy.state("authority") / ".restoring").touch()
        self.assert_found("authority", "identity.state_directory", "fail", "interrupted")

    def test_no_state_directory(self) -> None:
        """It alone fails, and is told first; nothing advises to make a new cluster."""
        for role in NODES:
            self.copy.state(role).rename(self.copy.base / f"unmounted-{role}")
            report = self.copy.report(role)
            first, *others = report.checks
            self.assertEqual(first.id, "identity.state_directory")
            self.assertIn("mount the state directory", first.hint)
            self.assertEqual("start the role" in first.hint, role != "authority")
            failed = [one.id for one in others if one.severity is CheckSeverity.FAIL]
            self.assertEqual(failed, [])
            self.assertNotIn("svc init", repr(report))
        kept = {one.id: one.message for one in self.copy.report("authority").checks}
        for check in ("store.reachable", "store.pairing", "audit.head", "identity.keys"):
            self.assertEqual(kept[check], "not checked: the state directory does not exist")

    def test_leaf_in_time(self) -> None:
        """Days left; little left; ended; not begun."""
        for role in (*NODES, PERSON):
            self.assert_ok(role, "identity.leaf", "left of", " h ")
        now = self.copy.at
        for role, passed in (("proxy", 0.8 * DAY), (PERSON, 11.5 / 24 * DAY)):
            self.copy.at = now + passed
            self.assert_found(role, "identity.leaf", "warn", "left")
        self.copy.at = now + 2 * DAY
        self.assert_found("connector", "identity.leaf", "fail", "expired", "join again")
        self.copy.at = now - DAY
        self.assert_found("connector", "identity.leaf", "fail", "begins at", "clock")

    @proves("U-NOTE-04", "G-DOC-13")
    def test_receiver(self) -> None:
        """The Authority's own; another owner's; none yet."""
        self.assert_ok("authority", "identity.receiver", "the receiver credential of")
        state = self.copy.state("authority")
        cluster = self.copy.settings("authority").cluster
        (state / "receiver.key").unlink()
        self.assert_found("authority", "identity.receiver", "info", "at its next start")
        load_receiver(state, cluster, "a2", self.copy.at)
        self.assert_found("authority", "identity.receiver", "fail", "a2", "it was copied")

    @proves("U-BAK-07")
    def test_leaf_of_an_authority(self) -> None:
        """It is made again at the next start, so that one which ended meanwhile is no failure."""
        self.copy.at += 2 * DAY
        self.assert_found("authority", "identity.leaf", "warn", "expired", "start the Authority")
        running = StateDirectory(self.copy.state("authority"))
        running.claim()
        self.addCleanup(running.release)
        self.assert_found("authority", "identity.leaf", "fail", "expired")

    def test_page_certificate(self) -> None:
        """Of the sign-in page: none; good; ending soon; ended; of another name; of another key."""
        self.assert_ok("authority", "identity.page_certificate", "no sign-in page")
        cert, key = self.copy.base / "page.pem", self.copy.base / "page.key"
        write_certificate(cert, key, "gate.example", ec.generate_private_key(ec.SECP256R1()), 90)
        now = self.copy.at
        for name, passed, severity, word in (
            ("gate.example", 0, "ok", "gate.example"),
            ("gate.example", 88, "warn", "ends in"),
            ("gate.example", 91, "fail", "ended"),
            ("other.example", 0, "fail", "other.example"),
        ):
            self.copy.at = now + passed * DAY
            served = PasskeySettings(
                public_name=Address(name, 443), listen=None, cert=str(cert), key=str(key)
            )
            accounts = evolve(self.copy.settings("authority").accounts, passkeys=served)
            self.assert_found(
                "authority", "identity.page_certificate", severity, word, accounts=accounts
            )
        key.write_bytes((self.copy.state("authority") / "keys" / "jwt.key").read_bytes())
        self.assert_found("authority", "identity.page_certificate", "fail", accounts=accounts)

    @proves("G-DOC-13")
    def test_leaf_of_another(self) -> None:
        """A key that is not the certificate's; the identity of another role; of another cluster."""
        current = self.copy.state("proxy") / "identity" / "current"
        other = self.copy.state("connector") / "identity" / "current"
        key = (current / "key.pem").read_bytes()
        shutil.copy(other / "key.pem", current / "key.pem")
        self.assert_found("proxy", "identity.leaf", "fail", "key.pem", "does not match")
        (current / "key.pem").write_bytes(key)
        self.assert_found("proxy", "identity.leaf", "fail", cluster="other.example")
        for name in ("leaf", "chain", "key"):
            shutil.copy(other / f"{name}.pem", current / f"{name}.pem")
        self.assert_found("proxy", "identity.leaf", "fail", "that of a connector")

    def test_no_leaf(self) -> None:
        """Who can join will; who cannot has no identity; an Authority makes its own."""
        for role in (*NODES, PERSON):
            shutil.rmtree(self.copy.state(role) / "identity")
        self.assert_found("proxy", "identity.leaf", "warn", "next start")
        self.assert_found("proxy", "identity.leaf", "fail", join__token_file=None)
        lost = {"join__token_file": "/nowhere/token"}
        self.assert_found("proxy", "identity.leaf", "fail", "/nowhere/token", "nodes add", **lost)
        self.assert_found("authority", "identity.leaf", "info", "first start")
        self.assert_found(PERSON, "identity.leaf", "fail", "svc join")

    @proves("U-BAK-06", "U-BAK-07")
    def test_keys(self) -> None:
        """Every key is whole, some end soon, and one is not its certificate's."""
        self.assert_ok("authority", "identity.keys", "keys are whole")
        now, keys = self.copy.at, self.copy.state("authority") / "keys"
        self.copy.at = now + 70 * DAY
        self.assert_found("authority", "identity.keys", "info", "keys renew")
        self.copy.at = now + 85 * DAY
        self.assert_found("authority", "identity.keys", "warn", "keys renew")
        self.copy.at = now
        shutil.copy(keys / "jwt.key", keys / "grant.key")
        self.assert_found("authority", "identity.keys", "fail", "grant.key")
        (keys / "grant.key").unlink()
        self.assert_found("authority", "identity.keys", "fail", "grant.key")

    def test_names(self) -> None:
        """A name that the certificate does not carry."""
        self.assert_ok("proxy", "identity.names", "localhost")
        names = ("localhost", "gate.example")
        self.assert_found(
            "proxy", "identity.names", "warn", "gate.example", endpoints__public_names=names
        )

    def test_clock(self) -> None:
        """A clock that is behind what was signed already."""
        for role in ("authority", "proxy"):
            self.assert_ok(role, "identity.clock")
        self.copy.at -= 3600
        for role in ("authority", "proxy"):
            self.assert_found(role, "identity.clock", "fail", "before the time")


@contextmanager
def listening() -> Iterator[Address]:
    """An address where somebody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield Address("127.0.0.1", server.getsockname()[1])


def _answer_slowly(server: socket.socket, asked: Event) -> None:
    """Answer byte by byte for some ten seconds, or until nobody asks any more."""
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: ")
        for _ in range(200):
            if asked.wait(0.05):
                return
            connection.sendall(b"x")
        connection.sendall(b"\r\n\r\nready")


class NetworkTests(CopyCase):
    """``network.*``."""

    @proves("G-TEL-09", "G-IDN-11", "G-DOC-13")
    def test_telemetry_bind(self) -> None:
        """A public address is warned of."""
        key = "telemetry__metrics_listen"
        self.assert_ok("proxy", "network.telemetry_bind")
        self.assert_found("proxy", "network.telemetry_bind", "info", "empty", **{key: None})
        for host in ("0.0.0.0", "::", "8.8.8.8"):
            public = {key: Address(host, 9100)}
            self.assert_found("proxy", "network.telemetry_bind", "warn", "public", **public)

    @proves("G-IDN-12", "X-83", "G-DOC-13")
    def test_trace_collector(self) -> None:
        """A public collector, and one whose name says nothing, are warned of."""
        key = "telemetry__otel_endpoint"
        self.assert_ok("proxy", "network.trace_collector")
        for host, severity in (("127.0.0.1", "ok"), ("10.1.2.3", "ok"), ("8.8.8.8", "warn")):
            self.assert_found(
                "proxy", "network.trace_collector", severity, **{key: f"http://{host}:4318"}
            )
        self.assert_found(
            "proxy", "network.trace_collector", "warn", **{key: "http://nosuch.invalid:4318"}
        )

    def test_listen(self) -> None:
        """Free while nobody runs; taken by somebody else; ours."""
        self.assert_ok("proxy", "network.listen", "does not run", "another port")
        chosen = {"endpoints__public_listen": Address("127.0.0.1", 0)}
        self.assert_found("proxy", "network.listen", "info", "another port", **chosen)
        with listening() as taken:
            change = {"endpoints__public_listen": taken}
            self.assert_found("proxy", "network.listen", "fail", str(taken), **change)
            running = StateDirectory(self.copy.state("proxy"))
            running.claim()
            self.addCleanup(running.release)
            self.assert_ok("proxy", "network.listen", "the role runs", str(taken), **change)
        self.assert_found("proxy", "network.listen", "info", "nothing listens", **change)

    def test_listen_where_nobody_can(self) -> None:
        """An address of another machine is wrong; a port that only root may bind is not known."""
        other = {"endpoints__public_listen": Address("192.0.2.1", 7443)}
        self.assert_found("proxy", "network.listen", "fail", "no address of this machine", **other)
        refused = partial(OSError, errno.EACCES, "Permission denied")
        self.patch(network, "bind_refusal", lambda address: refused())
        self.assert_found(
            "proxy", "network.listen", "info", "may not listen there", "root", **other
        )

    def test_nobody_is_dialed(self) -> None:
        """Who listens here, and who is connected, is known without a connection of ours."""
        with socket.create_server(("0.0.0.0", 0)) as server:
            there = Address("127.0.0.1", server.getsockname()[1])
            self.assert_ok("connector", "network.proxies", str(there), endpoints__proxy=(there,))
            server.setblocking(False)
            self.assertRaises(BlockingIOError, server.accept)

    def test_peers(self) -> None:
        """Whether other Proxies reach the listener for them; there is one only if asked for."""
        find = partial(self.assert_found, "proxy", "network.peers")
        self.assert_ok("proxy", "network.peers", "endpoints.peer_listen is empty")
        here = Address("127.0.0.1", 7405)
        find("warn", "127.0.0.1:7405", "only Proxies on this machine", endpoints__peer_listen=here)
        private, public = Address("10.0.5.11", 7405), Address("9.9.9.9", 7405)
        find("info", "does not run", endpoints__peer_listen=private)
        told = {"endpoints__peer_listen": private, "endpoints__peer_address": public}
        find("warn", "endpoints.peer_address", "public address", **told)
        find("info", "another port", endpoints__peer_listen=Address("10.0.5.11", 0))
        running = StateDirectory(self.copy.state("proxy"))
        running.claim()
        self.addCleanup(running.release)
        with socket.create_server(("127.0.0.1", 0)) as server:
            there = Address("127.0.0.1", server.getsockname()[1])
            told = {"endpoints__peer_listen": private, "endpoints__peer_address": there}
            find("warn", "only Proxies on this machine", **told)
        find("warn", "refused", "open the way", **told)

    def test_within_a_role(self) -> None:
        """The role itself dials nobody for a check, and says so."""
        context = evolve(self.copy.context("proxy"), is_within=True)
        chosen = [check for check in CHECKS if check.id == "network.authority"]
        (found,) = examine(chosen, [context]).checks
        self.assertIs(found.severity, CheckSeverity.INFO)
        self.assertIn("no connection is open", found.message)

    def test_dialed(self) -> None:
        """Who does not answer is warned of, and who is not named at all is a failure."""
        for role, check, key in (
            ("proxy", "network.authority", "endpoints__authority"),
            ("connector", "network.proxies", "endpoints__proxy"),
            (PERSON, "network.proxies", "endpoints__proxy"),
        ):
            with listening() as there:
                self.assert_ok(role, check, str(there), **{key: (there,)})
            self.assert_found(role, check, "warn", str(there), "refused", **{key: (there,)})
            self.assert_found(role, check, "fail", "empty", **{key: ()})


def as_somebody_else(call: Callable[[], T]) -> T:
    """What a call gives where root has none of its rights."""
    if os.geteuid() != 0:
        return call()
    os.seteuid(65534)
    try:
        return call()
    finally:
        os.seteuid(0)


class OfAnotherUserTests(CopyCase):
    """Whoever checks the role of another user is told to run the command as that user."""

    def setUp(self) -> None:
        super().setUp()
        self.state = self.copy.state("proxy")

    def test_a_directory_that_may_not_be_read(self) -> None:
        """It is one failure, and nothing is said of the role that nobody can know."""
        context = self.copy.context("proxy")
        self.state.chmod(0)
        self.addCleanup(self.state.chmod, 0o700)
        report = as_somebody_else(lambda: examine(CHECKS, [context]))
        found = {one.id: one for one in report.checks}
        for name in ("identity.leaf", "service.running", "service.spool", "cluster.root"):
            self.assertEqual(found[name].severity.word, "info", found[name])
        self.assertIn("does not tell", found["network.listen"].message)

    def test_a_directory_that_may_not_be_entered(self) -> None:
        """The one above is closed: which directory is the role's is asked without an error."""
        above = self.copy.base / "closed"
        above.mkdir()
        self.state.rename(above / "proxy")
        above.chmod(0)
        self.addCleanup(above.chmod, 0o700)
        settings = evolve(self.copy.settings("proxy"), state_dir=str(above / "proxy"))
        program, at = self.copy.program, self.copy.at
        contexts = as_somebody_else(lambda: role_contexts(settings, at, program))
        report = as_somebody_else(lambda: examine(CHECKS, contexts))
        self.assertEqual(report.checks[0].severity.word, "fail", report.checks[0])
        self.assertIn("permission denied", report.checks[0].message)
        self.assertIn("as the user of the role", report.checks[0].hint)


class ServiceTests(CopyCase):
    """``service.*``."""

    @proves("G-DOC-13")
    def test_binary_path(self) -> None:
        """The unit's program: this one, another one, one in a home directory, none."""
        (directory,) = self.copy.program.unit_directories
        directory.mkdir()
        self.assert_ok("proxy", "service.binary_path", "no systemd unit")
        unit, other = directory / "svc-proxy.service", Path("/bin/sh")
        self.copy.program.path.touch()
        self.copy.program = evolve(self.copy.program, path=other.resolve())
        for program, severity, word in (
            ("/bin/sh", "ok", "/bin/sh"),
            ("-/bin/sh", "ok", "/bin/sh"),
            ('"/bin/sh"', "ok", "/bin/sh"),
            ('!"/no where/svc"', "fail", "/no where/svc, which"),
            ("/bin/ls", "warn", "this program is"),
            ("/nowhere/svc", "fail", "does not exist"),
        ):
            unit.write_text(f"[Service]\nExecStart={program} --config /etc/svc/proxy.toml proxy\n")
            self.assert_found("proxy", "service.binary_path", severity, word)
        unit.write_text("[Service]\n")
        self.assert_found("proxy", "service.binary_path", "warn", "ExecStart")
        with self.copy_in_tmp() as passing:
            unit.write_text(f"[Service]\nExecStart={passing} proxy\n")
            self.assert_found("proxy", "service.binary_path", "warn", "temporary")

    @contextmanager
    def copy_in_tmp(self) -> Iterator[str]:
        """A program where none should be."""
        path = Path("/tmp") / f"svc-doctor-{os.getpid()}"
        path.touch()
        try:
            yield str(path)
        finally:
            path.unlink()

    @given(
        st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1)
    )
    def test_program_of_a_unit_of_ours(self, name: str) -> None:
        """What `svc service install` writes is read as it was meant."""
        program = f"/opt/{name}"
        self.assertEqual(first_word(command_line([program, "--config", "x y"])), program)

    def test_run_as_a_module(self) -> None:
        """`python -m svc` is the interpreter, which a unit without the script starts."""
        module = Path(svc.__file__).with_name("__main__.py")
        for script in (str(module), "-m", "/nowhere/svc"):
            self.patch(sys, "argv", [script])
            self.assertEqual(this_program().path, Path(sys.executable).resolve())

    def test_running(self) -> None:
        """Who has the state directory is seen without touching its lock."""
        self.assert_found("proxy", "service.running", "info", "does not run")
        state = StateDirectory(self.copy.state("proxy"))
        state.claim()
        self.assert_ok("proxy", "service.running", "the role runs")
        state.release()
        self.assertIs(is_running(self.copy.state("proxy")), False)

    def test_readiness_of_nobody(self) -> None:
        """What cannot be read, or is of a role that is gone, says nothing of it."""
        state = self.copy.state("proxy")
        self.assertEqual(probes.readiness(state), "")
        with listening() as gone:
            pass
        for text in ("", "{}", '{"telemetry": 7}', '{"telemetry": "x"}', "[]"):
            (state / probes.LISTENING).write_text(text)
            self.assertEqual(probes.readiness(state), "", text)
        (state / probes.LISTENING).write_text(f'{{"telemetry": "{gone}"}}')
        self.assertEqual(probes.readiness(state), "")

    def test_readiness_of_somebody_else(self) -> None:
        """Neither a pipe in the place of the file nor an answer without an end holds up doctor."""
        state = self.copy.state("proxy")
        os.mkfifo(state / probes.LISTENING)
        self.assertEqual(probes.readiness(state), "")
        (state / probes.LISTENING).unlink()
        self.patch(probes, "READY_SECS", 0.2)
        asked = Event()
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            answering = Thread(target=_answer_slowly, args=(server, asked))
            answering.start()
            port = server.getsockname()[1]
            (state / probes.LISTENING).write_text(f'{{"telemetry": "127.0.0.1:{port}"}}')
            self.assertEqual(probes.readiness(state), "")
            asked.set()
            answering.join()

    def test_running_on_another_device(self) -> None:
        """Locks are listed by the device that is mounted, which on btrfs no file says it is on."""
        state = self.copy.state("proxy")
        inode = os.stat(state / "lock").st_ino
        directory = os.open(state, os.O_PATH)
        self.addCleanup(os.close, directory)
        facts = Path(f"/proc/self/fdinfo/{directory}").read_text("ascii")
        mount = facts.partition("mnt_id:")[2].split()[0]
        tables = {"MOUNTS": f"7 1 0:9 / / rw\n{mount} 1 0:43 /vol / rw - btrfs\n"}
        tables["LOCKS"] = f"1: FLOCK  ADVISORY  WRITE 42 00:2b:{inode} 0 EOF\n"
        for name, text in tables.items():
            path = self.copy.base / name
            path.write_text(text)
            self.patch(probes, name, path)
        self.assertIs(is_running(state), True)
        (self.copy.base / "LOCKS").write_text(tables["LOCKS"].replace("00:2b", "00:09"))
        self.assertIs(is_running(state), False)

    def test_credentials(self) -> None:
        """A secret that others can read; one that is needed and missing."""
        self.assert_ok("proxy", "service.credentials")
        token = self.copy.settings("proxy").join.token_file
        assert token is not None
        Path(token).chmod(0o644)
        self.assert_found("proxy", "service.credentials", "fail", token, "chmod go-rwx")
        url = StoreUrl("postgresql", "svc@db.example/svc?passfile=/nowhere/pass")
        self.assert_found(
            "authority", "service.credentials", "fail", "/nowhere/pass", store_url=url
        )
        accounts = self.copy.settings("authority").accounts
        keyed = evolve(accounts, passkeys=evolve(accounts.passkeys, key="/nowhere/page.key"))
        self.assert_found(
            "authority", "service.credentials", "fail", "/nowhere/page.key", accounts=keyed
        )

    @skipIf(os.geteuid(), "only root can give a file away")
    def test_credentials_of_another_user(self) -> None:
        """What root can read, the role may not: a node that has not joined needs its token."""
        token = self.copy.settings("proxy").join.token_file
        assert token is not None
        os.chown(token, 65534, 65534)
        os.chown(self.copy.state("proxy"), 1, 1)
        self.assert_ok("proxy", "service.credentials")
        shutil.rmtree(self.copy.state("proxy") / "identity")
        self.assert_found("proxy", "service.credentials", "fail", "uid 65534", "chown 1 ")

    def test_spool(self) -> None:
        """A spool that is nearly full."""
        self.assert_ok("proxy", "service.spool")
        self.assert_found("proxy", "service.spool", "warn", proxy__spool_max_bytes=100)

    def test_recordings(self) -> None:
        """Recordings that wait nearly fill the room for them; the Authority's own disk."""
        for role in ("authority", "connector"):
            self.assert_ok(role, "service.recordings")
            directory = self.copy.state(role) / "recordings"
            directory.mkdir()
            (directory / "one.rec").write_bytes(bytes(1000))
        self.assert_ok("connector", "service.recordings")
        self.assert_found(
            "connector", "service.recordings", "warn", "1, 1000", recordings__buffer_max_bytes=1001
        )

    def test_damaged(self) -> None:
        """What was set aside is told until somebody removes it."""
        self.assert_ok("proxy", "service.damaged")
        folder = self.copy.state("proxy") / "spool" / "damaged"
        folder.mkdir()
        (folder / "one.rows").touch()
        self.assert_found("proxy", "service.damaged", "warn", "one.rows")

    def test_resident(self) -> None:
        """No resident is nothing to put right."""
        self.assert_found(PERSON, "service.resident", "info", "svc up")
