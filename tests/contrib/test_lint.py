"""Each of our own lints finds what it is for, and lets the house's way pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.trial.unittest import SynchronousTestCase

from contrib.lint.classes import class_names, docstrings, positional
from contrib.lint.habits import (
    assembly,
    cancellations,
    errors,
    log_lines,
    names,
    renames,
    sentences,
    standard_words,
)
from contrib.lint.imports import imports
from contrib.lint.sizes import (
    FILE_CAP,
    FOLDER_CAP,
    FUNCTION_CAP,
    IMPORT_CAP,
    LOOKED_AT,
    shelves,
    sizes,
)
from contrib.lint.source import Finding, Source
from contrib.lint.words import words

Rule = Callable[[Source], Iterable[Finding]]
TreeRule = Callable[[list[Source]], Iterable[Finding]]


class LintCase(SynchronousTestCase):
    """Run one rule over made-up text."""

    def found(self, rule: Rule, text: str, path: str = "svc/room/thing.py") -> list[str]:
        """Return what ``rule`` says of ``text`` at ``path``."""
        return [one.text for one in rule(Source.parse(path, text))]

    def assert_found(self, rule: Rule, text: str, path: str = "svc/room/thing.py") -> None:
        """Fail unless the rule has exactly one finding."""
        self.assertEqual(len(self.found(rule, text, path)), 1, text)

    def assert_clean(self, rule: Rule, text: str, path: str = "svc/room/thing.py") -> None:
        """Fail if the rule has a finding."""
        self.assertEqual(self.found(rule, text, path), [], text)


class SizeTests(LintCase):
    """Caps on files and functions."""

    def test_file_cap(self) -> None:
        """A file of the cap's length passes, one line more does not."""
        self.assert_clean(sizes, "x = 1\n" * FILE_CAP)
        self.assert_found(sizes, "x = 1\n" * (FILE_CAP + 1))

    def test_function_cap(self) -> None:
        """A function of the cap's length passes, one line more does not."""
        body = "    x = 1\n"
        self.assert_clean(sizes, "def f():\n" + body * (FUNCTION_CAP - 1))
        self.assert_found(sizes, "def f():\n" + body * FUNCTION_CAP)

    def test_shelves(self) -> None:
        """A folder of many modules is divided, or its face says why it is one shelf."""

        def found(face: str, modules: int) -> list[str]:
            sources = [Source.parse(f"svc/room/m{n}.py", "x = 1\n") for n in range(modules)]
            sources.append(Source.parse("svc/room/__init__.py", f'"""{face}"""\n'))
            return [one.path for one in shelves(sources)]

        self.assertEqual(found("A room.", FOLDER_CAP), [])
        self.assertEqual(found("A room.", FOLDER_CAP + 1), ["svc/room/__init__.py"])
        self.assertEqual(found("A room; it is one\nshelf of parts.", FOLDER_CAP + 1), [])

    def test_import_cap(self) -> None:
        """As many modules of ours as the cap pass, wherever they are imported; others are free."""
        ours = "".join(f"from svc.a{n} import b, c\n" for n in range(IMPORT_CAP))
        self.assert_clean(sizes, ours + "from svc.a1 import d\nimport os, attrs\n")
        self.assert_found(sizes, ours + "def f():\n    import svc.more\n")

    def test_lines_of_code(self) -> None:
        """Blank lines, comments, docstrings and imports do not count."""
        quiet = '"""M.\n\nMore."""\nimport os\nfrom a import (\n    b,\n)\n\n# c\n'
        self.assert_clean(sizes, quiet + "x = 1\n" * FILE_CAP)
        text = 'def f():\n    """Say.\n\n    More.\n    """\n\n    # c\n'
        self.assert_clean(sizes, text + "    x = 1\n" * (FUNCTION_CAP - 1))
        self.assert_found(sizes, text + "    x = 1\n" * FUNCTION_CAP)

    def test_what_was_looked_at(self) -> None:
        """What stands in the list may be long; nothing else beside it may."""
        (place, *_) = (each for each in LOOKED_AT if each.endswith(".py:service"))
        path, _, name = place.partition(":")
        text = f"def {name}():\n" + "    x = 1\n" * FUNCTION_CAP
        self.assert_clean(sizes, text, path)
        self.assert_found(sizes, text.replace(name, "other"), path)

    def test_nested_functions_count_for_themselves(self) -> None:
        """A builder of many small functions is not a long function."""
        inner = "    def g():\n" + "        x = 1\n" * 30
        self.assert_clean(sizes, "def f():\n" + inner * 2)


