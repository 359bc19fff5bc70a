#!/usr/bin/env python3
"""Check what was handed out of an svc audit log, trusting nothing but the key you name.

    verify_audit.py --fingerprint HEX export.jsonl          an export ("-": standard input)
    verify_audit.py --fingerprint HEX --head mine.json export.jsonl
                                                            ... of the history I was shown before
    verify_audit.py --key anchor.pem --proof proof.json     a record is in the log
    verify_audit.py --key anchor.pem --head mine.json --head yours.json --proof grown.json
                                                            two auditors were shown one history

The key comes from the command line only: the anchor certificate in PEM, or its SHA-256, which
`svc authority audit verify` prints after "anchor".  Either may be given again, for a key that was
changed.  Get it from somebody you trust, never from whoever hands you the export.

Status 0: all that was given holds, and is of one history of one log.  1: refused, and why.  2: the
command line is wrong, or a file cannot be opened.  This file needs Python 3.9 and `cryptography`
and nothing of svc: docs/reference/audit.md says what it checks, so that you can write your own.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import sys
from collections import deque, namedtuple
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

EXPORT, INCLUSION = "svc-audit-export-v1", "svc-audit-inclusion-v1"
CONSISTENCY = "svc-audit-consistency-v1"
REQUEST, ENTRY = "svc-audit-request-v1", "svc-audit-entry-v1"
BATCH, MOST_ENTRIES = "request.batch", 256
CHAIN_DOMAIN, HEAD_DOMAIN = b"svc-audit-v1\0", b"svc-audit-head-v1\0"
LONGEST_LINE = 1 << 22
MOST_EVENTS, MOST_LIKENESSES, LONGEST_ALIKE = 128, 4, 1 << 13
SPACES, MOST_LEVELS = " \t\n\r", 32  # of a personal value
MOST_CREDIT, RESERVE, EARNED = 1 << 15, 1 << 11, 16  # see spend()
PART = 1 << 19  # bytes of an export that one process looks at, at a time

# Members of a line that are not the record's.
OWN = {"form", "hash", "origin_signature", "personal", "prev_hash", "seq"}

# A record whose line is good by itself: its number, the hashes before it and of it, its leaf.
Link = namedtuple("Link", "seq before hash leaf signed is_batch")

# A head whose signature is good: what the log's keeper has stated, and cannot take back.
Head = namedtuple("Head", "place log size root last_hash time key_id")


class Refused(Exception):
    """Something given does not hold."""


def demand(holds: bool, what: str) -> None:
    """Refuse unless something holds."""
    if not holds:
        raise Refused(what)


# A line: JSON, members sorted, no spaces, ASCII.  What is hashed is the same in UTF-8 (RFC 8785).
FORM: dict[str, Any] = {"sort_keys": True, "separators": (",", ":"), "check_circular": False}
to_ascii = json.JSONEncoder(**FORM).encode
to_canonical = json.JSONEncoder(**FORM, ensure_ascii=False).encode
from_json = json.JSONDecoder().decode


def parsed(line: bytes, place: str) -> dict[str, Any]:
    """The object in one line.  It must be written in the one form, so no bit of it is idle."""
    if not line.endswith(b"\n") or len(line) > LONGEST_LINE:
        raise Refused(f"{place}: no whole line")
    try:
        text = line[:-1].decode("ascii")
        value = from_json(text)
        same = to_ascii(value).replace("\x7f", "\\u007f") == text
    except (ValueError, RecursionError):
        raise Refused(f"{place}: not JSON in ASCII") from None
    if not same or not isinstance(value, dict):
        raise Refused(f"{place}: not an object in the form of an export")
    return value


def member(form: dict[str, Any], name: str, kind: type, place: str) -> Any:
    """A member that must be there and of its kind."""
    if type(form.get(name)) is not kind:
        raise Refused(f"{place}: {name} is missing or not of its kind")
    return form[name]


def digest(text: object, place: str) -> bytes:
    """32 bytes from 64 lower-case hex digits."""
    try:
        data = bytes.fromhex(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        data = b""
    if len(data) == 32 and data.hex() == text:
        return data
    raise Refused(f"{place}: not the hex digits of a SHA-256")


def from_base64(text: Any, place: str) -> bytes:
    """Bytes from base64 in its one form."""
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise Refused(f"{place}: not base64") from None
    demand(base64.b64encode(data).decode() == text, f"{place}: not base64 in its one form")
    return data


def leaf_hash(record: bytes, form: dict[str, Any], place: str) -> bytes:
    """The leaf of a record: its length, its canonical form, the signature of another origin."""
    signature = b""
    if "origin_signature" in form:
        signature = from_base64(form["origin_signature"], place)
        demand(signature != b"", f"{place}: an empty signature")
    return hashlib.sha256(b"\0" + len(record).to_bytes(4, "big") + record + signature).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees (RFC 6962, 2.1)."""
    return hashlib.sha256(b"\1" + left + right).digest()


