"""What a good configuration gives, and which files are read at all."""

from __future__ import annotations

import os
import pwd
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import fields
from attrs.exceptions import FrozenInstanceError
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from twisted.trial.unittest import SkipTest, SynchronousTestCase

import svc.plugins
from svc.config import Address, ConfigErrors, RoleSettings, load_settings, read_settings
from svc.config.forms import parse_address, parse_otel_endpoint
from svc.config.keys import KEYS, ROLES, Key
from svc.errors import ConfigError
from tests.config.malformed import GOOD
from tests.support.proof import proves


def _paths(path: str, value: Any) -> Iterator[str]:
    """The dotted path of each value in a table, or of the one that it is."""
    if not type(value).__name__.endswith("Settings"):
        yield path
        return
    for inner in fields(type(value)):
        yield from _paths(f"{path}.{inner.name}", getattr(value, inner.name))


def _takes_zero(key: Key) -> bool:
    if isinstance(key.default, bool):
        return False
    try:
        key.form.check(TypeAdapter(key.form.toml).validate_python(0, strict=True))
    except (ValidationError, ValueError):
        return False
    return True


class ValueTests(SynchronousTestCase):
    """Frozen values, with defaults that behave as nothing said."""

    @proves("G-CFG-03", "G-CFG-05", "G-CFG-08", "G-CFG-09", "G-OPEN-07", "G-OPEN-49")
    def test_defaults(self) -> None:
        """An almost empty file means: no telemetry, no profile, migrations applied."""
        found = read_settings(GOOD["authority"], "authority")
        self.assertIsNone(found.telemetry.metrics_listen)
        self.assertIsNone(found.telemetry.otel_endpoint)
        self.assertIsNone(found.profile)
        self.assertTrue(found.store_auto_migrate)
        self.assertEqual(found.store_lease_secs, 15.0)
        self.assertEqual(found.identity.join_token_secs, 3600)
        self.assertEqual(found.endpoints.control_listen, Address("127.0.0.1", 7401))
        self.assertEqual(found.plugins.kinds, ("ssh", "tcp"))
        self.assertEqual(found.limits.drain_secs, 30.0)

    @proves("G-CFG-07")
    def test_every_role_reads_its_least(self) -> None:
        """Each role starts with the few keys it needs, Proxy and Connector without a store."""
        for role in ROLES:
            with self.subTest(role=role):
                found = read_settings(GOOD[role], role)
                self.assertEqual(found.role, role)
                self.assertEqual(found.store_url is None, role not in ("authority", "all"))

    def test_a_person_has_every_kind_that_comes_with_svc(self) -> None:
        """A person's machine serves all built-in kinds, if its file says nothing else."""
        here = Path(svc.plugins.__path__[0])
        there = sorted(one.stem.removeprefix("kind_") for one in here.glob("kind_*.py"))
        self.assertEqual(list(read_settings(GOOD["client"], "client").plugins.kinds), there)
        for others in ("plugins.kinds = []", 'plugins.kinds = ["redis"]'):
            with self.subTest(others=others):
                found = read_settings(f"{others}\n{GOOD['client']}", "client").plugins.kinds
                self.assertEqual(list(found), tomllib.loads(others)["plugins"]["kinds"])
        with self.assertRaises(ConfigErrors):
            read_settings(f"plugins = 1\n{GOOD['client']}", "client")

    def test_empty_listener_is_none(self) -> None:
        """An empty telemetry address means that there is no listener."""
        self.assertIsNone(
            read_settings('telemetry.metrics_listen = ""', "client").telemetry.metrics_listen
        )

    def test_frozen(self) -> None:
        """Settings are handed out once and never change."""
        found = read_settings("", "client")
        with self.assertRaises(FrozenInstanceError):
            found.profile = "x"  # type: ignore[misc]

    @proves("X-68")
    def test_what_zero_means(self) -> None:
        """Zero is off here, at once there: each key that takes it says which; others refuse it."""
        taken = {key.path for key in KEYS if _takes_zero(key)}
        self.assertEqual(taken, {key.path for key in KEYS if re.search(r"[;(] ?0: ", key.meaning)})
        self.assertLessEqual({"doctor.check_interval_secs", "client.native_port_offset"}, taken)

    def test_every_key_reaches_its_field(self) -> None:
        """Each key of this build has a field of its name, and no field is without a key."""
        built = {key.path for key in KEYS if not key.later}
        reached = set()
        found = read_settings("", "client")
        for field in fields(RoleSettings):
            value = getattr(found, field.name)
            reached |= set(_paths(field.name, value))
        self.assertEqual(reached - {"role", "path"}, built)

    def test_resources_stay_raw(self) -> None:
        """A resource's own table is handed on as it was, with the path to name in a refusal."""
        text = '[[connector.resources]]\nid="db"\nkind="vnc"\naddress="h:1"\nview_only=true\n'
        (found,) = read_settings(GOOD["connector"] + text, "connector").connector.resources
        self.assertEqual((found.id, found.kind, found.address), ("db", "vnc", "h:1"))
        self.assertEqual(dict(found.table), {"address": "h:1", "view_only": True})
        self.assertEqual(found.key_path, "connector.resources[0]")

    def test_environment_over_file(self) -> None:
        """A variable lies over the file's value, whole."""
        environ = {
            "SVC_PROFILE": '"green"',
            "SVC_TELEMETRY__METRICS_LISTEN": '"[::1]:9100"',
            "SVC_ENDPOINTS__PROXY": '["a:1", "b:2"]',
            "HOME": "/root",
        }
        found = read_settings('profile = "blue"', "client", environ)
        self.assertEqual(found.profile, "green")
        self.assertEqual(str(found.telemetry.metrics_listen), "[::1]:9100")
        self.assertEqual(found.endpoints.proxy, (Address("a", 1), Address("b", 2)))

    def test_pin_forms(self) -> None:
        """The pin may carry its prefix and capitals; it is kept as plain digits."""
        pin = "AB" * 32
        found = read_settings(f'join.ca_pin = "sha256:{pin}"', "client")
        self.assertEqual(found.join.ca_pin, pin.lower())

    def test_store_url_hides_its_rest(self) -> None:
        """A store's URL never shows more than its scheme."""
        found = read_settings(GOOD["authority"], "authority")
        self.assertNotIn("/tmp/none/s.db", repr(found))
        self.assertEqual(found.store_url.rest if found.store_url else "", "/tmp/none/s.db")

    def test_loopback(self) -> None:
        """An address knows whether only this machine can reach it."""
        for host, loopback in (
            ("127.0.0.9", True),
            ("::1", True),
            ("localhost", True),
            ("0.0.0.0", False),
            ("example.org", False),
        ):
            self.assertEqual(Address(host, 1).is_loopback, loopback)

    @proves("G-OPEN-54")
    def test_collector_path(self) -> None:
        """The traces' path is added unless it is there."""
        for written in ("http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"):
            self.assertEqual(parse_otel_endpoint(written), "http://c:4318/v1/traces")
        self.assertEqual(parse_otel_endpoint("https://c/x/"), "https://c/x/v1/traces")

    @given(st.text(max_size=40))
    @settings(deadline=None)
    def test_addresses_are_parsed_or_refused(self, text: str) -> None:
        """Any text is an address that reads back the same, or a refusal; nothing else."""
        try:
            found = parse_address(text)
        except ValueError:
            return
        self.assertEqual(parse_address(str(found)), found)

    @given(st.text(max_size=60))
    @settings(deadline=None)
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        """Whatever a file holds, the answer is settings or a refusal."""
        try:
            read_settings(text, "client")
        except ConfigError as error:
            self.assertTrue(error.text)


