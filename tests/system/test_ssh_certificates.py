"""Onward certificates: a stock sshd that trusts the cluster's CA, and a Connector without keys."""

from __future__ import annotations

import json
import os
import re
import time
from binascii import b2a_base64
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.ssh.rights import ACTIONS, LOGIN_USER, SFTP_READ
from svc.kinds.ssh.terms import certified_login
from svc.model.session.onward import OnwardCertificate
from svc.pki.keyring import load_keys
from svc.pki.ssh_certificates import WORD, signed_user_certificate
from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import AUTHORITY, POLICY
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.certified_ssh import DIFFERENT, FOREIGN, OTHERS, certified_hosts
from tests.system.gated_ssh import GatedHost, account, recording_of

RUN_BY = "make fault"

ALL = frozenset(ACTIONS)


class CertificateTests(SynchronousTestCase):
    """Through the gateway, to hosts that know no key of anybody's."""

    @property
    def host(self) -> GatedHost:
        return certified_hosts()[0]

    @proves("G-OPEN-61")
    def test_command(self) -> None:
        """A session logs in by a certificate of its own, which is on record before it is used."""
        done = self.host.ssh("cat; exit 7", stdin=b"x" * 100_000)
        self.assertEqual((done.status, done.stdout), (7, "x" * 100_000), done.stderr)
        found = re.search("decision ([0-9a-f]{32})", done.stderr)
        assert found is not None
        records = self.host.gateway.decision(found[1])
        [issued] = [one for one in records if one["event"] == "credential.issue"]
        about: Any = issued["details"]
        self.assertEqual(about["profile"], "onward_ssh")
        self.assertEqual(
            about["key_id"], f"session={issued['session_uid']},person={about['person_id']}"
        )
        accepted = f"ID {about['key_id']} (serial {int(about['serial'], 16)}) CA ED25519"
        self.assertIn(accepted, self.host.host.child.text())

    @proves("G-SES-14")
    def test_recorded(self) -> None:
        """A session by a certificate is recorded, what is typed as well where its table says so."""
        done = self.host.ssh("read x; echo got $x", options=["-tt"], stdin=b"hush\n")
        self.assertIn("got hush", done.stdout)
        gateway = self.host.gateway
        one = recording_of(gateway, done)
        said = gateway.operator("recordings", "export", one["id"], "--out", "-").stdout
        events = [json.loads(line) for line in said.splitlines()[1:]]
        told = {code: "".join(x[2] for x in events if x[1] == code) for code in "io"}
        self.assertIn("got hush", told["o"])
        self.assertEqual(told["i"].replace("\r", "\n").partition("\n")[0], "hush")
        names = {each["event"] for each in gateway.decision(one["decision_id"])}
        self.assertLessEqual({"credential.issue", "recording.delivered"}, names)

    def test_terminal_and_files(self) -> None:
        """A terminal, files and a forwarding pass, as with a stored key."""
        sent, back = (self.host.person.home / name for name in ("sent", "back"))
        sent.write_bytes(os.urandom(100_000))
        command = [stock_tool("scp"), *self.host.options(), f"{self.host.name}:{sent}", str(back)]
        run(command, self.host.person.home, seconds=60).checked()
        self.assertEqual(back.read_bytes(), sent.read_bytes())
        self.assertIn("/dev/pts/", self.host.ssh("tty", options=["-tt"]).stdout)
        echo = f"127.0.0.1:{self.host.echo}"
        done = self.host.ssh(options=["-W", echo], stdin=b"there and back")
        self.assertEqual(done.stdout, "there and back", done.stderr)

    def test_refused(self) -> None:
        """A host that trusts another CA, or no such account, lets nobody in, and both are told."""
        for name, options in (
            (FOREIGN, []),
            (OTHERS, []),
            ("", ["-oUser=nobody-there"]),
        ):
            done = self.host.ssh("true", name=name, options=options)
            self.assertEqual(done.status, 255)
            self.assertIn("reason target_login_refused", done.stderr)
        self.assertIn("TrustedUserCAKeys must name", self.host.gateway.child("connector").text())

    def test_another_mode(self) -> None:
        """Where the Connector would log in by a stored key it does not log in at all."""
        done = self.host.ssh("true", name=DIFFERENT)
        self.assertEqual(done.status, 255)
        self.assertIn("reason ceiling_unenforced", done.stderr)

    @proves("G-CLI-13")
    def test_gate_epoch(self) -> None:
        """A Connector of this version goes on serving once the gate is on for the cluster."""
        self.host.gateway.operator("epochs", "activate", "--yes").checked()
        told = json.loads(self.host.gateway.operator("epochs", "status", "--json").stdout)
        self.assertEqual((told["epoch"], told["losing"]), (1, []))
        nodes = json.loads(self.host.gateway.operator("nodes", "list", "--json").stdout)
        offered = {one["epoch_capability"] for one in nodes if one["role"] == "connector"}
        self.assertEqual(offered, {1})
        self.assertEqual(self.host.ssh("exit 5").status, 5)

    def test_files_only(self) -> None:
        """Without a shell and commands the host itself runs nothing but SFTP."""
        gateway = self.host.gateway
        self.addCleanup(gateway.set_policy, POLICY)
        gateway.set_policy(
            POLICY + '@id("files") forbid (principal, action in [Action::"sshShell",'
            ' Action::"sshExec", Action::"sshSftpWrite"], resource);'
        )
        until("no command runs", lambda: self.host.ssh("true").status == 1, 30)
        sent, back = (self.host.person.home / name for name in ("only", "only-back"))
        sent.write_bytes(b"files")
        command = [stock_tool("scp"), *self.host.options(), f"{self.host.name}:{sent}", str(back)]
        run(command, self.host.person.home, seconds=60).checked()
        self.assertEqual(back.read_bytes(), b"files")