def append(edge: list[bytes], size: int, leaf: bytes) -> None:
    """Put a leaf to a tree of *size* leaves; *edge* has a hash for each one-bit of the size."""
    while size & 1:
        leaf = node_hash(edge.pop(), leaf)
        size >>= 1
    edge.append(leaf)


def root_of(edge: list[bytes]) -> bytes:
    """The root of a tree that is not empty."""
    root = edge[-1]
    for left in reversed(edge[:-1]):
        root = node_hash(left, root)
    return root


def climbed(fn: int, sn: int, start: bytes, path: list[bytes]) -> tuple[bytes, bytes] | None:
    """The loop of RFC 9162, 2.1.3.2 and 2.1.4.2: the hashes fr and sr (there r) they end with."""
    fr = sr = start
    for each in path:
        if sn == 0:
            return None
        if fn & 1 or fn == sn:
            fr, sr = node_hash(each, fr), node_hash(each, sr)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node_hash(sr, each)
        fn, sn = fn >> 1, sn >> 1
    return (fr, sr) if sn == 0 else None


def is_included(index: int, size: int, leaf: bytes, path: list[bytes], root: bytes) -> bool:
    """RFC 9162, 2.1.3.2: whether leaf *index* of the tree is *leaf*."""
    found = climbed(index, size - 1, leaf, path)
    return 0 <= index < size and found is not None and found[1] == root


def is_grown(size: int, new_size: int, path: list[bytes], root: bytes, new_root: bytes) -> bool:
    """RFC 9162, 2.1.4.2: whether the tree of *size* leaves begins the one of *new_size*."""
    if not 0 < size < new_size:
        return size == new_size > 0 and root == new_root and not path
    if size & (size - 1) == 0:
        path = [root, *path]
    fn, sn = size - 1, new_size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    return bool(path) and climbed(fn, sn, path[0], path[1:]) == (root, new_root)