class ImportTests(LintCase):
    """What may be imported where."""

    def test_banned_everywhere(self) -> None:
        """Mocks, inlineCallbacks, asyncio and real sleeps are refused in every form."""
        for line in (
            "from unittest import mock",
            "import unittest.mock",
            "from unittest.mock import patch",
            "from twisted.internet.defer import inlineCallbacks",
            "import asyncio",
            "from time import sleep",
            "import time\ntime.sleep(1)",
        ):
            self.assert_found(imports, line, "tests/test_x.py")

    def test_a_peer_lives_as_it_must(self) -> None:
        """The bench's program of grpc.aio runs on asyncio; what measures it does not."""
        self.assert_clean(imports, "import asyncio", "contrib/bench/grpc_ends.py")
        self.assert_found(imports, "import asyncio", "contrib/bench/calls.py")
        self.assert_found(imports, "from unittest import mock", "contrib/bench/grpc_ends.py")

    def test_reactor(self) -> None:
        """The reactor is imported at the top of the house only."""
        line = "from twisted.internet import reactor"
        self.assert_found(imports, line)
        self.assert_clean(imports, line, "svc/tap.py")
        self.assert_clean(imports, line, "svc/cli/run.py")

    def test_time_and_randomness_are_passed_in(self) -> None:
        """A room takes its clocks and its randomness from whoever composes it."""
        for line in (
            "import time\nx = time.time()",
            "import os\nx = os.urandom(3)",
            "import secrets",
            "from datetime import datetime\nx = datetime.now()",
            "import datetime\nx = datetime.datetime.now()",
        ):
            self.assert_found(imports, line)
            self.assert_clean(imports, line, "svc/compose/shared.py")

    def test_libraries_have_homes(self) -> None:
        """SQL is imported in the store and Cedar in the policy room, nowhere else."""
        self.assert_found(imports, "import sqlite3")
        self.assert_clean(imports, "import sqlite3", "svc/store/sqlite/store.py")
        self.assert_found(imports, "import cedarpy", "svc/store/sqlite/store.py")

    def test_drop_ins_do_not_reach_up(self) -> None:
        """A drop-in imports no floor above its own."""
        self.assert_found(imports, "from svc import compose", "svc/plugins/kind_x.py")
        self.assert_clean(imports, "from svc.kinds import tcp", "svc/plugins/kind_x.py")


class HabitTests(LintCase):
    """Names, errors, log lines, sentences."""

    def test_names(self) -> None:
        """A name made of an empty word is refused, a longer word around it is not."""
        for line in ("class TunnelManager: ...", "def get_helper(): ...", "class IHandler: ..."):
            self.assert_found(names, line)
        self.assert_clean(names, "class Handlebar: ...\ndef manage(): ...")
        self.assert_found(names, "", "svc/room/utils.py")

    def test_standard_words(self) -> None:
        """A name in svc uses the field's word, however it is written; tests may use any."""
        for line in (
            "PATIENCE_SECS = 4.0",
            "class ReplayDesk: ...",
            "def f(tally): ...",
            "self._picture = 1",
        ):
            self.assert_found(standard_words, line)
            self.assert_clean(standard_words, line, "tests/room/test_thing.py")
        self.assert_clean(standard_words, "ANSWER_TIMEOUT_SECS = 4.0\ndesktop = 1")
        self.assert_found(standard_words, "", "svc/room/wish.py")

    def test_errors_do_not_vanish(self) -> None:
        """A wide except clause logs the error, hands it on or raises again."""
        self.assert_found(errors, "try:\n    f()\nexcept:\n    raise")
        self.assert_found(errors, "try:\n    f()\nexcept Exception:\n    pass")
        self.assert_found(errors, "try:\n    f()\nexcept (ValueError, Exception):\n    x = 1")
        self.assert_clean(errors, "try:\n    f()\nexcept Exception:\n    log.failure('no')")
        self.assert_found(errors, "try:\n    f()\nexcept Exception as error:\n    x = 1")
        self.assert_clean(errors, "try:\n    f()\nexcept Exception as error:\n    x = error")
        self.assert_clean(errors, "try:\n    f()\nexcept ValueError:\n    pass")

    def test_a_stop_is_no_failure(self) -> None:
        """A wait that is cancelled is let through, unless it is asked for or raised again."""
        wait = (
            "async def f():\n    try:\n        await g()\n    except Exception as e:\n        {}\n"
        )
        self.assert_found(cancellations, wait.format("log.failure('no')"))
        self.assert_clean(cancellations, wait.format("raise"))
        self.assert_clean(cancellations, wait.format("log.failure('no')"), "tests/test_x.py")
        for stop in ("CancelledError", "(OSError, defer.CancelledError)"):
            text = wait.format("log.failure('no')")
            passed = f"    except {stop}:\n        raise\n    except Exception"
            self.assert_clean(cancellations, text.replace("    except Exception", passed))
        self.assert_clean(cancellations, wait.format("log.failure('no')").replace("await ", ""))

    def test_files_are_moved_durably(self) -> None:
        """A rename of one's own is refused in every form; text may be replaced."""
        for line in ("os.replace(a, b)", "a.rename(b)", "path.replace(b)", "os.rename(a, b)"):
            self.assert_found(renames, line)
            self.assert_clean(renames, line, "svc/runtime/durable.py")
        self.assert_clean(renames, "text.replace('a', 'b')")

    def test_no_stubs(self) -> None:
        """A function that only promises is refused."""
        self.assert_found(errors, "def f():\n    raise NotImplementedError")

    def test_log_lines_are_constant(self) -> None:
        """A log message is a sentence; its data are fields."""
        self.assert_found(log_lines, "log.info(f'node {x}')")
        self.assert_found(log_lines, "self._log.warn('a' + b)")
        self.assert_clean(log_lines, "log.info('node registered', node=x)")

    def test_tests_have_sentences(self) -> None:
        """A test without its sentence is refused."""
        bare = '"""M."""\ndef test_x(): ...'
        self.assert_found(sentences, bare, "tests/test_x.py")
        self.assert_clean(sentences, bare, "svc/x.py")


