"""SSH that ends at the Connector: stock ssh, scp and sftp to a stock sshd, each right by itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Child, Ran, run, until
from svc.testing.gateway.settings import POLICY
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.gated_ssh import GATED, STRANGE, UNKNOWN, GatedHost, gated_host

RUN_BY = "make fault"

DENIED = r"svc: {} is not allowed in this session by policy \({}\); svc why ([0-9a-f]{{32}})\r?\n"
MIB = 1 << 20


class _Gate:
    """What all look at."""

    @property
    def host(self) -> GatedHost:
        return gated_host()

    @property
    def home(self) -> Path:
        return self.host.person.home

    def ssh(self, *words: str, **more: Any) -> Ran:
        return self.host.ssh(*words, **more)

    def tool(self, name: str, *words: str, stdin: bytes = b"") -> Ran:
        command = [stock_tool(name), *self.host.options(), *words]
        return run(command, self.home, stdin=stdin, seconds=60)

    def policy(self: Any, more: str = "") -> None:
        """Put this policy in force, and wait until a session is decided by it."""
        text = (POLICY + more).encode()
        said = self.host.gateway.operator("policy", "set", "-", stdin=text).stdout
        [newest] = re.findall(r"version (\d+)", said)

        def is_there() -> bool:
            found = re.search("[0-9a-f]{32}", self.ssh("true").stderr)
            told = "" if found is None else self.host.person.svc("why", found[0]).stdout
            return re.search(rf"policy version +{newest}\n", told) is not None

        until("the policy is in force", is_there, 30)


class PassedTests(_Gate, SynchronousTestCase):
    """What the policy of the tests allows: everything of the group ``use``."""

    @proves("G-OPEN-61")
    def test_command(self) -> None:
        """A command's output, errors, input and status pass, and nobody is asked for anything."""
        done = self.ssh("cat; printf err >&2; exit 7", stdin=b"x" * 300_000)
        self.assertEqual((done.status, done.stdout), (7, "x" * 300_000), done.stderr)
        self.assertIn("err", done.stderr)
        self.assertIn("svc: gated: session open, decision ", done.stderr)

    def test_shell(self) -> None:
        """A shell reads its commands, and its status is that of ssh."""
        done = self.ssh(stdin=b"echo $((6 * 7)); exit 4\n")
        self.assertEqual((done.status, done.stdout), (4, "42\n"), done.stderr)

    def test_one_connection_for_many(self) -> None:
        """Commands that share a connection (ControlMaster) each have their own status."""
        shared = self.host.options("-S", str(self.home / "shared.sock"))
        master = Child(
            name="master",
            words=[stock_tool("ssh"), "-MN", *shared, GATED],
            home=self.home,
            log=self.home / "master.log",
        )
        self.addCleanup(master.end)
        master.start()
        until("the master", (self.home / "shared.sock").exists, alive=[master])
        for number in range(16):
            command = [stock_tool("ssh"), *shared, GATED, f"echo {number}; exit {number}"]
            done = run(command, self.home)
            self.assertEqual((done.status, done.stdout), (number, f"{number}\n"), done.stderr)

    def test_terminal(self) -> None:
        """A terminal of the size that the client has is there for what runs."""
        words = [stock_tool("ssh"), *self.host.options("-tt"), GATED, "tty; stty size; exit 2"]
        quoted = " ".join(f"'{word}'" for word in words)
        script = [stock_tool("script"), "-qec", f"stty rows 33 cols 99; {quoted}", "/dev/null"]
        done = run(script, self.home, seconds=60)
        self.assertEqual(done.status, 2, done.stdout)
        self.assertIn("33 99", done.stdout)
        self.assertIn("/dev/pts/", done.stdout)

    def test_use(self) -> None:
        """What a session did with its rights is on record once it is over, by its Connector."""
        found = re.search("[0-9a-f]{32}", self.ssh("true").stderr)
        assert found is not None

        def used() -> list[Any]:
            told = self.host.gateway.decision(found[0])
            return [one["details"]["used"] for one in told if one["event"] == "session.use"]

        self.assertEqual(until("the use of the session", used), [["exec 1"]])

    @proves("U-PHA-26")
    def test_name_and_address(self) -> None:
        """By the fragment that svc up wrote, ssh reaches the host by name and by its address."""
        fragment = (self.host.person.directory / "ssh" / f"{GATED}.conf").read_text()
        hosts = re.search(r"^Host (\S+) (127\.\S+)$", fragment, re.MULTILINE)
        assert hosts is not None
        for name in hosts.groups():
            done = self.host.ssh_as_written(name, "echo there")
            self.assertEqual((done.status, done.stdout), (0, "there\n"), done.stderr)

    def test_agent(self) -> None:
        """What runs at the host reaches the person's agent, where the client says so."""
        agent = self.home / "agent.sock"
        command = [stock_tool("ssh-agent"), "-D", "-a", str(agent)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
            self.addCleanup(running.wait)
            self.addCleanup(running.kill)
            until("the agent", agent.exists)
            options = ["-A", f"-oIdentityAgent={agent}"]
            done = self.ssh('ssh-add -l; test -n "$SSH_AUTH_SOCK"', options=options)
            self.assertEqual((done.status, done.stdout), (0, "The agent has no identities.\n"))
            running.kill()
        self.assertEqual(self.ssh('test -n "$SSH_AUTH_SOCK"').status, 1)

    def test_remote_forwarding(self) -> None:
        """A port that the host listens at leads to the person's side."""
        listening = self.home / "back.sock"
        talk = (
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect({!r});"
            " s.sendall(b'round'); print(s.recv(9).decode())"
        )
        options = ["-R", f"{listening}:127.0.0.1:{self.host.echo}"]
        done = self.ssh(f'python3 -c "{talk.format(str(listening))}"', options=options)
        self.assertEqual(done.stdout, "round\n", done.stderr)

    def test_subsystem(self) -> None:
        """Another subsystem than SFTP is refused in words."""
        done = self.ssh("netconf", options=["-s"])
        self.assertEqual(done.status, 1)
        self.assertIn("svc: no subsystem but sftp passes the gateway", done.stderr)

    def test_signal(self) -> None:
        """A command that a signal ends does not end well."""
        self.assertEqual(self.ssh("kill -TERM $$").status, 255)

    def test_rekeying(self) -> None:
        """Bytes pass while keys are made anew, by each cipher that is offered."""
        for cipher, mac in (
            ("aes128-gcm@openssh.com", "hmac-sha2-256"),
            ("aes256-ctr", "hmac-sha2-512-etm@openssh.com"),
            ("aes128-ctr", "hmac-sha2-256"),
        ):
            chosen = [f"-oCiphers={cipher}", f"-oMACs={mac}", "-oRekeyLimit=500K"]
            done = self.ssh("cat", stdin=b"y" * (2 * MIB), options=chosen)
            self.assertEqual((done.status, len(done.stdout)), (0, 2 * MIB), done.stderr)

    def test_strict_key_exchange(self) -> None:
        """OpenSSH finds the strict key exchange, and is offered nothing that Terrapin attacks."""
        told = self.ssh("true", options=["-oLogLevel=DEBUG3"]).stderr
        self.assertIn("will use strict KEX ordering", told)
        self.assertIn("matches the ED25519 host key", told)
        ours = told.partition("peer server KEXINIT proposal")[2]
        self.assertNotIn("chacha20", ours)
        self.assertNotIn("-cbc", ours)

    def test_files(self) -> None:
        """scp, scp of before and sftp bring files there and back."""
        sent, there, back = (self.home / name for name in ("sent", "there", "back"))
        sent.write_bytes(os.urandom(2 * MIB))
        for more in ([], ["-O"]):
            self.tool("scp", *more, str(sent), f"{GATED}:{there}").checked()
            self.tool("scp", *more, f"{GATED}:{there}", str(back)).checked()
            self.assertEqual(back.read_bytes(), sent.read_bytes())
        said = f"cd {self.home}\nmkdir box\nrename there box/it\nls -l box\nrm box/it\nrmdir box\n"
        done = self.tool("sftp", "-b", "-", GATED, stdin=said.encode()).checked()
        self.assertIn(str(2 * MIB), done.stdout)
        self.assertFalse(there.exists())

    def test_another_account(self) -> None:
        """An account that the Connector has no key of is refused before a session opens."""
        done = self.ssh("true", options=["-oUser=nobody-there"])
        self.assertEqual(done.status, 255)
        self.assertIn("reason no_credential", done.stderr)

    def test_host_keys(self) -> None:
        """A host that shows another key, or does not know ours, is not logged in to."""
        for name, reason in ((STRANGE, "target_untrusted"), (UNKNOWN, "target_login_refused")):
            done = self.ssh("true", name=name)
            self.assertEqual(done.status, 255)
            self.assertIn(f"reason {reason}", done.stderr)

    def test_without_an_account(self) -> None:
        """Whoever names no account is told to, and how."""
        done = self.host.person.svc("proxy-ssh", GATED)
        self.assertEqual(done.status, 1)
        self.assertIn(f"svc proxy-ssh --user ACCOUNT {GATED}", done.stderr)


class DeniedTests(_Gate, SynchronousTestCase):
    """What a policy takes away, in the words of each protocol."""

    def setUp(self) -> None:
        self.addCleanup(self.host.gateway.set_policy, POLICY)

    def denied(self, name: str, action: str, done: Ran) -> str:
        """The decision that a denial of this right names."""
        found = re.search(DENIED.format(name, action), done.stderr)
        self.assertIsNotNone(found, done.stderr)
        assert found is not None
        return found[1]

    def test_rights(self) -> None:
        """Shell, command and writing are denied, each with a reason that svc why explains."""
        self.policy(
            '@id("no-writes") forbid (principal, action in [Action::"sshSftpWrite",'
            ' Action::"sshShell", Action::"sshPty"], resource);'
            '@id("not-as") forbid (principal, action == Action::"sshExec", resource)'
            ' unless { context has login_user && context.login_user == "somebody-else" };'
        )
        done = self.ssh("true")
        self.assertEqual((done.status, done.stdout), (1, ""))
        told = self.host.person.svc("why", self.denied("exec", "sshExec", done)).checked().stdout
        self.assertIn("exec: not-as", told)
        self.assertIn("sftp_write: no-writes", told)
        self.assertRegex(told, r"may  +(?:.*,)?env,.*sftp_read,")
        done = self.ssh(stdin=b"touch /tmp/never\n")
        self.assertEqual(done.status, 1)
        self.denied("shell", "sshShell", done)
        sent, there, back = (self.home / name for name in ("sent", "not-there", "back"))
        sent.write_bytes(b"here")
        done = self.tool("scp", str(sent), f"{GATED}:{there}")
        self.assertEqual(done.status, 1)
        self.assertIn("Permission denied", done.stderr)
        self.denied("sftp_write", "sshSftpWrite", done)
        self.assertFalse(there.exists())
        self.tool("scp", f"{GATED}:{sent}", str(back)).checked()
        self.assertEqual(back.read_bytes(), b"here")
        said = f"-mkdir {there}\n-rm {sent}\n-symlink {sent} {there}\nls {sent}\n"
        done = self.tool("sftp", "-b", "-", GATED, stdin=said.encode()).checked()
        self.assertEqual(done.stderr.count("Permission denied"), 3, done.stderr)
        self.assertTrue(sent.exists())
        self.assertFalse(there.exists())

    def test_no_files(self) -> None:
        """Without either right SFTP begins, and each request is denied in its own words."""
        self.policy(
            '@id("no-files") forbid (principal, action in [Action::"sshSftpWrite",'
            ' Action::"sshSftpRead"], resource);'
        )
        done = self.tool("scp", str(self.home / ".svc/client.toml"), f"{GATED}:{self.home}/x")
        self.assertEqual(done.status, 1)
        self.assertIn("Permission denied", done.stderr)
        self.denied("sftp_write", "sshSftpWrite", done)
        self.assertFalse((self.home / "x").exists())

    def test_forwarding(self) -> None:
        """A forwarding is denied in the channel's own words, and never leads to sshd itself."""
        self.policy(
            '@id("no-forwards") forbid (principal, action == Action::"sshForwardLocal", resource);'
        )
        done = self.ssh(options=["-oLogLevel=INFO", "-W", "127.0.0.1:9"])
        self.assertIn("forward_local is not allowed in this session by policy", done.stderr)
        self.policy(
            '@id("no-back") forbid (principal, action == Action::"sshForwardRemote", resource);'
        )
        done = self.ssh("true", options=["-R", "0:127.0.0.1:9"])
        self.assertEqual(done.status, 0)
        self.denied("forward_remote", "sshForwardRemote", done)
        self.policy()
        echo = self.host.echo
        done = self.ssh(options=["-W", f"127.0.0.1:{echo}"], stdin=b"there and back")
        self.assertEqual(done.stdout, "there and back", done.stderr)
        done = self.ssh(options=["-oLogLevel=INFO", "-W", f"localhost:{self.host.host.port}"])
        self.assertIn("nothing is forwarded to the port of the host's own SSH server", done.stderr)

    def test_ended(self) -> None:
        """A session loses a right that it has, and ends within the reload pass, told why."""
        command = [stock_tool("ssh"), *self.host.options(), GATED, "echo begun; cat"]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.host.environ,
        ) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            self.assertEqual(running.stdout.readline(), b"begun\n")
            self.host.gateway.set_policy(
                POLICY + '@id("no") forbid (principal, action == Action::"sshEnv", resource);'
            )
            self.assertEqual(running.wait(15), 255)
            told = running.stderr.read().decode()
        self.assertIn("svc: gated: session ended: ", told)
        self.assertIn("reason policy_changed", told)

    def test_opening(self) -> None:
        """A policy may decide by the account who opens a session at all."""
        self.host.gateway.set_policy(
            POLICY + '@id("others") forbid (principal, action == Action::"sshConnect", resource)'
            ' unless { context has login_user && context.login_user == "somebody-else" };'
        )

        def is_refused() -> bool:
            return "reason denied" in self.ssh("true").stderr

        until("nobody else gets in", is_refused, 30)
