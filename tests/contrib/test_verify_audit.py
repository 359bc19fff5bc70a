"""The auditor's own verifier: one file, none of our modules, and nothing gets past it."""

from __future__ import annotations

import ast
import io
import json
import os
import runpy
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from random import Random
from typing import Any

from attrs import evolve
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.trial.unittest import SynchronousTestCase

from contrib import verify_audit
from svc.audit.checkpoint.head import AnchorKey, to_line
from svc.audit.log.covered import covered_row, entries, prove_consistency, prove_inclusion
from svc.audit.log.export import (
    consistency,
    entry_inclusion,
    head_line,
    inclusion,
    json_line,
    json_lines,
)
from svc.audit.log.record import Sealer, seal
from svc.audit.log.verify import ChainFault
from svc.audit.spool.entry.forms import seal_request
from svc.model.audit import events
from svc.model.audit.batch import VALUES
from svc.model.audit.ledger import GENESIS
from svc.model.audit.record import Actor, AuditRecord, SealedRecord, SignedHead
from svc.model.audit.request import SessionNumbers
from svc.model.audit.spool import SpoolPlace, row_hash, row_signer
from svc.model.signing import Purpose
from svc.pki.root import ClusterKeys
from tests.audit.log.test_record import HOSTILE
from tests.audit.logs import FACTS, MemoryLog, heads_over, record, short_record
from tests.audit.spools import maker as row_maker
from tests.model.audit.test_batch import FACTS as REQUEST_FACTS
from tests.model.audit.test_batch import request
from tests.pki.support import World
from tests.support.proof import proves

RUN_BY = "make fault"

PROGRAM = Path(__file__).parents[2] / "contrib" / "verify_audit.py"
CLUSTER = "demo.example"
IS_LONG = os.environ.get("SVC_LONG") == "1"
ROWS = 24


def anchor_of(keys: ClusterKeys) -> AnchorKey:
    """The anchor key of a cluster."""
    signer = keys.signer(Purpose.AUDIT_HEAD)
    return AnchorKey(lambda data: signer(data).signature, signer(b"").chain)


def hostile_record(n: int) -> AuditRecord:
    """A record in which peers say what is meant to break a reader."""
    return AuditRecord(
        event_id=f"0197-{n}",
        time=1_763_733_600.5 + n,
        event=events.ENROLL_REFUSED,
        actor=Actor("anonymous", HOSTILE[n % len(HOSTILE)]),
        origin="a" * 26,
        reason='é \x7f \U0001f600 "\\',
        details={"source_address": "10.0.0.9"},
    )


def lines_of(data: bytes) -> list[bytes]:
    """The lines, each with its end."""
    return data.splitlines(keepends=True)


