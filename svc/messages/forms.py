"""How a value and its message become each other, with both ways of a field in one place.

Fields of a message that are not in its form, and values that need more than a look at each field
alone, are written by hand in the module of their service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from attrs import evolve, frozen
from google.protobuf.message import Message

from svc.errors import Malformed
from svc.messages.checks import (
    DIGEST_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_SIGNED_BYTES,
    certificates,
    check_form,
    check_format,
    exactly,
    parse,
    signed_part,
    text,
    texts,
    uid,
)
from svc.messages.checks import FORMAT as SIGNED_FORMAT
from svc.model.signing import Signed

_M = TypeVar("_M", bound=Message)
_V = TypeVar("_V")

MAX_NAME = 253
"""Characters of a name."""

MAX_WORD = 63
"""Characters of an id, a reason, or another word."""


@frozen
class FieldForm:
    """Both ways of one field.

    Attributes:
        write: Makes what the message has of what the value has; None: they are the same.  It is
            not asked for None, which leaves the field out.
        read: The other way, given what refusals call the field; None: they are the same.
        on_wire: The field's name in the message; empty: as in the value.
        is_optional: A message inside the message, whose absence is None.
    """

    write: Callable[[Any], Any] | None = None
    read: Callable[[Any, str], Any] | None = None
    on_wire: str = ""
    is_optional: bool = False

    def named(self, on_wire: str) -> FieldForm:
        """The same of a field that the message calls *on_wire*."""
        return evolve(self, on_wire=on_wire)


class MessageForm(Generic[_M, _V]):
    """How a value travels as a message.

    Args:
        message_type: What it travels as.
        make: Makes the value, given each of its fields by name.
        what: The message, as refusals name it.
        fields: By the value's names.
    """

    def __init__(
        self, message_type: type[_M], make: Callable[..., _V], what: str, /, **fields: FieldForm
    ) -> None:
        self.what = what
        self._type, self._make = message_type, make
        self._fields = [
            (name, form.on_wire or name, form, f"{what}: {form.on_wire or name}")
            for name, form in fields.items()
        ]
        for _, on_wire, *_ in self._fields:
            assert on_wire in message_type.DESCRIPTOR.fields_by_name, on_wire

    def message(self, value: _V) -> _M:
        """The value as it travels."""
        found: dict[str, Any] = {}
        for name, on_wire, form, _ in self._fields:
            given = getattr(value, name)
            found[on_wire] = given if form.write is None or given is None else form.write(given)
        return self._type(**found)

    def read(self, message: _M) -> _V:
        """The value as it came.

        Raises:
            Malformed: a field is not of its form.
        """
        found: dict[str, Any] = {}
        for name, on_wire, form, what in self._fields:
            if form.is_optional and not message.HasField(on_wire):
                found[name] = None
                continue
            came = getattr(message, on_wire)
            found[name] = came if form.read is None else form.read(came, what)
        return self._make(**found)

    def encode(self, value: _V) -> bytes:
        """The bytes of :meth:`message`."""
        return self.message(value).SerializeToString()

    def decode(self, data: bytes, limit: int = MAX_SIGNED_BYTES) -> _V:
        """The value in *data*, of at most *limit* bytes.

        Raises:
            Malformed: there is none in it, or a field is not of its form.
        """
        return self.read(parse(self._type, data, limit, self.what))


class SignedForm(MessageForm[_M, _V]):
    """A message that is signed, with the number of its format (ADR 29)."""

    def encode(self, value: _V) -> bytes:
        """The bytes that are signed."""
        message: Any = self.message(value)
        message.format = SIGNED_FORMAT
        return bytes(message.SerializeToString())

    def decode(self, data: bytes, limit: int = MAX_SIGNED_BYTES, *, relayed: bool = False) -> _V:
        """The value as it came; its signature is checked by the caller.

        Args:
            relayed: For whoever passes it on: what a newer signer adds is let through.

        Raises:
            Malformed: it is none, or says what this build does not know.
        """
        message: Any = parse(self._type, data, limit, self.what)
        value = self.read(message)
        if not relayed:
            check_format(message.format, self.what)
            check_form(data, self.encode(value), self.what)
        return value


class SignatureForm(Generic[_M]):
    """How something signed travels inside other messages: payload, signature, chain.

    Args:
        payload: The name of the field with the signed bytes.
        most: How many they may be.
    """

    def __init__(
        self, message_type: type[_M], payload: str, what: str, /, *, most: int = MAX_SIGNED_BYTES
    ) -> None:
        self._type, self._payload, self._what, self._most = message_type, payload, what, most

    def message(self, signed: Signed) -> _M:
        """As it travels."""
        payload = {self._payload: signed.payload}
        return self._type(**payload, signature=signed.signature, chain=signed.chain)

    def read(self, message: Any) -> Signed:
        """As it came, unverified.  Raises Malformed."""
        came = getattr(message, self._payload)
        payload, signature = signed_part(came, message.signature, self._what, self._most)
        return Signed(payload, signature, certificates(message.chain, f"{self._what}: chain"))


PLAIN = FieldForm()
"""As it came: a number, a flag, or a text that is only shown and that the size of the whole message
bounds."""


def word(limit: int = MAX_WORD, *, empty: bool = False) -> FieldForm:
    """A text of so many characters; empty only where *empty* says so."""
    return FieldForm(read=lambda came, what: text(came, limit, what, empty=empty))


def words(count: int, limit: int = MAX_WORD) -> FieldForm:
    """So many texts."""
    return FieldForm(read=lambda came, what: texts(came, count, limit, what))


def octets(size: int) -> FieldForm:
    """Just so many bytes."""
    return FieldForm(read=lambda came, what: exactly(came, size, what))


def bounded(most: int) -> FieldForm:
    """At most so many bytes."""

    def read(came: bytes, what: str) -> bytes:
        if len(came) > most:
            raise Malformed(f"{what}: it is longer than {most} bytes")
        return came

    return FieldForm(read=read)


def filled(most: int) -> FieldForm:
    """Bytes that are there, and at most so many."""

    def read(came: bytes, what: str) -> bytes:
        if not 0 < len(came) <= most:
            raise Malformed(f"{what}: missing or too long")
        return came

    return FieldForm(read=read)


def chain(*, empty: bool = False) -> FieldForm:
    """A chain of certificates."""
    return FieldForm(read=lambda came, what: certificates(came, what, empty=empty))


def part(form: MessageForm[Any, Any] | SignatureForm[Any], *, optional: bool = False) -> FieldForm:
    """A message inside the message; with *optional*, None where it is absent."""
    return FieldForm(
        write=form.message, read=lambda came, what: form.read(came), is_optional=optional
    )


def parts(form: MessageForm[Any, Any], most: int | None = None) -> FieldForm:
    """Several messages inside the message."""

    def read(came: Iterable[Any], what: str) -> tuple[Any, ...]:
        found = list(came)
        if most is not None and len(found) > most:
            raise Malformed(f"{what}: more than {most}")
        return tuple(map(form.read, found))

    return FieldForm(write=lambda values: [form.message(one) for one in values], read=read)


NAME = word(MAX_NAME)
WORD = word()
WORD_OR_EMPTY = word(empty=True)

UID = FieldForm(write=bytes.fromhex, read=uid)
DIGEST = octets(DIGEST_BYTES)
PAYLOAD = filled(MAX_SIGNED_BYTES)
"""Bytes that were signed."""

SIGNATURE = filled(MAX_SIGNATURE_BYTES)
PAIRS = FieldForm(write=dict, read=lambda came, what: dict(came))
"""A map of texts."""