class ClassTests(SynchronousTestCase):
    """What is looked at across the whole tree."""

    def found(self, rule: TreeRule, **texts: str) -> list[str]:
        """The lines of what ``rule`` finds in modules of ``svc``."""
        made = [Source.parse(f"svc/{name}.py", text) for name, text in texts.items()]
        return [f"{one.path}:{one.line}" for one in rule(made)]

    def test_a_name_once(self) -> None:
        """A second class of a name is found, in whatever room."""
        self.assertEqual(self.found(class_names, a="class X: ...", b="class Y: ..."), [])
        self.assertEqual(
            self.found(class_names, a="class X: ...", b="\nclass X: ..."), ["svc/b.py:2"]
        )

    def test_many_arguments_are_named(self) -> None:
        """Three may go by position; a class of others, and any number of one sort, may too."""
        text = "class X: ...\nclass Y:\n    def __init__(self, *names): ...\n"
        for call, is_found in (
            ("X(1, 2, 3)", False),
            ("X(1, 2, 3, 4)", True),
            ("m.X(1, 2, 3, 4)", True),
            ("X(1, 2, 3, d=4)", False),
            ("X(*many)", False),
            ("Y(1, 2, 3, 4)", False),
            ("Theirs(1, 2, 3, 4)", False),
        ):
            with self.subTest(call=call):
                self.assertEqual(bool(self.found(positional, a=text + call)), is_found)

    def test_a_method_says_what_it_is_for(self) -> None:
        """Or its interface does, or the class above it; Twisted's methods are Twisted's."""
        bare = "class X:\n    def f(self): ..."
        self.assertEqual(self.found(docstrings, a=bare), ["svc/a.py:2"])
        above = 'class IX(Interface):\n    def f():\n        """Do it."""\n'
        implemented = "@implementer(IX)\n" + bare
        self.assertEqual(self.found(docstrings, i=above, a=implemented), [])
        self.assertEqual(
            self.found(docstrings, i=above, a=implemented.replace("def f", "def g")),
            ["svc/a.py:3"],
        )
        self.assertEqual(self.found(docstrings, a=bare.replace(" f(", " connectionMade(")), [])


class WordTests(SynchronousTestCase):
    """Words no committed file may hold."""

    def test_machine_paths(self) -> None:
        """A path of the machine it was written on is found, a like-sounding one is not."""
        for bad in ("see /" + "work/main", "cd /" + "root/x", "https://" + "pypi" + ".org/simple"):
            self.assertEqual(len(list(words("a.md", bad))), 1, bad)
        for good in ("network/main", "a/root/x", "make/work"):
            self.assertEqual(list(words("a.md", good)), [], good)


class AssemblyTests(LintCase):
    """How objects are wired."""

    def test_set_afterwards(self) -> None:
        """What is set on an object that was made is found, alone and among others."""
        for text in ("link.told = told", "a, link.told = 1, told", "p.store.watch: object = watch"):
            self.assert_found(assembly, text, "svc/compose/role.py")

    def test_its_own(self) -> None:
        """An object sets what is its own; Twisted's switches have no constructor."""
        for text in ("self.told = told", "told = 1", "port.numberAccepts = 1"):
            self.assert_clean(assembly, text, "svc/compose/role.py")
        self.assert_clean(assembly, "link.told = told", "svc/proxy/link.py")
