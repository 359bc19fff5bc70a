"""Signed heads: their canonical bytes, and their form as one line of a file.

Pure.  What is signed is ``svc-audit-head-v1`` and a zero byte (put in front by
the signer), then the canonical JSON of the head.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from math import inf
from typing import NoReturn

from attrs import asdict, frozen

from svc.errors import AuditBroken, Malformed
from svc.model.audit.record import Head, RestoredProof, SignedHead, rfc3339
from svc.model.canonical import Json, decode, encode
from svc.model.certificate import SignerCallable
from svc.model.signing import Signed

NO_HEAD = bytes(32)
"""What the first head names as its previous one."""

_BYTES = ("root", "last_hash", "previous_head_hash")
_NUMBERS = ("tree_size", "lease_epoch")
_TEXTS = ("cluster", "log_id", "time", "leader", "key_id")


@frozen
class AnchorKey:
    """The key that signs heads: a signer for that purpose, and its certificates in DER.

    Attributes:
        ends_at: When the certificate ends, in seconds since the epoch.
        begins_at: When it begins.
    """

    sign: SignerCallable
    chain: tuple[bytes, ...]
    ends_at: float = inf
    begins_at: float = 0.0

    @property
    def key_id(self) -> str:
        """SHA-256 of the anchor certificate, in hex."""
        return sha256(self.chain[0]).hexdigest()


def payload(head: Head) -> bytes:
    """The bytes that are signed for *head*."""
    return encode(
        {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in asdict(head).items()
        }
    )


def sign_head(head: Head, key: AnchorKey, edge: Sequence[bytes] = ()) -> SignedHead:
    """*head* with the key's signature.

    Raises:
        AuditBroken: ``audit_key_expired`` or ``audit_key_not_begun``: the key's certificate is not
            good at the head's time, and nobody could ever verify the head.
    """
    at = head_time(head)
    if at < key.begins_at:
        raise AuditBroken(
            f"the certificate that signs audit heads is valid from {rfc3339(key.begins_at)}, "
            "which is later than this host's clock; correct the clock",
            reason="audit_key_not_begun",
        )
    if at >= key.ends_at:
        raise AuditBroken(
            "the certificate that signs audit heads has expired; create the next one with "
            "`svc authority keys renew anchor`",
            reason="audit_key_expired",
        )
    data = payload(head)
    return SignedHead(head, Signed(data, key.sign(data), key.chain), tuple(edge))


def head_time(head: Head) -> float:
    """When the head was made, in seconds since the epoch."""
    try:
        return datetime.fromisoformat(head.time).timestamp()
    except ValueError:
        raise Malformed("audit head: its time is malformed") from None


def to_line(head: SignedHead, *, chain: bool = True, edge: bool = False) -> bytes:
    """One line, without its end; with the certificates and the tree's edge if asked for."""
    form: dict[str, Json] = {
        "head": decode(head.signed.payload),
        "signature": b64encode(head.signed.signature).decode(),
    }
    if chain:
        form["chain"] = [b64encode(der).decode() for der in head.signed.chain]
    if edge:
        form["edge"] = [node.hex() for node in head.edge]
    if head.pruned:
        form["pruned"] = head.pruned
    if head.restored is not None:
        before = [node.hex() for node in head.restored.before]
        form["restored"] = {"before": before, "record": decode(head.restored.record)}
    return encode(form)


def from_line(line: bytes, chains: dict[str, tuple[bytes, ...]]) -> SignedHead:
    """The head that :func:`to_line` wrote; its signature is not verified here.

    Args:
        line: Without its end.
        chains: Certificates by key id seen so far; added to.

    Raises:
        Malformed: not such a line, or nobody said the certificates of its key.
    """
    form = decode(line)
    if not isinstance(form, Mapping) or not {"head", "signature"} <= set(form):
        _refuse("it is not an object with head and signature")
    head = _head(form["head"])
    if "chain" in form:
        chain = tuple(_base64(der) for der in _texts(form["chain"]))
        if not chain or sha256(chain[0]).hexdigest() != head.key_id:
            _refuse("its key id does not match the certificate")
        chains[head.key_id] = chain
    if head.key_id not in chains:
        _refuse("the certificate of its key is missing")
    signed = Signed(encode(form["head"]), _base64(form["signature"]), chains[head.key_id])
    edge = tuple(_hex(node) for node in _texts(form.get("edge", ())))
    return SignedHead(
        head=head,
        signed=signed,
        edge=edge,
        pruned=_number(form.get("pruned", 0)),
        restored=_restored(form),
    )


def _head(form: Json) -> Head:
    if not isinstance(form, Mapping) or set(form) != {*_BYTES, *_NUMBERS, *_TEXTS}:
        _refuse("its members are not those of a head")
    texts = {name: _text(form[name]) for name in _TEXTS}
    numbers = {name: _number(form[name]) for name in _NUMBERS}
    digests = {name: _hex(form[name]) for name in _BYTES}
    return Head(
        cluster=texts["cluster"],
        log_id=texts["log_id"],
        tree_size=numbers["tree_size"],
        root=digests["root"],
        last_hash=digests["last_hash"],
        time=texts["time"],
        lease_epoch=numbers["lease_epoch"],
        leader=texts["leader"],
        previous_head_hash=digests["previous_head_hash"],
        key_id=texts["key_id"],
    )


def _restored(form: Mapping[str, Json]) -> RestoredProof | None:
    proof = form.get("restored")
    if proof is None:
        return None
    if not isinstance(proof, Mapping) or set(proof) != {"before", "record"}:
        _refuse("restored: its members are not record and before")
    before = tuple(_hex(node) for node in _texts(proof["before"]))
    return RestoredProof(encode(proof["record"]), before)


def _refuse(what: str) -> NoReturn:
    raise Malformed(f"audit head: {what}")


def _text(value: Json) -> str:
    if not isinstance(value, str):
        _refuse("text expected")
    return value


def _texts(value: Json) -> list[str]:
    if not isinstance(value, (list, tuple)):
        _refuse("a member must be a list of texts")
    return [_text(each) for each in value]


def _number(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        _refuse("a member must be a count")
    return value


def _hex(value: Json) -> bytes:
    text = _text(value)
    try:
        data = bytes.fromhex(text)
    except ValueError:
        _refuse("a member must be hex digits")
    if len(data) != 32 or data.hex() != text:
        _refuse("a member must be 64 lower-case hex digits")
    return data


def _base64(value: Json) -> bytes:
    text = _text(value)
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        _refuse("base64 expected")
    if b64encode(data).decode() != text:
        _refuse("a member is not canonical base64")
    return data