class Batch:
    """A record that commits to requests (docs/reference/audit.md, "Batches of requests")."""

    def __init__(self, record: dict[str, Any], place: str) -> None:
        batch = member(record, "batch", dict, place)
        self.count, self.leaves = member(batch, "count", int, place), list[bytes]()
        self.root = digest(batch.get("root"), place)
        self.sessions = member(batch, "sessions", list, place)
        good = 0 < len(self.sessions) <= self.count <= MOST_ENTRIES
        for each in self.sessions if good else ():
            good = good and type(each) is list and [type(one) for one in each] == [str, int, int]
            good = good and 0 < each[1] <= each[2]
        total = sum(last - first + 1 for _, first, last in self.sessions) if good else 0
        demand(good and total == self.count, f"{place}: not the form of a batch")
        self.due = [first for _, first, _ in self.sessions]
        origin, spool = member(record, "origin", str, place), member(record, "spool", dict, place)
        name, n = member(spool, "id", str, place), member(spool, "n", int, place)
        demand(len(name) == 32 and 0 < n < 1 << 53, f"{place}: no place in a spool")
        origin_bytes = origin.encode()
        demand(len(origin_bytes) < 256, f"{place}: no origin")
        spool_id = digest(name + "0" * 32, place)[:16]
        begin = b"svc-request-entry-v1\0" + len(origin_bytes).to_bytes(1, "big") + origin_bytes
        self.begin = begin + spool_id + n.to_bytes(8, "big")

    def leaf(self, form: dict[str, Any], index: int, place: str) -> bytes:
        """The leaf of entry *index*, once its session's header and personal values are right."""
        demand(member(form, "index", int, place) == index, f"{place}: entry {index} is missing")
        entry, header = member(form, "entry", dict, place), member(form, "header", dict, place)
        at, number = member(entry, "session", int, place), member(entry, "session_n", int, place)
        demand(0 <= at < len(self.sessions), f"{place}: it is of no session of the batch")
        commitment, first, last = self.sessions[at]
        demand(first <= number <= last, f"{place}: its number is not one of its session's")
        text = to_canonical(header).encode()
        made = hashlib.sha256(b"svc-request-session-v1\0" + len(text).to_bytes(4, "big") + text)
        demand(made.hexdigest() == commitment, f"{place}: its session is not the one committed to")
        check_personal(form, entry, place, of_request=True)
        text = to_canonical(entry).encode()
        where = index.to_bytes(4, "big") + len(text).to_bytes(4, "big")
        return hashlib.sha256(self.begin + where + text).digest()

    def take(self, form: dict[str, Any], place: str) -> bool:
        """The next line of the batch; whether it was the last one."""
        own = {"event", "form", "header", "index", "personal", "seq"}
        entry = {name: value for name, value in form.items() if name not in own}
        demand(form.get("event") == "request.decision", f"{place}: not a request")
        self.leaves.append(self.leaf({**form, "entry": entry}, len(self.leaves), place))
        at = entry["session"]
        demand(entry["session_n"] == self.due[at], f"{place}: a request is missing")
        self.due[at] += 1
        if len(self.leaves) < self.count:
            return False
        level = self.leaves
        while len(level) > 1:
            odd = level[len(level) & ~1 :]
            level = [request_node(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)] + odd
        demand(level[0] == self.root, f"{place}: the requests are not those that were signed")
        return True

    def is_under(self, leaf: bytes, index: int, path: list[bytes]) -> bool:
        """Whether *leaf* is entry *index*."""
        count, hashes = self.count, list(path)
        if not 0 <= index < count:
            return False
        while count > 1:
            if index ^ 1 < count:
                if not hashes:
                    return False
                other = hashes.pop(0)
                leaf = request_node(other, leaf) if index & 1 else request_node(leaf, other)
            index, count = index >> 1, (count + 1) >> 1
        return not hashes and leaf == self.root


