"""Which changes of the schema older roles would misread."""

from __future__ import annotations

import os
import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from contrib.proto import PROTOS
from contrib.schema_changes import SCHEMA, findings, main, schema
from svc.proto.gate.v1 import tunnel_pb2
from tests.support.proof import proves

BEFORE = """\
syntax = "proto3";
package t;
message A { string a = 1; repeated string b = 2; reserved 3; message Inner { bytes c = 1; } }
enum E { NONE = 0; ONE = 1; }
service S { rpc Get(A) returns (A); }
"""
FORBIDDEN = {
    " string a = 1;": ("", "t.A.a: is gone, and its number 1 not reserved"),
    "string a = 1;": ("bytes a = 1;", "t.A.a: number 1 has another type now"),
    "string a": ("string renamed", "t.A.a: number 1 is renamed now"),
    "repeated string b": ("string b", "t.A.b: number 2 has another type now"),
    "reserved 3;": ("string d = 3;", "t.A.d: uses the reserved number 3 again"),
    "message Inner { bytes c = 1; }": ("", "t.A.Inner: is gone"),
    "ONE = 1": ("TWO = 1", "t.E.ONE: number 1 is TWO now"),
    "enum E { NONE = 0; ONE = 1; }": ("", "t.E: is gone"),
    "rpc Get(A) returns (A);": ("", "t.S/Get: is gone"),
    "returns (A)": ("returns (stream A)", "t.S/Get: takes or answers another"),
}
"""What is replaced by what, and what is said of it."""

ALLOWED = {
    "reserved 3;": "reserved 3; string d = 4;",
    " string a = 1;": " reserved 1; string a2 = 5;",
    "ONE = 1;": "ONE = 1; TWO = 2;",
    "rpc Get": "rpc Put(A) returns (A); rpc Get",
    "enum E": "message B {} enum E",
}


class SchemaTests(SynchronousTestCase):
    """A tag, and what came after it."""

    def setUp(self) -> None:
        self.root = Path(os.path.abspath(self.mktemp()))
        (self.root / SCHEMA).mkdir(parents=True)
        self.file = self.root / SCHEMA / "t.proto"
        self.file.write_text(BEFORE)

    def git(self, *words: str) -> None:
        """In a repository of the test's own."""
        own = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *own, *words], cwd=self.root, check=True, capture_output=True)

    def changed(self, old: str, new: str) -> list[str]:
        """What is said of one change."""
        before = schema(self.root)
        self.file.write_text(BEFORE.replace(old, new))
        try:
            return list(findings(before, schema(self.root)))
        finally:
            self.file.write_text(BEFORE)

    @proves("U-OPEN-22")
    def test_forbidden(self) -> None:
        """What is removed, reused or of another type is named."""
        for old, (new, said) in FORBIDDEN.items():
            self.assertIn(old, BEFORE)
            self.assertEqual(self.changed(old, new), [said], old)

    @proves("U-OPEN-22")
    def test_allowed(self) -> None:
        """What is added, or given up with its number reserved, is not."""
        for old, new in ALLOWED.items():
            self.assertIn(old, BEFORE)
            self.assertEqual(self.changed(old, new), [], old)

    @proves("U-OPEN-22")
    def test_tag(self) -> None:
        """The newest tag is compared with; where there is none, nothing is said."""
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("commit", "-m", "first")
        self.assertEqual(main(self.root), 0)
        self.git("tag", "v0.1.0")
        self.assertEqual(main(self.root), 0)
        self.file.write_text(BEFORE.replace("string a", "bytes a"))
        with redirect_stdout(StringIO()) as out:
            self.assertEqual(main(self.root), 1)
        self.assertIn("t.A.a: number 1 has another type now", out.getvalue())

    @proves("U-OPEN-22")
    def test_ours(self) -> None:
        """Ours is proto3, and a registration says the version and what the Connector can do."""
        root = Path(__file__).resolve().parents[2]
        ours = schema(root)
        self.assertEqual({file.syntax for file in ours.file}, {"proto3"})
        self.assertEqual(len(ours.file), len(list((root / PROTOS[0]).glob("*.proto"))))
        fields = tunnel_pb2.Registration.DESCRIPTOR.fields_by_name
        self.assertLessEqual({"version", "capabilities"}, set(fields))
