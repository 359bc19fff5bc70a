"""The table of a host whose SSH ends at the Connector, and what is refused in it."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError, SvcError
from svc.interfaces.kinds import ends_here, not_counted
from svc.kinds.ssh.dialer import DIALER, SshTargets
from svc.model.session.onward import OnwardCredential
from svc.testing.contracts.kind import KindContract
from tests.support.recording import MemoryRecorder

GATED: dict[str, Any] = {
    "address": "web1.internal",
    "onward": "stored_key",
    "host_keys": [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGRVYnVmCJbXj9RWQyCD0HbFRxgwdFbObFOGv6TFWY+ web1"
    ],
    "key_files": {"deploy": "/etc/svc/web1/deploy"},
}

CERTIFIED = {**GATED, "onward": "certificate"}
del CERTIFIED["key_files"]


def _ending(credential: OnwardCredential | None) -> SshTargets:
    """What dials for a session that is recorded."""
    return DIALER.ending(frozenset(), "d" * 32, not_counted, MemoryRecorder(), credential)


class GatedTableTests(KindContract, SynchronousTestCase):
    """The contract, by a table with a gate, and its own keys."""

    word = "ssh"
    good_table = GATED
    good_parameters = {"login_user": "deploy"}

    def test_endpoint_is_lazy(self) -> None:
        """Nobody dials for a session whose rights nobody decided."""
        target = self._parse(GATED)
        refusal = self.assertRaises(
            SvcError, DIALER.endpoint, MemoryReactorClock(), target, {"login_user": "deploy"}
        )
        self.assertEqual(refusal.reason, "no_credential")

    def test_dials_through_the_reactor_given(self) -> None:
        """See the gate's own tests."""
        endpoint = DIALER.ending(frozenset(), "d" * 32, not_counted)
        made = endpoint.endpoint(MemoryReactorClock(), self._parse(GATED), {"login_user": "deploy"})
        self.assertTrue(hasattr(made, "connect"))

    def test_modes(self) -> None:
        """SSH ends here where the table says so, and nowhere else."""
        for table, ends in (
            (GATED, True),
            (CERTIFIED, True),
            ({"address": "web1"}, False),
            ({"address": "web1", "onward": "passthrough"}, False),
        ):
            self.assertIs(ends_here(DIALER, self._parse(table)), ends)

    def test_refused(self) -> None:
        """Each key that is wrong is named, and no value told."""
        for key, value in (
            ("onward", ["secret-word"]),
            ("onward", "secret-word"),
            ("host_keys", []),
            ("host_keys", None),
            ("host_keys", ["ssh-dss AAAA"]),
            ("host_keys", ["secret-word"]),
            ("host_keys", ["ssh-ed25519 AAAA\nssh-ed25519 BBBB"]),
            ("key_files", {}),
            ("key_files", {"-oProxyCommand": "/etc/key"}),
            ("key_files", {"deploy": "secret-word"}),
            ("gate_key_file", "secret-word"),
        ):
            refusal = self.assertRaises(ConfigError, self._parse, {**GATED, key: value})
            self.assertIn(f"connector.resources[0].{key}", refusal.where)
            self.assertNotIn("secret-word", str(refusal))

    def test_without_a_gate(self) -> None:
        """The gate's keys are refused where there is none, so that nobody thinks there is."""
        table = {name: value for name, value in GATED.items() if name != "onward"}
        refusal = self.assertRaises(ConfigError, self._parse, table)
        self.assertEqual(refusal.where, "connector.resources[0].host_keys")

    def test_a_certificate_has_no_files(self) -> None:
        """Files of keys are refused beside certificates: nobody would read them."""
        table = {**GATED, "onward": "certificate"}
        refusal = self.assertRaises(ConfigError, self._parse, table)
        self.assertEqual(refusal.where, "connector.resources[0].key_files")

    def test_recording(self) -> None:
        """Both ways of logging in are recorded as the table says, and passed-on bytes by none."""
        for table in (GATED, CERTIFIED):
            plain = self._parse(table).options
            self.assertEqual((plain["record"], plain["record_input"]), ("required", False))
            told = self._parse({**table, "record": "off", "record_input": True}).options
            self.assertEqual((told["record"], told["record_input"]), ("off", True))
            for key, value in (("record", "never"), ("record_input", "yes")):
                refusal = self.assertRaises(ConfigError, self._parse, {**table, key: value})
                self.assertEqual(refusal.where, f"connector.resources[0].{key}")
                refusal = self.assertRaises(
                    ConfigError, self._parse, {"address": "web1.internal", key: value}
                )
                self.assertIn('"certificate" or "stored_key"', str(refusal))

    def test_modes_that_differ(self) -> None:
        """Where catalog and Connector have other modes nothing is dialed."""
        credential = OnwardCredential(Ed25519PrivateKey.generate(), b"certificate")
        for table, given in ((GATED, credential), (CERTIFIED, None)):
            reactor = MemoryReactorClock()
            dialer = _ending(given)
            made = dialer.endpoint(reactor, self._parse(table), {"login_user": "deploy"})
            refusal = self.failureResultOf(made.connect(Factory()), SvcError).value
            self.assertEqual(refusal.reason, "ceiling_unenforced")
            self.assertEqual(reactor.tcpClients, [])

    def test_a_certificate_of_another_process(self) -> None:
        """A certificate for another key is not tried, nor are bytes that are none."""
        for certificate in (b"none", b""):
            credential = OnwardCredential(Ed25519PrivateKey.generate(), certificate)
            dialer = _ending(credential)
            made = dialer.endpoint(
                MemoryReactorClock(), self._parse(CERTIFIED), {"login_user": "deploy"}
            )
            refusal = self.failureResultOf(made.connect(Factory()), SvcError).value
            self.assertEqual(refusal.reason, "no_credential")