def request_node(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees of a batch."""
    return hashlib.sha256(b"svc-request-node-v1\0" + left + right).digest()


class Keys:
    """The keys that were named on the command line, by the SHA-256 of their certificates."""

    def __init__(self, files: list[bytes], fingerprints: list[str]) -> None:
        self.known: dict[str, Any] = dict.fromkeys(each.lower() for each in fingerprints)
        for data in files:
            for certificate in x509.load_pem_x509_certificates(data):
                self.known[certificate.fingerprint(SHA256()).hex()] = certificate.public_key()

    def check(self, key_id: str, chain: list[bytes], signature: bytes, what: bytes) -> None:
        """Return if the key *key_id* was named and made the signature."""
        demand(
            key_id in self.known,
            f"the head is signed by {key_id}, a key that you did not name; "
            "a key that comes along with what it signed is worth nothing",
        )
        fingerprints = [hashlib.sha256(each).hexdigest() for each in chain]
        demand(fingerprints in ([], [key_id]), f"the certificate is not that of the key {key_id}")
        if chain and self.known[key_id] is None:
            self.known[key_id] = x509.load_der_x509_certificate(chain[0]).public_key()
        key = self.known[key_id]
        if not isinstance(key, Ed25519PublicKey):
            raise Refused(f"the certificate of {key_id} is missing (name it by --key)")
        try:
            key.verify(signature, HEAD_DOMAIN + what)
        except InvalidSignature:
            raise Refused("the head's signature does not verify") from None


def read_head(form: dict[str, Any], place: str, keys: Keys) -> Head:
    """The head in *form*, once its signature is good."""
    known = {"chain", "edge", "head", "pruned", "restored", "signature"}
    demand({"head", "signature"} <= set(form) <= known, f"{place}: not a signed head, nor a record")
    head = member(form, "head", dict, place)
    chain = member({"chain": [], **form}, "chain", list, place)
    key_id = member(head, "key_id", str, place)
    certificates = [from_base64(each, place) for each in chain]
    signature, what = from_base64(form["signature"], place), to_canonical(head).encode()
    try:
        keys.check(key_id, certificates, signature, what)
    except Refused as refused:
        raise Refused(f"{place}: {refused}") from None
    log = member(head, "cluster", str, place), member(head, "log_id", str, place)
    size, root = member(head, "tree_size", int, place), digest(head.get("root"), place)
    last_hash = digest(head.get("last_hash"), place)
    return Head(
        place=place,
        log=log,
        size=size,
        root=root,
        last_hash=last_hash,
        time=member(head, "time", str, place),
        key_id=key_id,
    )


class History:
    """The signed heads seen, and which trees were shown to be one growing tree."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.unshown = 0  # signatures of origins that nothing given covers
        self.groups: list[set[tuple[int, bytes]]] = []  # of trees: size and root

    def saw(self, head: Head) -> None:
        """Take in a signed head."""
        self.heads.append(head)
        self.joined((head.size, head.root))

    def joined(self, *trees: tuple[int, bytes]) -> None:
        """Take in that these trees were shown to be of one history."""
        merged = set(trees)
        for group in [each for each in self.groups if each & merged]:
            self.groups.remove(group)
            merged |= group
        self.groups.append(merged)

    def check(self) -> Head:
        """Refuse heads of several logs, or of histories that nothing joins; the newest head."""
        newest = max(self.heads, key=lambda head: head.size)
        for head in self.heads:
            both = f"{head.place} (over {head.size}) and {newest.place} (over {newest.size})"
            demand(head.log == newest.log, f"heads of two logs: {both}")
            if head.size == newest.size:
                demand(head.root == newest.root, f"TWO HISTORIES: heads that differ: {both}")
            trees = {(head.size, head.root), (newest.size, newest.root)}
            demand(
                any(trees <= group for group in self.groups),
                f"nothing shows that these heads are of one history: {both}; ask for: "
                f"svc authority audit prove --from {head.size} --to {newest.size}",
            )
        return newest


def read_export(stream: BinaryIO, after: int, keys: Keys, history: History) -> int:
    """Check every line of an export that begins after a record; the number of its last one."""
    waiting: dict[int, list[Head]] = {}  # heads known from elsewhere, by their size
    for head in history.heads:
        waiting.setdefault(head.size, []).append(head)
    edge, shown = list[bytes](), list[tuple[int, bytes]]()
    last, seq, covered, number = None if after else bytes(32), after, after, 0
    batch: Batch | None = None  # of which lines are still to come
    for number, (line, link) in enumerate(with_links(stream), 1):
        place = f"line {number}"
        if batch is not None:
            form = parsed(line, place)
            right = (form.get("form"), form.get("seq")) == (REQUEST, seq)
            demand(right, f"{place}: a request of record {seq} is missing")
            batch = None if batch.take(form, place) else batch
            continue
        if link is None or link.seq != seq + 1 or last not in (None, link.before):
            form = parsed(line, place)  # a head; or what is wrong is said here
            if form.get("form") == EXPORT:
                link = read_record(form, seq + 1, last, f"{place}, record {seq + 1}")
        if link is not None:
            seq, last = link.seq, link.hash
            if after == 0:
                append(edge, seq - 1, link.leaf)
            history.unshown += after > 0 and link.signed  # in the tree alone
            batch = Batch(parsed(line, place), place) if link.is_batch else None
            heads = waiting.pop(seq, [])
        else:
            heads = [read_head(form, place, keys)]
            demand(heads[0].size == seq, f"{place}: a head over {heads[0].size} after record {seq}")
            covered, newest = seq, heads[0]
        for head in heads:
            same = head.last_hash == last and (after > 0 or head.root == root_of(edge))
            demand(same, f"{place}: TWO HISTORIES: not what the head in {head.place} is over")
            shown.append((head.size, head.root))
    demand(
        seq > after and covered == seq,
        f"line {number}: no signed head covers record {covered + 1} and what follows: "
        "the end of the export is missing",
    )
    history.saw(newest)
    history.joined(*shown)
    return seq


def with_links(stream: BinaryIO) -> Iterator[tuple[bytes, Link | None]]:
    """Each line, and its record where that is good by itself; a long export occupies all cores."""
    parts = iter(lambda: part_of(stream), [])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    part = next(parts, [])
    yield from paired(part, links(part))
    part = next(parts, [])
    begun: deque[tuple[list[bytes], Future[list[Link | None]]]] = deque()
    with ProcessPoolExecutor(cores) if cores > 1 and part else nullcontext() as pool:
        while part or begun:
            if part and pool is not None and len(begun) <= 2 * cores:
                try:
                    begun.append((part, pool.submit(links, part)))
                    part = next(parts, [])
                except BrokenProcessPool:
                    pool = None
            elif begun:
                lines, found = begun.popleft()
                broken = found.exception() is not None  # as when a process was killed
                yield from paired(lines, links(lines) if broken else found.result())
            else:
                yield from paired(part, links(part))
                part = next(parts, [])


def paired(lines: list[bytes], found: list[Link | None]) -> Iterator[tuple[bytes, Link | None]]:
    """Lines, each with what it says."""
    for at, line in enumerate(lines):
        yield line, found[at]


def part_of(stream: BinaryIO) -> list[bytes]:
    """The next lines, as many as one process looks at; the last of them may be too long."""
    lines, size = list[bytes](), 0
    while size < PART:
        line = stream.readline(LONGEST_LINE + 1)
        if not line:
            break
        lines.append(line)
        size += len(line)
    return lines


def links(lines: list[bytes]) -> list[Link | None]:
    """What each line says by itself; None for one that is no record, or none that is good."""
    return [alike(line) or by_itself(line) for line in lines]


def by_itself(line: bytes) -> Link | None:
    """What a line says, once it was parsed; it shows what other lines may be like."""
    try:
        form = parsed(line, "")
        if form.get("form") != EXPORT:
            return None
        link = read_record(form, form["seq"], None, "")
    except (Refused, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    learn(line, form)
    return link


class Likeness:
    """Which lines are like one that is good: the same members, other plain texts and numbers.

    This saves time, and only ever says yes: whatever is not good by it is parsed and judged as if
    it were not here.  It says yes to no other lines, because one that matches is JSON in the one
    form: it has a plain text where the good one has a plain text, and a number where that has a
    number.  No text of the record has an escape, so it is hashed as it is in the line.
    """

    TEXT, NUMBER = r"[ !#-[\]-~]*", r"(?:0|-?[1-9][0-9]{0,14})"  # nothing that JSON escapes
    TOLD = rf'\{{"path":"({TEXT})","salt":"([0-9a-f]{{32}})","value":"({TEXT}(?:\\"{TEXT})*)"\}}'
    OURS = {
        "form": rf'"{EXPORT}"()',
        "hash": r'"([0-9a-f]{64})"',
        "origin_signature": r'"([A-Za-z0-9+/=]+)"',
        "prev_hash": r'"([0-9a-f]{64})"',
        "seq": r"([1-9][0-9]{0,14})",
    }

    def __init__(self, form: dict[str, Any]) -> None:
        """Of a good line.  Raises Refused: what is like it cannot be told by a pattern."""
        # The event comes before our members in order, so each of ours has a comma before it.
        demand("event" in form, "no event")
        demand(form["event"] != BATCH, "the lines after it belong to it")
        self.groups = 0
        self.ours: dict[str, int] = {}  # our members, each a group with what it says in the next
        self.hidden: dict[bytes, int] = {}  # the group of the hash that is at a path
        self.told = len(form.get("personal", ()))
        members = "".join(self.member(name, form[name]) for name in form)[1:]
        spend(len(members))
        self.match = re.compile(rf"\{{{members}\}}\n".encode()).fullmatch

    def member(self, name: str, value: Any) -> str:
        """What matches a member of the line, with the comma before it."""
        if name == "event":
            return f',"event":{exactly(value)}'
        if name not in OWN:
            return f",{self.name(name)}:{self.value(name, value)}"
        self.ours[name] = self.groups + 1
        self.groups += 1 + (3 * self.told if name == "personal" else 1)
        told = rf"\[{','.join([self.TOLD] * self.told)}\]"
        return f'(,"{name}":{self.OURS.get(name, told)})'

    def name(self, name: str) -> str:
        """What matches the name of a member; with a dot in it, a path could mean two things."""
        demand("." not in name, "a dot in a name")
        return exactly(name)

    def value(self, path: str, value: Any) -> str:
        """What matches a value that *path* leads to."""
        if type(value) is dict and list(value) == ["personal"]:
            self.groups += 1
            self.hidden[path.encode()] = self.groups
            exactly(value["personal"])
            return rf'\{{"personal":"({self.TEXT})"\}}'
        if type(value) is dict:
            inner = [f"{self.name(k)}:{self.value(f'{path}.{k}', v)}" for k, v in value.items()]
            return rf"\{{{','.join(inner)}\}}"
        if type(value) is list:
            for each in value:
                exactly(each)
            return rf'\[(?:"{self.TEXT}"(?:,"{self.TEXT}")*)?\]'
        if value is None or type(value) is bool:
            return to_ascii(value)
        if type(value) is int:
            return self.NUMBER
        exactly(value)
        return f'"{self.TEXT}"'

    def link(self, line: bytes) -> Link | None:
        """What a line says by itself, if it matches and all in it is good."""
        match = self.match(line)
        if match is None:
            return None
        pieces, end = [], 0
        for group in self.ours.values():
            pieces.append(line[end : match.start(group)])
            end = match.end(group)
        record = b"".join(pieces) + line[end:-1]
        said = {name: match[group + 1].decode() for name, group in self.ours.items()}
        seq, before = int(said["seq"]), bytes.fromhex(said["prev_hash"])
        found = chained(seq, before, record)
        good = found.hex() == said["hash"]
        for at in range(self.told):
            begin = self.ours["personal"] + 1 + 3 * at
            path, salt, value = match.group(begin, begin + 1, begin + 2)
            value = value.replace(b'\\"', b'"')
            hashed = hashlib.sha256(bytes.fromhex(salt.decode()) + value).hexdigest().encode()
            good = good and path in self.hidden and match[self.hidden[path]] == hashed
            check_json(value.decode())
        if not good:
            return None
        return Link(
            seq=seq,
            before=before,
            hash=found,
            leaf=leaf_hash(record, said, ""),
            signed="origin_signature" in said,
            is_batch=False,
        )


def exactly(value: Any) -> str:
    """What matches this plain text and nothing else.  Raises Refused: it is none."""
    plain = type(value) is str and re.fullmatch(Likeness.TEXT, value) is not None
    demand(plain, "no plain text")
    return f'"{re.escape(value)}"'


LIKENESSES: dict[bytes, list[Likeness]] = {}  # by the event; few, whatever an export contains
CREDIT = [MOST_CREDIT]  # in characters of patterns; a parsed line earns some


def spend(price: int) -> None:
    """Pay for work on a pattern, so that all of it takes no longer than parsing the lines does.

    Whoever made the export chooses its lines, and a pattern may take a hundred times as long to
    compile as its line to parse.
    """
    demand(price <= CREDIT[0], "too expensive")
    CREDIT[0] -= price


def event_of(line: bytes) -> bytes:
    """What looks like the event of a line."""
    begin = line.find(b'"event":"') + 9
    return line[begin : line.find(b'"', begin)]


def learn(line: bytes, form: dict[str, Any]) -> None:
    """Know the lines that are like a good one."""
    CREDIT[0] = min(CREDIT[0] + EARNED, MOST_CREDIT)
    event = event_of(line)
    known = LIKENESSES.get(event, [])
    if len(line) > LONGEST_ALIKE or len(known) >= MOST_LIKENESSES or len(LIKENESSES) >= MOST_EVENTS:
        return
    if CREDIT[0] < RESERVE + len(line) // 5:
        return  # to try in vain would use up the credit that a pattern needs
    try:
        spend(len(line) // 5)
        LIKENESSES[event] = [*known, Likeness(form)]
    except (Refused, RecursionError):
        pass


def alike(line: bytes) -> Link | None:
    """What a line says that is like a good one, and good; None for all others."""
    if len(line) > LONGEST_ALIKE:
        return None
    try:
        for likeness in LIKENESSES.get(event_of(line), ()):
            link = likeness.link(line)
            if link is not None:
                return link
    except (Refused, ValueError, RecursionError):
        pass
    return None


def read_record(form: dict[str, Any], seq: int, last: bytes | None, place: str) -> Link:
    """Check a record's place in the chain, and that it is the one hashed."""
    if member(form, "seq", int, place) != seq:
        raise Refused(f"{place}: the line is of {form['seq']}")
    before = digest(form.get("prev_hash"), place)
    if last not in (None, before):
        raise Refused(f"{place}: it does not follow from the record before it")
    record = {name: value for name, value in form.items() if name not in OWN}
    text = to_canonical(record).encode()
    found = chained(seq, before, text)
    if found.hex() != form.get("hash"):
        raise Refused(f"{place}: the record is not the one hashed")
    check_personal(form, record, place)
    leaf = leaf_hash(text, form, place)
    signed = "origin_signature" in form
    return Link(
        seq=seq,
        before=before,
        hash=found,
        leaf=leaf,
        signed=signed,
        is_batch=form.get("event") == BATCH,
    )


def chained(seq: int, before: bytes, text: bytes) -> bytes:
    """The hash of a record, over its number, the hash before it and its canonical form."""
    number, length = seq.to_bytes(8, "big"), len(text).to_bytes(4, "big")
    return hashlib.sha256(CHAIN_DOMAIN + number + before + length + text).digest()


def check_personal(
    form: dict[str, Any], record: dict[str, Any], place: str, *, of_request: bool = False
) -> None:
    """Check that each personal value told is the one that the record holds as a salted hash."""
    if "personal" not in form:
        return
    for value in member(form, "personal", list, place):
        try:
            there: Any = {"request": record} if of_request else record
            for name in value["path"].split("."):
                there = there[name]
            salt, path = bytes.fromhex(value["salt"]), value["path"].encode()
            begin = b"svc-request-value-v1\0" + salt + len(path).to_bytes(2, "big") + path
            begin = begin if of_request else salt
            found = hashlib.sha256(begin + value["value"].encode()).hexdigest()
            check_json(value["value"])  # With one length of salt: no byte can belong to either.
            is_salt = len(salt) == 16 and value["salt"] == salt.hex()
            good = len(value) == 3 and is_salt and there == {"personal": found}
        except (AttributeError, KeyError, TypeError, ValueError):
            good = False
        except (OverflowError, RecursionError):  # too long a path, too many levels
            good = False
        if not good:
            raise Refused(f"{place}: a personal value is not the one that was hashed")


def check_json(text: str) -> None:
    """Return if a text is JSON of at most 32 levels, no space around it; else raise ValueError."""
    value = (known_json if len(text) <= 64 else from_json)(text)
    if text[0] in SPACES or text[-1] in SPACES:
        raise ValueError(text)
    if text.count("[") + text.count("{") > MOST_LEVELS:
        level = [value]
        for _ in range(MOST_LEVELS + 1):
            level = [each for each in level if type(each) in (dict, list)]
            if not level:
                return
            level = [
                one for each in level for one in (each.values() if type(each) is dict else each)
            ]
        raise ValueError(text)


known_json = lru_cache(maxsize=1024)(from_json)  # the same few values stand in many records


def read_proof(path: str, wanted: int | None, keys: Keys, history: History) -> str:
    """Check the proof in a file; one line on what it shows."""
    form = parsed(Path(path).read_bytes(), path)
    hashes = [digest(each, path) for each in member(form, "path", list, path)]
    head = read_head(member(form, "head", dict, path), path, keys)
    history.saw(head)
    if form.get("form") in (INCLUSION, ENTRY):
        own = set(form) - {"origin_signature", "personal"}
        known = {"form", "head", "path", "record", "seq"}
        known |= {"entry", "entry_path", "index", "header"} if form["form"] == ENTRY else set()
        demand(own == known, f"{path}: not a proof's members")
        seq, record = member(form, "seq", int, path), member(form, "record", dict, path)
        demand(wanted in (None, seq), f"{path}: the proof is for record {seq}, not {wanted}")
        leaf = leaf_hash(to_canonical(record).encode(), form, path)
        holds = is_included(seq - 1, head.size, leaf, hashes, head.root)
        demand(holds, f"{path}: the record is not record {seq} of the log under the head")
        if form["form"] == INCLUSION:
            check_personal(form, record, path)
            what = f"{record.get('event')!a} at {record.get('time')!a}"
            return f"{path}: record {seq}, {what}, is in the log of {head.size} records"
        demand(record.get("event") == BATCH, f"{path}: record {seq} is no batch of requests")
        batch, index = Batch(record, path), member(form, "index", int, path)
        inner = [digest(each, path) for each in member(form, "entry_path", list, path)]
        holds = batch.is_under(batch.leaf(form, index, path), index, inner)
        demand(holds, f"{path}: it is not request {index} of record {seq}")
        what = f"{form['entry'].get('cedar_action')!a} at {form['entry'].get('time')!a}"
        return f"{path}: request {index} of record {seq}, {what}, is in a log of {head.size}"
    demand(wanted is None, f"{path}: not a proof of record {wanted}")
    known = {"form", "from_root", "from_size", "head", "path"}
    demand(form.get("form") == CONSISTENCY and set(form) == known, f"{path}: not a known proof")
    size, root = member(form, "from_size", int, path), digest(form["from_root"], path)
    holds = is_grown(size, head.size, hashes, root, head.root)
    demand(holds, f"{path}: a log of {size} records does not begin that of {head.size}")
    history.joined((size, root), (head.size, head.root))
    return f"{path}: the log of {size} records, root {root.hex()}, begins that of {head.size}"


def options(words: list[str]) -> argparse.Namespace:
    """The command line."""
    as_it_is = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    made.add_argument("export", nargs="?", metavar="EXPORT")
    for name in ("--key", "--fingerprint", "--head", "--proof"):
        what = "HEX" if name == "--fingerprint" else "FILE"
        made.add_argument(name, action="append", default=[], metavar=what)
    made.add_argument("--seq", type=int, help="the record that the proof must be of")
    made.add_argument("--after", type=int, default=0, metavar="SEQ", help="where the export begins")
    given = made.parse_args(words)
    if not given.key and not given.fingerprint:
        made.error("name the key: --key FILE or --fingerprint HEX")
    if given.export is None and not given.proof and not given.head:
        made.error("nothing to check: name an EXPORT, a --proof or a --head")
    if given.after < 0 or any(len(each) != 64 for each in given.fingerprint):
        made.error("--after must not be negative, and --fingerprint must be 64 hex digits")
    return given


def check(given: argparse.Namespace) -> list[str]:
    """Check everything that was given; lines that say what holds."""
    keys = Keys([Path(path).read_bytes() for path in given.key], given.fingerprint)
    demand(given.seq is None or given.proof, "--seq is of a --proof, and none was given")
    history, said = History(), []
    for path in given.head:
        lines = Path(path).read_bytes().splitlines(keepends=True) or [b""]
        for number, line in enumerate(lines, 1):
            place = path if len(lines) == 1 else f"{path} line {number}"
            head = read_head(parsed(line, place), place, keys)
            history.saw(head)
        said.append(f"{path}: {len(lines)} signed, the last over {head.size} records")
    said += [read_proof(path, given.seq, keys, history) for path in given.proof]
    if given.export is not None:
        with sys.stdin.buffer if given.export == "-" else open(given.export, "rb") as stream:
            last = read_export(stream, given.after, keys, history)
        said.append(f"{given.export}: records {given.after + 1} to {last}, all as they were")
    if history.unshown:
        said.append(f"not shown: {history.unshown} signatures of origins; join exports from 1 on")
    new = history.check()
    said.append(f"verified: log {new.log[0]}, {new.size} records at {new.time}, key {new.key_id}")
    return said


def main(words: list[str]) -> int:
    """Run; the status."""
    try:
        said = check(options(words))
    except (Refused, UnicodeEncodeError) as refused:
        print(f"REFUSED: {refused}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as failed:
        print(f"verify_audit.py: {failed}", file=sys.stderr)
        return 2
    print("\n".join(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
