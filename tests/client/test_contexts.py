"""Which client configurations there are, and which one is used."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.cli.directory import new_identity_directory
from svc.client import contexts
from svc.client.contexts import ClientContext, NoSuchContext, discover, named, select
from svc.client.own_options import options_elsewhere
from svc.client.places import SYSTEM_CONFIG, chosen, config_path, selected, selection_file
from svc.compose.person import find_config
from svc.errors import ConfigError
from svc.join.person import prepare
from tests.support.proof import proves


class ContextCase(SynchronousTestCase):
    """With a home of its own."""

    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="svc-contexts-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.environ = {"HOME": str(self.home)}
        self.own = self.home / ".svc"

    def make(self, name: str) -> str:
        """A configuration below ``~/.svc``; its path."""
        path = self.own / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch()
        return str(path)

    def names(self, given: str | None = None) -> dict[str, str]:
        """Each context's name, and the rule that chose it."""
        found = discover(given, self.environ)
        return {one.name: one.rule for one in found if one.path != SYSTEM_CONFIG}

    def use(self, name: str) -> None:
        select(named(discover(None, self.environ), name), self.environ)


class OrderTests(ContextCase):
    """Which one commands read."""

    @proves("G-OPEN-64")
    def test_matrix(self) -> None:
        """--config, SVC_CONFIG, the selected one, client.toml, the only other one."""
        default, work = self.make("client.toml"), self.make("work/client.toml")
        only = self.make("lab.toml")
        self.use("work")
        variable = {**self.environ, "SVC_CONFIG": "/b"}
        self.assertEqual(chosen("/a", variable), ("/a", "--config"))
        self.assertEqual(chosen(None, variable), ("/b", "SVC_CONFIG"))
        self.assertEqual(chosen(None, self.environ), (work, "selected"))
        os.unlink(selection_file(self.environ))
        self.assertEqual(chosen(None, self.environ), (default, "own"))
        os.unlink(default)
        self.assertEqual(chosen(None, self.environ), (only, "own"))

    def test_several_others(self) -> None:
        """Without client.toml, none of several others is guessed."""
        self.make("a.toml"), self.make("b.toml")
        self.assertNotIn(config_path(None, self.environ), (str(self.own / "a.toml"),))
        self.assertNotIn(config_path(None, self.environ), (str(self.own / "b.toml"),))

    def test_gone(self) -> None:
        """A selected configuration that is gone is told; no other identity is used instead."""
        self.make("client.toml")
        work = self.make("work/client.toml")
        self.use("work")
        os.unlink(work)
        refusal = self.assertRaises(ConfigError, find_config, None, self.environ)
        self.assertIn("svc contexts use", refusal.text)
        self.assertIn(work, refusal.text)

    @given(st.binary(max_size=40))
    @settings(max_examples=50, deadline=None)
    def test_damaged_selection(self, data: bytes) -> None:
        """Whatever the file of the selection holds, no other configuration is used for it."""
        self.make("client.toml")
        path = Path(selection_file(self.environ))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        found = selected(self.environ)
        self.assertIsNotNone(found)
        assert found is not None
        self.assertTrue(os.path.isabs(found))
        self.assertEqual(chosen(None, self.environ), (found, "selected"))

    def test_selected_first(self) -> None:
        """What a selection makes is private, so that somebody may join there later."""
        before = os.umask(0o002)
        self.addCleanup(os.umask, before)
        config = self.home / "elsewhere.toml"
        config.touch()
        select(ClientContext("e", str(config)), self.environ)
        self.assertEqual(chosen(None, self.environ), (str(config), "selected"))
        self.assertEqual(prepare(self.own), self.own)

    def test_not_selectable(self) -> None:
        """A path that would not be read as it is written is refused."""
        for path in ("/a\nb", "/a\x1b[2J", "relative", "/" + "x" * 5000, "/\udcff"):
            self.assertRaises(ConfigError, select, ClientContext("x", path), self.environ)
            self.assertIsNone(selected(self.environ))

    def test_pipe(self) -> None:
        """A pipe in its place keeps no command waiting."""
        Path(selection_file(self.environ)).parent.mkdir(parents=True)
        os.mkfifo(selection_file(self.environ))
        self.assertEqual(selected(self.environ), selection_file(self.environ))


class DiscoveryTests(ContextCase):
    """Which there are."""

    @proves("G-CLI-22")
    def test_two(self) -> None:
        """Of two configurations both are listed, and the one that commands use is marked."""
        self.make("client.toml"), self.make("work/client.toml")
        self.assertEqual(self.names(), {"default": "own", "work": ""})
        self.use("work")
        self.assertEqual(self.names(), {"default": "", "work": "selected"})
        self.use("default")
        self.assertEqual(self.names(), {"default": "selected", "work": ""})

    def test_elsewhere(self) -> None:
        """One that lies elsewhere is listed under its path, while something names it."""
        self.make("client.toml")
        elsewhere = self.home / "other.toml"
        elsewhere.touch()
        self.assertEqual(self.names(str(elsewhere)), {"default": "", str(elsewhere): "--config"})
        select(named(discover(str(elsewhere), self.environ), str(elsewhere)), self.environ)
        self.assertEqual(self.names(), {"default": "", str(elsewhere): "selected"})

    def test_same_names(self) -> None:
        """A name stands for one configuration; the second one has its path for a name."""
        first, second = self.make("work.toml"), self.make("work/client.toml")
        third = self.make("system.toml")
        names = {one.name: one.path for one in discover(None, self.environ)}
        names.pop("system", None)
        self.assertEqual(set(names.values()), {first, second, third})
        self.assertEqual(len(names), 3)
        self.assertIn(third, names)
        self.assertRaises(NoSuchContext, self.use, "nosuch")

    def test_many_files(self) -> None:
        """However many files lie there, the person's own is listed."""
        self.patch(contexts, "MOST", 3)
        for count in range(20):
            self.make(f"a{count}.toml")
        self.make("client.toml")
        self.assertEqual(self.names()["default"], "own")

    def test_left_by_an_editor(self) -> None:
        """A hidden file is neither a configuration nor one too many."""
        only = self.make("lab.toml")
        self.make(".lab.toml")
        self.assertEqual(chosen(None, self.environ), (only, "own"))
        self.assertEqual(self.names(), {"lab": "own"})

    def test_nothing(self) -> None:
        """Without a home of svc there is nothing, and nothing is made."""
        self.assertEqual(self.names(), {})
        self.assertFalse(self.own.exists())


class OthersTests(ContextCase):
    """What else follows the selection."""

    def test_new_identity(self) -> None:
        """Where another one is selected, a new identity needs --dir: commands would not use it."""
        self.make("client.toml"), self.make("work/client.toml")
        self.assertEqual(new_identity_directory(None, self.environ), self.own)
        self.use("work")
        refusal = self.assertRaises(click.UsageError, new_identity_directory, None, self.environ)
        self.assertIn(f"--dir {self.own}", refusal.format_message())
        other = self.home / "x"
        self.assertEqual(new_identity_directory(other, self.environ), other)
        self.use("default")
        self.assertEqual(new_identity_directory(None, self.environ), self.own)

    def test_printed_commands(self) -> None:
        """A printed command names the configuration unless commands use it by themselves."""
        default, work = self.make("client.toml"), self.make("work/client.toml")
        self.use("work")
        self.assertEqual(options_elsewhere(work, self.environ), "")
        self.assertEqual(options_elsewhere(default, self.environ), f" --dir {self.own}")