class FileTests(SynchronousTestCase):
    """Only a plain file that nobody else may change is read."""

    def setUp(self) -> None:
        self.path = os.path.abspath(self.mktemp())

    def write(self, data: bytes = b"", mode: int = 0o600) -> None:
        """Write the configuration."""
        Path(self.path).write_bytes(data)
        os.chmod(self.path, mode)

    def refusal(self) -> str:
        """The refusal to load it."""
        error = self.assertRaises(ConfigError, load_settings, self.path, "client", {})
        return str(error)

    def test_reads_a_file(self) -> None:
        """A plain file is read, and the settings say which it was."""
        self.write(b'profile = "a"')
        self.assertEqual(load_settings(self.path, "client", {}).path, self.path)

    @proves("G-CFG-01")
    def test_missing(self) -> None:
        """A file that is not there is told by its path."""
        self.assertEqual(self.refusal(), f"{self.path}: cannot be read: no such file or directory")

    def test_owned_by_another_user(self) -> None:
        """A file of another user is refused, to root as well, and the text says who may use it."""
        if os.geteuid() != 0:
            raise SkipTest("only root can give a file away")
        self.write()
        os.chown(self.path, 65_534, -1)
        told = self.refusal()
        owner = pwd.getpwuid(65_534).pw_name
        self.assertIn(
            f"is owned by {owner}; root reads only files that no other user can change", told
        )
        self.assertIn(f"run this as {owner}", told)

    def test_writable_by_others(self) -> None:
        """A file that other users may write is refused."""
        self.write(mode=0o606)
        self.assertIn("other users can write", self.refusal())

    def test_not_a_file(self) -> None:
        """A directory, a pipe and a symbolic link are refused without being read."""
        os.mkfifo(self.path)
        self.assertIn("is not a regular file", self.refusal())
        os.remove(self.path)
        os.mkdir(self.path)
        self.assertIn("is not a regular file", self.refusal())
        os.rmdir(self.path)
        os.symlink(__file__, self.path)
        self.assertIn("symbolic link", self.refusal())

    def test_size_and_encoding(self) -> None:
        """Too large, not UTF-8, or begun with a byte order mark: refused."""
        self.write(b"#" * ((1 << 20) + 1))
        self.assertIn("larger than 1 MiB", self.refusal())
        self.write(b'profile = "a"\nx = "\xff"')
        self.assertIn("line 2: is not UTF-8", self.refusal())
        self.write(b"\xef\xbb\xbf")
        self.assertIn("byte order mark", self.refusal())

    def test_mistakes_inside(self) -> None:
        """The mistakes of a file that can be read come all together."""
        self.write(b"a = 1\nb = 2")
        error = self.assertRaises(ConfigErrors, load_settings, self.path, "client", {})
        self.assertEqual([each.where for each in error.errors], ["a", "b"])
