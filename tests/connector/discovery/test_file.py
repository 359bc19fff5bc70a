"""The source `file`: a list that another program writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.connector.sources.file import MAX_BYTES
from svc.errors import ConfigError, SvcError
from svc.interfaces.discovery import FoundResource
from svc.model.cluster.scope import MAX_PUBLISHED
from svc.testing.contracts.source import FIRST, PATH, SourceContract
from tests.support.proof import proves

CANARY = "hunter2canary"


class FileContractTests(SourceContract, SynchronousTestCase):
    """JSON, as the contract wants it."""

    word = "file"
    suffix = "json"

    def setUp(self) -> None:
        self.path = Path(os.path.abspath(self.mktemp())).with_suffix(f".{self.suffix}")

    def table(self) -> Mapping[str, object]:
        return {"path": str(self.path)}

    def offer(self, resources: Sequence[FoundResource]) -> None:
        entries = [
            {"id": one.id, "kind": one.kind, **one.table, "labels": dict(one.labels)}
            for one in resources
        ]
        self.path.write_text(json.dumps({"resources": entries}), "utf-8")

    def spoil(self) -> None:
        self.path.write_bytes(b"{")


class TomlContractTests(FileContractTests):
    """TOML."""

    suffix = "toml"

    def offer(self, resources: Sequence[FoundResource]) -> None:
        text = "resources = []\n" if not resources else ""
        for one in resources:
            text += f'[[resources]]\nid = "{one.id}"\nkind = "{one.kind}"\n'
            text += f'address = "{one.table["address"]}"\n'
            text += "".join(f'labels.{name} = "{value}"\n' for name, value in one.labels.items())
        self.path.write_text(text, "utf-8")


class FileTests(FileContractTests):
    """What only a file can do wrong."""

    def refusal(self) -> str:
        """Why the file is not taken."""
        failed = self.failureResultOf(Deferred.fromCoroutine(self.opened().find()))
        assert isinstance(failed.value, SvcError)
        self.assertIn(str(self.path), failed.value.text)
        return failed.value.text

    def test_no_file(self) -> None:
        """A file that is not there, is none, or that everybody may write, is refused."""
        self.assertIn("No such file", self.refusal())
        self.offer([FIRST])
        self.path.chmod(0o666)
        self.assertIn(f"chmod o-w {self.path}", self.refusal())
        self.path.unlink()
        os.mkfifo(self.path)
        self.assertIn("not a regular file", self.refusal())

    def test_too_much(self) -> None:
        """A file too long, or with too many resources, is refused before it is parsed."""
        self.path.write_bytes(b" " * (MAX_BYTES + 1))
        self.assertIn("longer than 1 MiB", self.refusal())
        self.path.write_text(json.dumps({"resources": [{}] * (MAX_PUBLISHED + 1)}), "utf-8")
        self.assertIn(f"more than {MAX_PUBLISHED}", self.refusal())
        self.path.write_text("[" * 100_000, "utf-8")
        self.assertIn("is not JSON", self.refusal())

    @proves("X-39")
    def test_what_does_not_parse(self) -> None:
        """A list with a mistake in it is refused by its line, and nothing of the text is told."""
        good = '[[resources]]\nid = "a"\n'
        for suffix, text, said in (
            ("toml", f"{good}{CANARY}", "is not TOML"),
            ("toml", f'{good}labels.{CANARY} = "a"\nlabels.{CANARY} = "b"\n', "is not TOML"),
            ("toml", f'{good}labels = {{"{CANARY}" = 1, "{CANARY}" = 2}}\n', "line 3: is not TOML"),
            ("toml", f'{good}kind = "{CANARY}\n', "line 3: is not TOML"),
            ("json", f'{{"resources":\n [{CANARY}]}}', "line 2: is not JSON"),
            ("json", f'{{"{CANARY}\n', "line 1: is not JSON"),
        ):
            self.path = self.path.with_suffix(f".{suffix}")
            self.path.write_text(text, "utf-8")
            refusal = self.refusal()
            self.assertIn(said, refusal)
            self.assertNotIn(CANARY, refusal)

    def test_no_list(self) -> None:
        """What is no list of resources is refused, and the entry is named."""
        good = {"id": "a", "kind": "tcp", "address": "h:1"}
        for content, said in (
            ([], "must hold a list `resources`"),
            ({"resources": {}}, "must hold a list `resources`"),
            ({"resources": [], "more": 1}, "and nothing else"),
            ({"resources": [good, 7]}, "resources[1]: must be a table"),
            ({"resources": [{**good, "kind": 7}]}, "resources[0]: kind is required"),
            ({"resources": [{**good, "labels": {"a": 1}}]}, "labels must be a table of strings"),
            ({"resources": [{**good, "onward_auth": ["x"]}]}, "onward_auth must be a string"),
        ):
            self.path.write_text(json.dumps(content), "utf-8")
            self.assertIn(said, self.refusal())

    def test_paths(self) -> None:
        """The path is absolute, and says what is in the file."""
        for table, said in (
            ({}, f"{PATH}.path: required"),
            ({"path": "found.json"}, "absolute path"),
            ({"path": "/found.yaml"}, "must end in .toml or .json"),
        ):
            with self.assertRaises(ConfigError) as refused:
                self.source.open(table, PATH, None)
            self.assertIn(said, str(refused.exception))
