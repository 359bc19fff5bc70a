"""Drop-ins: only what is named is imported, and what is named must be right."""

from __future__ import annotations

import os
import sys
from hashlib import sha256

from twisted.trial.unittest import SynchronousTestCase
from zope.interface import Attribute, Interface

import svc
from svc.errors import PluginError
from svc.plugin import LoadedPlugin, load, plugin_folders

HEAD = """\
from zope.interface import implementer
from tests.test_plugin import IGreeter
"""
GOOD = (
    HEAD
    + """
@implementer(IGreeter)
class Greeter:
    name = "polite"
    def greet(self, whom):
        return "hello " + whom
greeter = Greeter()
"""
)


class IGreeter(Interface):
    """What the drop-ins of these tests provide."""

    name: str = Attribute("The operator's word.")

    def greet(whom: str) -> str:
        """Say hello."""


class PluginTests(SynchronousTestCase):
    """The loader, over folders of its own."""

    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        os.makedirs(self.folder, mode=0o755)
        before = set(sys.modules)
        self.addCleanup(lambda: [sys.modules.pop(name) for name in set(sys.modules) - before])

    def write(self, file: str, text: str = GOOD, folder: str | None = None) -> str:
        """Put a file into the folder of drop-ins."""
        path = os.path.join(folder or self.folder, file)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o644)
        return path

    def load(self, *names: str) -> tuple[LoadedPlugin, ...]:
        """Load greeters by these words."""
        return load(IGreeter, "greeter", names, [self.folder])

    def refusal(self, *names: str) -> str:
        """The text of the refusal to load these words."""
        return str(self.assertRaises(PluginError, self.load, *names))

    def test_loads_and_records(self) -> None:
        """A named drop-in is loaded; name, path and digest of the very bytes are recorded."""
        path = self.write("greeter_polite.py")
        (loaded,) = self.load("polite")
        self.assertEqual(loaded.provider.greet("you"), "hello you")  # type: ignore[attr-defined]
        self.assertEqual((loaded.record.name, loaded.record.path), ("polite", path))
        self.assertEqual(loaded.record.sha256, sha256(GOOD.encode()).hexdigest())

    def test_imports_only_what_is_named(self) -> None:
        """A drop-in that is installed but not named never runs, however broken."""
        self.write("greeter_polite.py")
        self.write("greeter_rude.py", "raise SystemExit('ran')")
        self.assertEqual(len(self.load("polite")), 1)

    def test_writes_and_reads_no_cache(self) -> None:
        """Neither byte code nor a drop-in cache is read or left behind."""
        self.write("greeter_polite.py")
        self.write("dropin.cache", "poison")
        self.load("polite")
        self.assertEqual(sorted(os.listdir(self.folder)), ["dropin.cache", "greeter_polite.py"])

    def test_found_twice(self) -> None:
        """The same word in two places is refused, and both are named."""
        other = os.path.abspath(self.mktemp())
        os.makedirs(other)
        first, second = (
            self.write("greeter_polite.py"),
            self.write("greeter_polite.py", GOOD, other),
        )
        error = self.assertRaises(
            PluginError, load, IGreeter, "greeter", ["polite"], [self.folder, other]
        )
        self.assertIn("found twice", error.text)
        self.assertIn(first, error.text)
        self.assertIn(second, error.text)

    def test_missing_names_the_nearest(self) -> None:
        """A misspelled word is refused with the nearest one that is installed."""
        self.write("greeter_polite.py")
        self.assertEqual(
            self.refusal("polit"), "greeter polit: no such drop-in; did you mean polite?"
        )
        self.assertIn("installed: polite", self.refusal("zzz"))

    def test_words(self) -> None:
        """A word that could leave the folder is not a word."""
        for word in ("../polite", "", "Polite", "a.b", "a" * 41, "x\n"):
            with self.subTest(word=word):
                self.assertIn("is not a valid drop-in name", self.refusal(word))

    def test_broken_import(self) -> None:
        """A drop-in that fails while it is imported stops the start with the cause."""
        self.write("greeter_polite.py", "1 / 0")
        self.assertIn("cannot be imported: ZeroDivisionError", self.refusal("polite"))
        self.assertNotIn("svc.plugins.greeter_polite", sys.modules)

    def test_wrong_interface(self) -> None:
        """A provider that lacks a method is refused before it serves anyone."""
        self.write("greeter_polite.py", GOOD.replace("def greet", "def shout"))
        self.assertIn("does not implement IGreeter", self.refusal("polite"))

    def test_none_or_two_providers(self) -> None:
        """A drop-in holds exactly one provider."""
        self.write("greeter_none.py", "x = 1")
        self.write("greeter_two.py", GOOD + "other = Greeter()\n")
        self.assertIn("found none", self.refusal("none"))
        self.assertIn("found 2", self.refusal("two"))

    def test_other_name(self) -> None:
        """A provider that calls itself otherwise than the operator does is refused."""
        self.write("greeter_kind.py")
        self.assertIn("has a different name", self.refusal("kind"))

    def test_writable_by_others(self) -> None:
        """A drop-in, or its folder, that another user may change is refused."""
        path = self.write("greeter_polite.py")
        os.chmod(path, 0o646)
        self.assertIn("other users can write", self.refusal("polite"))
        os.chmod(path, 0o644)
        os.chmod(self.folder, 0o757)
        self.assertIn("other users can write", self.refusal("polite"))
        os.chmod(self.folder, 0o755)
        self.assertEqual(len(self.load("polite")), 1)

    def test_symbolic_link(self) -> None:
        """A link stands for a file that was not looked at, and is refused."""
        os.symlink(self.write("real.py"), os.path.join(self.folder, "greeter_polite.py"))
        self.assertIn("is not a regular file", self.refusal("polite"))

    def test_working_directory_is_no_source(self) -> None:
        """A drop-in in the working directory is not found, even with it on the path."""
        here = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(here, "svc", "plugins"))
        self.write("greeter_polite.py", GOOD, os.path.join(here, "svc", "plugins"))
        before, path = os.getcwd(), list(sys.path)
        self.addCleanup(os.chdir, before)
        self.addCleanup(sys.path.__setitem__, slice(None), path)
        os.chdir(here)
        sys.path[:0] = ["", here]
        self.assertNotIn(os.path.join(here, "svc", "plugins"), plugin_folders())

    def test_own_folder_comes_first(self) -> None:
        """The drop-ins beside svc itself are found without being installed."""
        own = os.path.join(os.path.dirname(os.path.realpath(svc.__file__)), "plugins")
        self.assertEqual(plugin_folders()[0], own)