class AtTheHostTests(SynchronousTestCase):
    """What a host makes of certificates, whoever holds the key: past the gateway, by stock ssh."""

    def ssh(self, *words: str, at: float = 0.0, rights: frozenset[str] = ALL, **more: Any) -> Ran:
        """Log in by a certificate that was issued so many seconds from now."""
        host = certified_hosts()[0]
        keys = load_keys(host.gateway.files.state(AUTHORITY) / "keys", time.time, os.urandom)
        key = Ed25519PrivateKey.generate()
        now = int(time.time() + at)
        signed = signed_user_certificate(
            keys.purposes[WORD],
            OnwardCertificate(
                login=certified_login({LOGIN_USER: more.get("principal", account())}, rights),
                public_key=key.public_key().public_bytes_raw(),
                serial=2**64 - 1,
                key_id="a test",
                begins_at=now - 60,
                ends_at=now + 240,
            ),
        )
        place = Path(self.mktemp()).absolute()
        place.mkdir(mode=0o700)
        (place / "key").touch(mode=0o600)
        (place / "key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        )
        (place / "key-cert.pub").write_bytes(
            b"ssh-ed25519-cert-v01@openssh.com " + b2a_base64(signed)
        )
        options = {
            "BatchMode": "yes",
            "IdentityFile": place / "key",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": host.host.directory / "known_hosts",
            "HostKeyAlias": "target",
            "User": account(),
            "Port": host.host.port,
        }
        given = [f"-o{name}={value}" for name, value in options.items()]
        command = [stock_tool("ssh"), "-F", "none", *given, *more.get("options", ()), "127.0.0.1"]
        return run([*command, *words], place, seconds=30)

    def test_times(self) -> None:
        """It lets in for five minutes, and neither before nor after."""
        self.assertEqual(self.ssh("exit 7").status, 7)
        for at in (-241.0, 120.0):
            done = self.ssh("true", at=at)
            self.assertEqual(done.status, 255)
            self.assertIn("Permission denied", done.stderr)

    def test_account(self) -> None:
        """It lets in to the account that it names and to no other."""
        self.assertIn("Permission denied", self.ssh("true", principal="root-of-another").stderr)

    def test_rights(self) -> None:
        """What the session may not do the host does not do either."""
        done = self.ssh("tty", rights=ALL - {"pty"}, options=["-tt"])
        self.assertIn("PTY allocation request failed", done.stderr)
        done = self.ssh("touch", "/tmp/never", rights=frozenset({SFTP_READ}))
        self.assertNotEqual(done.status, 0)
        self.assertEqual(self.ssh("true", rights=frozenset()).status, 1)
