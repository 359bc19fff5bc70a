"""The kind as a whole: what every kind keeps, and what its configuration may say."""

from __future__ import annotations

import os
from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError, SvcError
from svc.kinds.postgres.dialer import DIALER, deny, drop, read_password, unknown
from svc.testing.contracts.kind import KindContract

WORD = "svc_denied_" + "0" * 32
DECISION = {"decision": "0" * 32}


class PostgresTests(KindContract, SynchronousTestCase):
    """The contract, and the Connector's side."""

    word = "postgres"
    good_table: Mapping[str, object] = {
        "address": "db1.internal",
        "tls": "verify-full",
        "ca_file": "/etc/svc/ca.pem",
        "server_name": "db1.internal",
        "auth": "scram-sha-256",
        "read_only_roles": ["analyst"],
        "password_files": {"app": "/etc/svc/app"},
    }
    good_parameters: Mapping[str, str] = {"database": "shop", "db_role": "app"}

    def test_defaults(self) -> None:
        """An address is enough; then the certificate is verified, and the proof is SCRAM."""
        target = self._parse({"address": "db1.internal"})
        self.assertEqual(target.address, "db1.internal:5432")
        self.assertEqual(
            (target.options["tls"], target.options["auth"], target.options["server_name"]),
            ("verify-full", "scram-sha-256", "db1.internal"),
        )

    def test_refusals(self) -> None:
        """What cannot be meant is refused by its key, and no value is repeated."""
        for more, key in (
            ({"tls": "prefer"}, "tls"),
            ({"tls": "off", "ca_file": "/x"}, "tls"),
            ({"tls": "off", "server_name": "x"}, "tls"),
            ({"tls": "off", "auth": "password"}, "auth"),
            ({"auth": "gss"}, "auth"),
            ({"ca_file": "relative"}, "ca_file"),
            ({"password_files": {"app": "relative"}}, "password_files.app"),
            ({"password_files": {"a b": "/x"}}, "password_files"),
            ({"password_files": {"app": "secret"}}, "password_files.app"),
            ({"read_only_roles": "app"}, "read_only_roles"),
        ):
            refusal = self.assertRaises(ConfigError, self._parse, {"address": "a", **more})
            self.assertEqual(refusal.where, f"connector.resources[0].{key}")
            self.assertNotIn("secret", str(refusal))

    def test_passwords(self) -> None:
        """A password is one line of a file that nobody else may read."""
        path = self.mktemp()
        for content, mode, told in (
            (b"secret\n", 0o600, ""),
            (b"secret", 0o600, ""),
            (b"secret\n", 0o644, "other users may read it"),
            (b"", 0o600, "does not hold one password"),
            (b"se\0cret", 0o600, "does not hold one password"),
            (b"x" * 5000, 0o600, "does not hold one password"),
        ):
            with open(path, "wb") as file:
                file.write(content)
            os.chmod(path, mode)
            if not told:
                self.assertEqual(read_password(path), b"secret")
                continue
            refusal = self.assertRaises(SvcError, read_password, path)
            self.assertEqual(refusal.reason, "no_credential")
            self.assertIn(told, refusal.text)
            self.assertNotIn("secret", refusal.text)
        for missing in (None, path + "-no"):
            self.assertEqual(
                self.assertRaises(SvcError, read_password, missing).reason, "no_credential"
            )

    def test_edits(self) -> None:
        """The word takes the text's place; whatever else is asked for is no edit."""
        self.assertEqual(
            deny(b"Q\0\0\0\x09DROP\0", DECISION), b"Q\0\0\0\x30" + WORD.encode() + b"\0"
        )
        parse = deny(b"P\0\0\0\x10name\0DROP x\0\0\0", DECISION)
        self.assertEqual(parse[5:], b"name\0" + WORD.encode() + b"\0\0\0")
        for kind in (b"B", b"E"):
            made = deny(kind + b"\0\0\0\x09\0\0\0\0", DECISION)
            self.assertEqual(made[:1] + made[5:], b"Psvc_denied\0" + WORD.encode() + b"\0\0\0")
        self.assertEqual(drop(b"anything", {}), b"")
        self.assertEqual(unknown(b"B\0\0\0\x04", {})[5:], b"\0svc_unknown\0" + bytes(6))
        for came, values in (
            (b"S\0\0\0\x04", DECISION),
            (b"X\0\0\0\x04", DECISION),
            (b"Q\0\0\0\x05\0", {"decision": "; DROP TABLE a; --"}),
            (b"Q\0\0\0\x05\0", {}),
        ):
            self.assertRaises(ValueError, deny, came, values)
        self.assertRaises(ValueError, unknown, b"Q\0\0\0\x05\0", {})
        self.assertEqual(set(DIALER.edits), {"deny", "drop", "unknown"})