class VerifierCase(SynchronousTestCase):
    """A log, the key that signed its heads, and the program."""

    world = World(CLUSTER)
    anchor = anchor_of(world.keys)

    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir()
        self.program: Any = runpy.run_path(str(PROGRAM))
        self.log = self.filled(ROWS)

    def filled(self, count: int, drawn: int = 0) -> MemoryLog:
        """A log of its own with that many records."""
        log = MemoryLog(drawn=drawn)
        log.fill(count, short_record)
        return log

    def head(self, size: int = ROWS, log: MemoryLog | None = None, **more: Any) -> SignedHead:
        """The head over so many records."""
        rows = (self.log if log is None else log).log
        (found,) = heads_over(rows, size, **{"anchor": self.anchor, **more})
        return found

    def export(
        self, head: SignedHead | None = None, after: int = 0, log: MemoryLog | None = None
    ) -> bytes:
        """An export up to *head*, with personal values."""
        head, log = head or self.head(log=log), log or self.log
        lines = [json_line(entry) for entry in entries(log.entries, head, after)]
        return "".join(f"{line}\n" for line in [*lines, head_line(head)]).encode()

    def proof(self, seq: int, head: SignedHead | None = None) -> bytes:
        """A proof that record *seq* is in the log."""
        head = head or self.head()
        return inclusion(*prove_inclusion(self.log.bare, head, seq), head).encode() + b"\n"

    def growth(self, first: int, head: SignedHead, log: MemoryLog | None = None) -> bytes:
        """A proof that the first records begin the log under *head*."""
        found = prove_consistency((log or self.log).bare, head, first)
        return consistency(first, *found, head).encode() + b"\n"

    def file(self, name: str, data: bytes) -> str:
        """A file with that content."""
        path = self.base / name
        path.write_bytes(data)
        return str(path)

    def kept(self, name: str, head: SignedHead) -> str:
        """A head as an auditor keeps it."""
        return self.file(name, to_line(head, edge=True) + b"\n")

    def words(self, *arguments: str) -> list[str]:
        """The command line, with the key's fingerprint."""
        return ["--fingerprint", self.anchor.key_id, *arguments]

    def holds(self, *arguments: str) -> str:
        """What the program says of what it accepts; in this process."""
        said: list[str] = self.program["check"](self.program["options"](self.words(*arguments)))
        return "\n".join(said)

    def refusal(self, *arguments: str) -> str:
        """Why the program refuses; in this process."""
        return str(self.assertRaises(self.program["Refused"], self.holds, *arguments))

    def accepts(self, data: bytes, after: int = 0) -> bool:
        """Whether an export is accepted; in this process."""
        program, history = self.program, self.program["History"]()
        try:
            keys = program["Keys"]([], [self.anchor.key_id])
            program["read_export"](io.BytesIO(data), after, keys, history)
            history.check()
        except (program["Refused"], UnicodeEncodeError):
            return False
        return True

    def run_program(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        """The program as an auditor starts it: status, stdout, stderr."""
        done = subprocess.run(
            [sys.executable, "-I", str(PROGRAM), *arguments],
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
            cwd=self.base,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()


class ProcessTests(VerifierCase):
    """The program as a process."""

    def test_of_nothing_of_ours(self) -> None:
        """It imports the standard library and `cryptography` only."""
        names = set()
        for node in ast.walk(ast.parse(PROGRAM.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
        first = {name.split(".")[0] for name in names} - {"cryptography"}
        self.assertLessEqual(first, sys.stdlib_module_names)

    @proves("G-OPEN-12")
    def test_accepts(self) -> None:
        """It accepts an export by the key's fingerprint or certificate, as a file or on stdin."""
        data = self.export()
        pem = x509.load_der_x509_certificate(self.anchor.chain[0]).public_bytes(Encoding.PEM)
        for key in (("--fingerprint", self.anchor.key_id), ("--key", self.file("a.pem", pem))):
            for name, stdin in ((self.file("export", data), b""), ("-", data)):
                status, out, err = self.run_program(*key, name, stdin=stdin)
                self.assertEqual((status, err), (0, ""))
                self.assertIn(f"records 1 to {ROWS}, all as they were\n", out)
                self.assertIn(f"verified: log {CLUSTER}, {ROWS} records at 2025-11-21T14:", out)
                self.assertIn(self.anchor.key_id, out)

    def test_refuses(self) -> None:
        """What does not hold ends with status 1, nothing on stdout, and the line and the record."""
        lines = lines_of(self.export())
        swapped = b"".join([*lines[:6], lines[7], lines[6], *lines[8:]])
        status, out, err = self.run_program(*self.words("-"), stdin=swapped)
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(err, "REFUSED: line 7, record 7: the line is of 8\n")

    def test_key_comes_from_the_command_line(self) -> None:
        """An export that brings its own key is refused; without a key nothing is looked at."""
        stranger = anchor_of(World(CLUSTER).keys)
        data = self.export(self.head(anchor=stranger))
        status, out, err = self.run_program(*self.words("-"), stdin=data)
        self.assertEqual((status, out), (1, ""))
        self.assertIn(f"signed by {stranger.key_id}, a key that you did not name", err)
        status, out, err = self.run_program("-", stdin=data)
        self.assertEqual((status, out), (2, ""))
        self.assertIn("name the key", err)

    def test_usage(self) -> None:
        """A wrong command line and a file that is not there end with status 2."""
        for words in ((), ("--after", "-1", "-"), ("/nowhere/export",), ("--nonsense",)):
            status, out, err = self.run_program(*self.words(*words))
            self.assertEqual((status, out), (2, ""))
            self.assertNotIn("Traceback", err)


class ExportTests(VerifierCase):
    """Exports that are not what the log's keeper signed."""

    @proves("G-AUD-02", "G-OPEN-10")
    def test_every_bit(self) -> None:
        """One bit changed anywhere in an export is refused; in the short form, one of each byte."""
        self.log = MemoryLog()
        self.log.append(seal(hostile_record(0), self.log.entropy, FACTS))
        data = self.export(self.head(1))
        self.assertTrue(self.accepts(data))
        for at in range(len(data)):
            for bit in range(8) if IS_LONG else (at % 8,):
                changed = data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
                self.assertFalse(self.accepts(changed), (at, bit, changed[at - 20 : at + 20]))

    @proves("G-AUD-02")
    def test_sampled_bits_of_many(self) -> None:
        """The same of many records, at places drawn once for all."""
        self.log = MemoryLog()
        self.log.fill(400, record)
        data = self.export(self.head(400))
        self.assertTrue(self.accepts(data))
        for at in Random(7).sample(range(len(data)), 50):
            changed = bytearray(data)
            changed[at] ^= 1 << at % 8
            self.assertFalse(self.accepts(bytes(changed)), at)

    def test_hostile_text(self) -> None:
        """Whatever peers said, the export is lines of printable ASCII that verify."""
        self.log = MemoryLog()
        self.log.fill(2 * len(HOSTILE), hostile_record)
        data = self.export(self.head(len(self.log.log)))
        self.assertEqual(set(data) - set(range(0x20, 0x7F)), {0x0A})
        self.assertEqual(len(lines_of(data)), len(self.log.log) + 1)
        self.assertTrue(self.accepts(data))

    @proves("G-AUD-02")
    def test_in_parts(self) -> None:
        """An export of many parts, checked by several processes, is judged as one of one part."""
        lines = lines_of(self.export())
        changes = {
            "seq": (b'"seq":7,', b'"seq":8,'),
            "prev": (b'"prev_hash":"', b'"prev_hash":"0'),
            "text": (b'"origin":"a', b'"origin":"b'),
            "again": (b'"form":', b'"form": '),
        }
        for at in (0, 6, ROWS - 1, ROWS):
            for name, (old, new) in changes.items():
                changed = list(lines)
                changed[at] = changed[at].replace(old, new)
                said = []
                for part in (1 << 19, 1000, 5000):
                    self.patch(verify_audit, "PART", part)
                    said.append(self.judged(b"".join(changed)))
                self.assertEqual([said[0]] * 3, said, (at, name))
        self.assertEqual(self.judged(b"".join(lines)), "")

    def judged(self, data: bytes) -> str:
        """Why an export is refused, or nothing."""
        keys = verify_audit.Keys([], [self.anchor.key_id])
        try:
            verify_audit.read_export(io.BytesIO(data), 0, keys, verify_audit.History())
        except verify_audit.Refused as refused:
            return str(refused)
        return ""

    def test_lines_changed(self) -> None:
        """A line taken out, doubled, exchanged or put in is refused; so is a cut anywhere."""
        lines = lines_of(self.export())
        for at in range(len(lines)):
            before, line, after = lines[:at], lines[at], lines[at + 1 :]
            self.assertFalse(self.accepts(b"".join([*before, *after])), at)
            self.assertFalse(self.accepts(b"".join(before)), at)
            self.assertFalse(self.accepts(b"".join([*before, line[:-1]])), at)
            self.assertFalse(self.accepts(b"".join([*before, b"\n", line, *after])), at)
            if after:
                self.assertFalse(self.accepts(b"".join([*before, line, line, *after])), at)
                swapped = [*before, after[0], line, *after[1:]]
                self.assertFalse(self.accepts(b"".join(swapped)), at)

    def test_empty(self) -> None:
        """An export without a record proves nothing and is refused, with a head or without."""
        for data in (b"", b"\n", lines_of(self.export())[-1]):
            self.assertFalse(self.accepts(data))

    def test_rubbish(self) -> None:
        """Whatever is not an export is refused, not crashed upon."""
        good = lines_of(self.export())[0]
        for odd in (
            b"{}\n",
            b"[]\n",
            b"1\n",
            b'{"form":"svc-audit-export-v1"}\n',
            b"[" * 100_000 + b"\n",
            b'{"a":' * 5000 + b"\n",
            b"9" * 10_000 + b"\n",
            b"\xff\xfe{}\n",
            b'{"head":{}}\n',
            b'{"head":{},"signature":""}\n',
            b'{"chain":7,"head":{},"signature":""}\n',
            good.replace(b'"seq":1', b'"seq":true'),
            good.replace(b'"seq":1', b'"seq":1e0'),
            good.replace(b'"path":"', b'"path":"x.'),
            good.replace(b'"personal":[', b'"personal":[7,'),
            b'{"x":"' + b"a" * (1 << 22) + b'"}\n',
        ):
            self.assertNotEqual(odd, good)
            self.assertFalse(self.accepts(odd), odd[:60])
            self.assertFalse(self.accepts(good + odd), odd[:60])

    def test_grown_again_after_a_cut(self) -> None:
        """Records put in the place of those that were cut off do not meet the head."""
        other = MemoryLog(log=list(self.log.log[:9]), personal=dict(self.log.personal), drawn=9999)
        other.fill(ROWS - 9, short_record)
        lines = lines_of(self.export(self.head(log=other), log=other))
        genuine = lines_of(self.export())[-1]
        self.assertFalse(self.accepts(b"".join([*lines[:-1], genuine])))

    def test_pieces(self) -> None:
        """Exports that follow each other are one export; each verifies by itself, too."""
        heads = [self.head(size) for size in (5, 6, ROWS)]
        pieces = [self.export(head, after) for head, after in zip(heads, (0, 5, 6), strict=True)]
        self.assertTrue(self.accepts(b"".join(pieces)))
        for piece, after in zip(pieces, (0, 5, 6), strict=True):
            self.assertTrue(self.accepts(piece, after))
            self.assertFalse(self.accepts(piece, after + 1))
        self.assertFalse(self.accepts(pieces[0] + pieces[2]))
        self.assertFalse(self.accepts(pieces[1]))

    def signed(self) -> MemoryLog:
        """A log in which every third record is another origin's, signed by it."""
        log, keys = MemoryLog(), [Ed25519PrivateKey.generate() for _ in range(2)]
        for n in range(1, ROWS + 1):
            sealed = seal(short_record(n), log.entropy, FACTS)
            key = keys[n // 3 % 2]
            log.append(sealed, b"" if n % 3 else row_signer(key)(sealed.canonical))
        return log

    def test_records_of_other_origins(self) -> None:
        """A bit of an origin's signature or record, another's signature, none: all are refused."""
        log = self.signed()
        lines = [json.loads(line) for line in lines_of(self.export(log=log))]
        (path,) = [self.file("export", self.export(log=log))]
        self.assertNotIn("signatures", self.holds(path))
        at = [n for n, line in enumerate(lines) if "origin_signature" in line]
        self.assertEqual(len(at), ROWS // 3)
        for n, other in zip(at, [*at[1:], at[0]], strict=True):
            line = lines[n]
            raw = bytearray(b64decode(line["origin_signature"]))
            raw[n] ^= 1
            rest = {name: value for name, value in line.items() if name != "origin_signature"}
            for changed in (
                rest | {"origin_signature": b64encode(raw).decode()},
                rest | {"origin_signature": lines[other]["origin_signature"]},
                rest,
                line | {"reason": "x"},
                lines[n - 1] | {"origin_signature": line["origin_signature"]},
            ):
                place = n if changed["seq"] == line["seq"] else n - 1
                export = [*lines[:place], changed, *lines[place + 1 :]]
                data = "".join(f"{self.program['to_ascii'](each)}\n" for each in export)
                self.assertFalse(self.accepts(data.encode()), (n, changed))

    def test_a_signature_changed_in_the_store(self) -> None:
        """An export from the first record on ends in a fault where an origin's signature is not
        the one that was signed over; it writes no head.
        """
        log = self.signed()
        head = self.head(log=log)
        for signature in (b"", bytes(64), log.log[5].signature):
            odd = MemoryLog(log=list(log.log))
            odd.log[2] = evolve(odd.log[2], signature=signature)
            found = self.assertRaises(ChainFault, self.export, head, log=odd)
            self.assertEqual(found.kind, "head_mismatch")

    def test_origins_in_a_piece(self) -> None:
        """A piece shows nothing of origins' signatures, and the program says so; joined they do."""
        log = self.signed()
        head = self.head(9, log)
        pieces = [self.export(head, log=log), self.export(after=9, log=log)]
        self.assertIn("5 signatures", self.holds("--after", "9", self.file("piece", pieces[1])))
        self.assertNotIn("signatures", self.holds(self.file("joined", b"".join(pieces))))

    def test_personal_values(self) -> None:
        """Left out or erased they are no fault; one that is not the one hashed is refused."""
        data = self.export()
        bare = [json_line(each) for each in entries(self.log.bare, self.head())]
        self.assertNotIn("10.0.0.9", "".join(bare))
        text = "\n".join([*bare, head_line(self.head())]) + "\n"
        self.assertTrue(self.accepts(text.encode()))
        self.assertFalse(self.accepts(data.replace(b"10.0.0.9", b"10.0.0.8", 1)))

    def test_another_key(self) -> None:
        """A key that did not sign, or a certificate of another, is refused."""
        stranger = anchor_of(World(CLUSTER).keys)
        genuine = self.head()
        forged = evolve(genuine, signed=evolve(genuine.signed, signature=stranger.sign(b"")))
        self.assertFalse(self.accepts(self.export(forged)))
        certified = evolve(genuine, signed=evolve(genuine.signed, chain=stranger.chain))
        self.assertFalse(self.accepts(self.export(certified)))
        nothing = evolve(genuine, signed=evolve(genuine.signed, chain=()))
        self.assertFalse(self.accepts(self.export(nothing)))


class RequestTests(VerifierCase):
    """Batches of requests: each entry is checked, and each is proved by itself."""

    def setUp(self) -> None:
        super().setUp()
        maker, numbers = row_maker(), [SessionNumbers("1" * 32), SessionNumbers("2" * 32, 7)]
        maker.sealer = Sealer(self.log.entropy, REQUEST_FACTS)
        tip = GENESIS
        for n in (2, 3):
            sealed = [
                seal_request(request(numbers[at % 2], at), self.log.entropy, REQUEST_FACTS)
                for at in range(5)
            ]
            given = dict[SessionNumbers, int]()
            row = maker.batch(sealed, SpoolPlace("5" * 32, n, tip), given)
            for one, last in given.items():
                one.last = last
            tip = row_hash(row.canonical)
            self.log.append(SealedRecord(row.canonical, row.personal), row.signature)
        self.log.fill(2, short_record)
        self.size = ROWS + 4

    def lines(self) -> list[dict[str, Any]]:
        """An export, line by line."""
        head = self.head(self.size)
        found = entries(self.log.entries, head, requests=True)
        lines = [line for entry in found for line in json_lines(entry)]
        return [json.loads(line) for line in [*lines, head_line(head)]]

    def data(self, lines: list[dict[str, Any]]) -> bytes:
        """The lines as a file."""
        return "".join(f"{self.program['to_ascii'](each)}\n" for each in lines).encode()

    def entry_proof(self, index: int, *, personal: bool = True) -> dict[str, Any]:
        """A proof of one entry of the first batch."""
        head = self.head(self.size)
        _, hashes = prove_inclusion(self.log.bare, head, ROWS + 1)
        [(row, beside)] = self.log.entries(ROWS + 1, 1)
        if not personal:
            beside = tuple(evolve(one, value="[]") if one.path == VALUES else one for one in beside)
        found = covered_row(row, beside, requests=True)
        proof: dict[str, Any] = json.loads(entry_inclusion(found, index, hashes, head))
        return proof

    def test_export(self) -> None:
        """Entries follow the record of their batch; the whole is accepted, and nothing less."""
        lines = self.lines()
        self.assertEqual(sum(one.get("event") == "request.decision" for one in lines), 10)
        self.assertIn("all as they were", self.holds(self.file("good", self.data(lines))))
        first = next(at for at, one in enumerate(lines) if one.get("event") == "request.decision")
        for at in range(first, first + 5):
            self.assertFalse(self.accepts(self.data([*lines[:at], *lines[at + 1 :]])), at)
        swapped = [*lines]
        swapped[first], swapped[first + 2] = swapped[first + 2], swapped[first]
        self.assertFalse(self.accepts(self.data(swapped)))
        self.assertFalse(self.accepts(self.data([*lines[:first], lines[first], *lines[first:]])))
        for changed in (
            {"decision": "deny"},
            {"index": 1},
            {"seq": 1},
            {"event": "x"},
            {"header": lines[first + 1]["header"]},
            {"session_n": 2},
            {"personal": [{**lines[first]["personal"][0], "value": '"192.0.2.8"'}]},
        ):
            odd = [*lines[:first], {**lines[first], **changed}, *lines[first + 1 :]]
            self.assertFalse(self.accepts(self.data(odd)), changed)
        bare = [{name: one[name] for name in one if name != "personal"} for one in lines]
        self.assertTrue(self.accepts(self.data(bare)))

    def test_proofs(self) -> None:
        """Each entry is proved, by what says nothing of another; a proof is of its entry alone."""
        for index in range(5):
            form = self.entry_proof(index)
            text = self.data([form])
            said = self.holds("--proof", self.file("p", text))
            self.assertIn(f"request {index} of record {ROWS + 1}, 'redisRead' at", said)
            other = "2" * 32 if index % 2 == 0 else "1" * 32
            self.assertNotIn(other.encode(), text)
            self.assertNotIn(f"GET {index + 1}".encode(), text)
        self.assertNotIn(b"192.0.2.7", self.data([self.entry_proof(1, personal=False)]))
        forms = [self.entry_proof(index, personal=False) for index in (1, 3)]
        for name in ("entry", "entry_path", "index"):
            odd = self.data([{**forms[0], name: forms[1][name]}])
            self.assertIn("not request", self.refusal("--proof", self.file("odd", odd)))
        odd = self.data([{**forms[0], "header": self.entry_proof(0)["header"]}])
        self.assertIn("not the one committed to", self.refusal("--proof", self.file("odd", odd)))

    def test_every_bit_of_a_proof(self) -> None:
        """A proof of which any bit differs is refused."""
        good, random = self.data([self.entry_proof(2)]), Random(3)
        for _ in range(150):
            bits = bytearray(good)
            bit = random.randrange(8 * len(bits))
            bits[bit >> 3] ^= 1 << (bit & 7)
            with self.assertRaises((self.program["Refused"], UnicodeError)):
                self.holds("--proof", self.file("odd", bytes(bits)))


class HistoryTests(VerifierCase):
    """Proofs, kept heads, and two auditors."""

    def forked(self) -> MemoryLog:
        """Another history, told to somebody else: the same until record 9."""
        other = MemoryLog(log=list(self.log.log[:9]), personal=dict(self.log.personal), drawn=9999)
        other.fill(ROWS - 9, short_record)
        return other

    @proves("G-OPEN-12")
    def test_every_record_is_proved(self) -> None:
        """Each record has a proof, which names it; together with an export, too."""
        export = self.file("export", self.export())
        for seq in range(1, ROWS + 1):
            said = self.holds("--proof", self.file("p", self.proof(seq)), "--seq", str(seq))
            self.assertIn(f"record {seq}, 'enroll.refused' at", said)
        self.holds("--proof", self.file("p", self.proof(3, self.head(7))), export)

    def test_proof_for_another(self) -> None:
        """A proof is of its record alone, in its log alone, under a key that was named."""
        forms = {seq: json.loads(self.proof(seq)) for seq in (5, 6)}
        for name in ("record", "path", "seq"):
            odd = {**forms[5], name: forms[6][name]}
            self.assertIn("is not record", self.refusal("--proof", self.written(odd)))
        proof = self.file("p", self.proof(6))
        self.assertIn("for record 6, not 5", self.refusal("--proof", proof, "--seq", "5"))
        grown = self.file("grown", self.growth(3, self.head()))
        self.assertIn("not a proof of record 5", self.refusal("--proof", grown, "--seq", "5"))
        other = self.head(anchor=anchor_of(World(CLUSTER).keys))
        self.assertIn("did not name", self.refusal("--proof", self.file("p", self.proof(5, other))))

    def written(self, form: dict[str, Any]) -> str:
        """A proof file with this in it, in the form of ours."""
        text = json.dumps(form, sort_keys=True, separators=(",", ":"))
        return self.file("odd", text.encode() + b"\n")

    def test_proof_of_another_log(self) -> None:
        """A good proof of another log of the same key is not one of this export."""
        other = self.filled(ROWS, drawn=5000)
        head = self.head(log=other, log_id="other")
        form = inclusion(*prove_inclusion(other.bare, head, 5), head).encode() + b"\n"
        proof, export = self.file("p", form), self.file("export", self.export())
        self.assertIn("TWO HISTORIES", self.refusal("--proof", proof, export))
        same = self.head(10, log_id="other")
        kept = self.kept("kept", same)
        self.assertIn("heads of two logs", self.refusal("--head", kept, export))

    def test_every_bit_of_a_proof(self) -> None:
        """One bit changed in a proof of either sort is refused; in every second byte, or fifth."""
        kept = self.kept("k", self.head(7))
        for data in (self.proof(5), self.growth(7, self.head())):
            for at in range(0, len(data), 2 if IS_LONG else 5):
                changed = data[:at] + bytes([data[at] ^ (1 << at // 2 % 8)]) + data[at + 1 :]
                path = self.file("p", changed)
                try:
                    said = self.holds("--proof", path, "--head", kept)
                except (self.program["Refused"], UnicodeEncodeError):
                    continue
                self.fail(f"{at}: {said}")

    def test_kept_head(self) -> None:
        """An export that goes past a head of one's own has to hold what that was signed over."""
        export = self.file("export", self.export())
        for size in (1, 9, ROWS):
            self.holds("--head", self.kept("kept", self.head(size)), export)
        other = self.forked()
        for size in (10, ROWS):
            kept = self.kept("kept", self.head(size, other))
            self.assertIn("TWO HISTORIES", self.refusal("--head", kept, export))
        piece = self.file("piece", self.export(after=6))
        self.holds("--head", self.kept("kept", self.head(8)), piece, "--after", "6")
        kept = self.kept("kept", self.head(12, other))
        self.assertIn("TWO HISTORIES", self.refusal("--head", kept, piece, "--after", "6"))

    def test_tail_dropped_at_an_older_head(self) -> None:
        """An export that ends at an older head is refused by who has seen a newer one."""
        older = self.file("export", self.export(self.head(11)))
        self.holds(older)
        kept = self.kept("kept", self.head())
        self.assertIn("prove --from 11 --to 24", self.refusal("--head", kept, older))
        grown = self.file("grown", self.growth(11, self.head()))
        self.holds("--head", kept, older, "--proof", grown)

    @proves("G-OPEN-12")
    def test_two_auditors(self) -> None:
        """Two heads are of one history by a consistency proof only; two histories have none."""
        for first in (1, 2, 8, 9, 17):
            mine = self.kept("mine", self.head(first))
            yours = self.kept("yours", self.head())
            self.assertIn("nothing shows", self.refusal("--head", mine, "--head", yours))
            grown = self.file("grown", self.growth(first, self.head()))
            self.holds("--head", mine, "--head", yours, "--proof", grown)
        other = self.forked()
        mine, yours = self.kept("mine", self.head(12)), self.kept("yours", self.head(log=other))
        for data in (self.growth(12, self.head()), self.growth(12, self.head(log=other), other)):
            self.refusal("--head", mine, "--head", yours, "--proof", self.file("g", data))
        same = self.kept("mine", self.head())
        self.assertIn("TWO HISTORIES", self.refusal("--head", same, "--head", yours))

    def test_copied_anchor(self) -> None:
        """Every head of a copied `heads.jsonl` is compared, also where most lines have no key."""
        heads = [self.head(size) for size in (3, 9, 15)]
        for size, fork in ((15, False), (15, True)):
            newest = self.head(size, self.forked() if fork else None)
            lines = [to_line(heads[0]), to_line(heads[1], chain=False), to_line(newest)]
            copy = self.file("heads.jsonl", b"\n".join(lines) + b"\n")
            export = self.file("export", self.export())
            if fork:
                self.assertIn("heads.jsonl line 3", self.refusal("--head", copy, export))
            else:
                self.holds("--head", copy, export)
