"""How a value and its message become each other: what a field may be, and both ways of it.

The form of a field is data, so a message's fields are all checked in one pass over a table.
Fields of a message that are not in its form, and values that need more than a look at each field
alone, are written by hand in the module of their service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import eq
from typing import Any, Generic, TypeVar

from attrs import evolve, frozen
from google.protobuf.message import DecodeError, Message

from svc.errors import Malformed
from svc.model.ids import is_random_id
from svc.model.session.parameters import read_pairs
from svc.model.signing import Signed
from svc.proto.gate.v1.session_pb2 import Parameter

_M = TypeVar("_M", bound=Message)
_V = TypeVar("_V")

MAX_NAME = 253
"""Characters of a name."""

MAX_WORD = 63
"""Characters of an id, a reason, or another word."""

MAX_SIGNED_BYTES = 16 * 1024
MAX_CHAIN_CERTIFICATES = 4
MAX_CERTIFICATE_BYTES = 8 * 1024
MAX_HEAD_BYTES = 32 * 1024
"""Of a signed head of the audit log, as a line with its certificate."""

MAX_HEADS = 16
DIGEST_BYTES = 32
MAX_SIGNATURE_BYTES = 512
UID_BYTES = 16

FORMAT = 1
"""Of what is signed; see ADR 29 before changing it.  0 has no number, and says less."""


@frozen(kw_only=True)
class FieldForm:
    """What one field may be, and both ways of it.

    Attributes:
        write: Makes what the message has of what the value has; None: they are the same.  It is
            not asked for None, which leaves the field out.
        read: The other way, once what came may be; None: they are the same.
        read_as: In place of ``read``: is told, first, what refusals call the field.
        sizes: How many characters, bytes or items may come, at least and at most; None: the message
            bounds them.
        item_sizes: The same of each item.
        fits: Whether what came may be, beside its size.
        refusal: What is wrong with what came, where one of these three says no.
        on_wire: The field's name in the message; empty: as in the value.
        called: The field in refusals; None: its name in the message, empty: the message itself.
        wraps: The field is a message with nothing but the field of this name.
        is_optional: A message inside the message, whose absence is None.
    """

    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None
    read_as: Callable[[str, Any], Any] | None = None
    sizes: tuple[int, int] | None = None
    item_sizes: tuple[int, int] | None = None
    fits: Callable[[Any], bool] | None = None
    refusal: Callable[[Any], str] = lambda came: "not of its form"
    on_wire: str = ""
    called: str | None = None
    wraps: str = ""
    is_optional: bool = False

    def named(self, on_wire: str) -> FieldForm:
        """The same of a field that the message calls *on_wire*."""
        return evolve(self, on_wire=on_wire)


class FieldTable:
    """The fields of a message, or of any other object, read in one pass.

    Args:
        what: The message, as refusals name it.
        fields: By the value's names; they are checked in this order.
    """

    def __init__(self, what: str, /, **fields: FieldForm) -> None:
        self.what = what
        self._fields = fields
        self._rows = []
        for name, form in fields.items():
            read = form.read if form.read_as is None else partial(form.read_as, self._called(name))
            beside = form.wraps, form.item_sizes, form.fits, read, form.is_optional
            more = beside if any(beside) else None
            self._rows.append((name, form.on_wire or name, *(form.sizes or (0, None)), more))

    def read_fields(self, of: Any) -> dict[str, Any]:
        """The value's fields, by name, of what came in *of*.

        Raises:
            Malformed: one of them is not of its form.
        """
        found: dict[str, Any] = {}
        for name, on_wire, least, most, more in self._rows:
            came = getattr(of, on_wire)
            if more is not None:
                wraps, item_sizes, fits, read, is_optional = more
                if is_optional and not of.HasField(on_wire):
                    found[name] = None
                    continue
                if wraps:
                    came = getattr(came, wraps)
            if most is not None and not least <= len(came) <= most:
                raise self._refused(name, came)
            if more is not None:
                if item_sizes is not None:
                    least, most = item_sizes
                    came = came[:]  # a list, which is gone through more quickly
                    for one in came:
                        if not least <= len(one) <= most:
                            raise self._refused(name, came)
                if fits is not None and not fits(came):
                    raise self._refused(name, came)
                if read is not None:
                    came = read(came)
            found[name] = came
        return found

    def _refused(self, name: str, came: Any) -> Malformed:
        return Malformed(f"{self._called(name)}: {self._fields[name].refusal(came)}")

    def _called(self, name: str) -> str:
        form = self._fields[name]
        called = form.on_wire or name if form.called is None else form.called
        return f"{self.what}: {called}" if called else self.what


def parse(message_type: type[_M], data: bytes, limit: int, what: str) -> _M:
    """*data* as a message of this type.

    Raises:
        Malformed: it is longer than *limit* bytes or not of that type.
    """
    if len(data) > limit:
        raise Malformed(f"{what}: {len(data)} bytes, more than the {limit} allowed")
    try:
        return message_type.FromString(data)
    except DecodeError:
        raise Malformed(f"{what}: it is not a message of its type") from None


class MessageForm(FieldTable, Generic[_M, _V]):
    """How a value travels as a message.

    Args:
        message_type: What it travels as.
        make: Makes the value, given each of its fields by name.
        what: See :class:`FieldTable`.
        max_bytes: Of the message, where bytes are decoded.
        fields: See :class:`FieldTable`.
    """

    def __init__(
        self,
        message_type: type[_M],
        make: Callable[..., _V],
        what: str,
        /,
        max_bytes: int = MAX_SIGNED_BYTES,
        **fields: FieldForm,
    ) -> None:
        super().__init__(what, **fields)
        self.make = make
        self._type, self._max_bytes = message_type, max_bytes
        self._written = [
            (name, form.on_wire or name, _writer(form)) for name, form in fields.items()
        ]
        for _, on_wire, _ in self._written:
            assert on_wire in message_type.DESCRIPTOR.fields_by_name, on_wire

    def message(self, value: _V) -> _M:
        """The value as it travels."""
        return self._type(**self.written(value))

    def written(self, value: _V) -> dict[str, Any]:
        """The fields of :meth:`message`: it is made once, with all the messages in it."""
        found: dict[str, Any] = {}
        for name, on_wire, write in self._written:
            given = getattr(value, name)
            if given is not None:
                found[on_wire] = given if write is None else write(given)
        return found

    def read(self, message: _M) -> _V:
        """The value as it came.

        Raises:
            Malformed: a field is not of its form.
        """
        return self.make(**self.read_fields(message))

    def encode(self, value: _V) -> bytes:
        """The bytes of :meth:`message`."""
        return self._type(**self.written(value)).SerializeToString()

    def decode(self, data: bytes) -> _V:
        """The value in *data*.

        Raises:
            Malformed: there is none in it, it is too long, or a field is not of its form.
        """
        message = parse(self._type, data, self._max_bytes, self.what)
        return self.make(**self.read_fields(message))


def _writer(form: FieldForm) -> Callable[[Any], Any] | None:
    write, inside = form.write, form.wraps
    if not inside:
        return write
    return lambda value: {inside: value if write is None else write(value)}


class SignedForm(MessageForm[_M, _V]):
    """A message that is signed, with the number of its format (ADR 29).

    Args:
        max_bytes: See :class:`MessageForm`.
        beyond_0: Fields that a text without a number, as of before, does not have; a dot leads to
            one of a message inside.  None: no such text is taken.
        fields: See :class:`MessageForm`.
    """

    def __init__(
        self,
        message_type: type[_M],
        make: Callable[..., _V],
        what: str,
        /,
        max_bytes: int = MAX_SIGNED_BYTES,
        beyond_0: Iterable[str] | None = None,
        **fields: FieldForm,
    ) -> None:
        super().__init__(message_type, make, what, max_bytes=max_bytes, **fields)
        self._beyond_0 = None if beyond_0 is None else [one.rpartition(".") for one in beyond_0]

    def encode(self, value: _V, format: int = FORMAT) -> bytes:
        """The bytes that are signed."""
        message: Any = self._type(**self.written(value), format=format)
        if not format:
            for inside, _, name in self._beyond_0 or ():
                (getattr(message, inside) if inside else message).ClearField(name)
        return bytes(message.SerializeToString())

    def decode(self, data: bytes, *, relayed: bool = False) -> _V:
        """The value as it came; its signature is checked by the caller.

        Args:
            relayed: For whoever passes it on: what a newer signer adds is let through.

        Raises:
            Malformed: it is none, or says what this build does not know.
        """
        message: Any = parse(self._type, data, self._max_bytes, self.what)
        value = self.make(**self.read_fields(message))
        if relayed:
            return value
        if message.format > FORMAT:
            raise Malformed(
                f"{self.what}: it has format {message.format}, but this build knows formats up to "
                f"{FORMAT}; run the same version of svc on both sides",
                reason="unknown_format",
            )
        # What we would have written otherwise: a field that we do not know may limit it.
        if data != self.encode(value, FORMAT if self._beyond_0 is None else message.format):
            raise Malformed(
                f"{self.what}: it has a field that this build does not know, or is not in "
                "canonical form; run the same version of svc on both sides",
                reason="unknown_format",
            )
        return value


class ChoiceForm(Generic[_V]):
    """How values of several types travel as a message that is one of several.

    Args:
        message_type: Its messages are the choice ``message``.
        what: It, as refusals name it.
        max_bytes: Of all of it.
        forms: By the names of the choice.
    """

    def __init__(
        self,
        message_type: type[Message],
        what: str,
        /,
        max_bytes: int,
        **forms: MessageForm[Any, Any],
    ) -> None:
        self._type, self._what, self._max_bytes = message_type, what, max_bytes
        self._forms: Mapping[str | None, MessageForm[Any, Any]] = dict(forms.items())
        self._names = {form.make: name for name, form in forms.items()}

    def encode(self, value: _V) -> bytes:
        """The value as one message."""
        name = self._names[type(value)]
        return self._type(**{name: self._forms[name].written(value)}).SerializeToString()

    def decode(self, data: bytes) -> _V:
        """The value of one message.

        Raises:
            Malformed: it is none, or none that this build knows.
        """
        message = parse(self._type, data, self._max_bytes, self._what)
        name = message.WhichOneof("message")
        form = self._forms.get(name)
        if name is None or form is None:
            raise Malformed(f"{self._what}: a message of an unknown type")
        found: _V = form.read(getattr(message, name))
        return found


PLAIN = FieldForm()
"""As it came: a number, a flag, or a text that is only shown and that the size of the whole message
bounds."""


def word(limit: int = MAX_WORD, *, empty: bool = False) -> FieldForm:
    """A text of so many characters; empty only where *empty* says so."""
    return FieldForm(
        sizes=(0 if empty else 1, limit),
        refusal=lambda came: f"it is longer than {limit} characters" if came else "missing",
    )


def words(count: int, limit: int = MAX_WORD) -> FieldForm:
    """So many texts."""
    each = word(limit)

    def refusal(came: Sequence[str]) -> str:
        if len(came) > count:
            return f"more than {count}"
        return each.refusal(next(one for one in came if not 0 < len(one) <= limit))

    return FieldForm(sizes=(0, count), item_sizes=each.sizes, refusal=refusal, read=tuple)


def shown(limit: int) -> FieldForm:
    """A text that nothing rests on: one that is longer is as none."""
    return FieldForm(read=lambda came: came if len(came) <= limit else "")


def octets(size: int, *, empty: bool = False) -> FieldForm:
    """Just so many bytes; or, with *empty*, none."""
    return FieldForm(
        sizes=(0 if empty else size, size),
        fits=(lambda came: len(came) in (0, size)) if empty else None,
        refusal=lambda came: f"not {size} bytes",
    )


def bounded(most: int) -> FieldForm:
    """At most so many bytes."""
    return FieldForm(sizes=(0, most), refusal=lambda came: f"it is longer than {most} bytes")


def filled(most: int) -> FieldForm:
    """Bytes that are there, and at most so many."""
    return FieldForm(sizes=(1, most), refusal=lambda came: "missing or too long")


def at_most(most: int, refusal: str) -> FieldForm:
    """A number that is no larger."""
    return FieldForm(fits=range(most + 1).__contains__, refusal=lambda came: refusal)


def cut_to(most: int) -> FieldForm:
    """A number; a larger one is as this."""
    return FieldForm(read=partial(min, most))


def one_of(values: Mapping[str, Any], refusal: str) -> FieldForm:
    """One of these words, for what the value has."""
    return FieldForm(
        fits=values.__contains__, read=values.__getitem__, refusal=lambda came: refusal
    )


def flag(no: int, yes: int) -> FieldForm:
    """A flag that is one of two numbers on the wire."""
    return FieldForm(write=(no, yes).__getitem__, read=partial(eq, yes))


def chain(most: int = MAX_CHAIN_CERTIFICATES, *, empty: bool = False) -> FieldForm:
    """A bounded chain of DER certificates, leaf first; not looked into here."""

    def refusal(came: Sequence[bytes]) -> str:
        if not came:
            return "missing"
        if len(came) > most:
            return f"more than {most} certificates"
        return "a certificate is empty or too long"

    return FieldForm(
        sizes=(0 if empty else 1, most),
        item_sizes=(1, MAX_CERTIFICATE_BYTES),
        refusal=refusal,
        read=tuple,
    )


def part(form: MessageForm[Any, Any], *, optional: bool = False) -> FieldForm:
    """A message inside the message; with *optional*, None where it is absent."""
    return FieldForm(write=form.written, read=form.read, is_optional=optional)


def parts(form: MessageForm[Any, Any], most: int | None = None) -> FieldForm:
    """Several messages inside the message."""
    return FieldForm(
        write=lambda values: [form.written(one) for one in values],
        read=lambda came: tuple([form.read(one) for one in came]),
        sizes=None if most is None else (0, most),
        refusal=lambda came: f"more than {most}",
    )


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    """In the one order that is signed, whatever order they were put in."""
    pairs = sorted(values.items()) if values else ()
    return [{"name": name, "value": value} for name, value in pairs]


def _read_pairs(what: str, came: Sequence[Parameter]) -> dict[str, str]:
    return read_pairs([(one.name, one.value) for one in came], what) if came else {}


NAME = word(MAX_NAME)
NAME_OR_EMPTY = word(MAX_NAME, empty=True)
WORD = word()
WORD_OR_EMPTY = word(empty=True)

UID = evolve(octets(UID_BYTES), write=bytes.fromhex, read=bytes.hex)
"""A random id: 16 bytes on the wire, 32 hex digits inside."""

RANDOM_ID = FieldForm(fits=is_random_id, refusal=lambda came: "not 32 hex digits")
"""A random id that is hex digits on the wire, too."""

DIGEST = octets(DIGEST_BYTES)
PAYLOAD = filled(MAX_SIGNED_BYTES)
"""Bytes that were signed."""

SIGNATURE = filled(MAX_SIGNATURE_BYTES)
PAIRS = FieldForm(write=dict, read=dict)
"""A map of texts."""

PARAMETERS = FieldForm(write=_pairs, read_as=_read_pairs)
"""Names and values, in ascending order."""

HEAD = FieldForm(
    sizes=(0, MAX_HEAD_BYTES), refusal=lambda came: f"more than {MAX_HEAD_BYTES} bytes"
)
"""The line of a signed head, limited in size but not decoded here; empty if there is none."""

HEADS = FieldForm(
    sizes=(0, MAX_HEADS),
    item_sizes=HEAD.sizes,
    refusal=lambda came: f"more than {MAX_HEADS}" if len(came) > MAX_HEADS else HEAD.refusal(came),
    read=tuple,
)


def signed_part(most: int = MAX_SIGNED_BYTES) -> FieldForm:
    """Bytes that were signed, where the message is about nothing else."""
    return FieldForm(
        sizes=(1, most),
        refusal=lambda came: "the signed part is missing or too long",
        called="",
    )


THE_SIGNATURE = evolve(
    SIGNATURE, refusal=lambda came: "the signature is missing or too long", called=""
)
"""A signature, where the message is about nothing else."""


def signature_form(
    message_type: type[_M], payload: str, what: str, /, *, most: int = MAX_SIGNED_BYTES
) -> MessageForm[_M, Signed]:
    """How something signed travels inside other messages: payload, signature, chain; unverified.

    Args:
        payload: The name of the field with the signed bytes.
        most: How many they may be.
    """
    return MessageForm(
        message_type,
        Signed,
        what,
        payload=signed_part(most).named(payload),
        signature=THE_SIGNATURE,
        chain=chain(),
    )
