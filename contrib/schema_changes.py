"""Check that messages between roles only grow: what the newest tag speaks, this checkout reads.

    python -m contrib.schema_changes

Compares the proto files with those of the newest tag that this commit descends from, if there is
one.  Fields are only added; a number that is given up is reserved, and never used again.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

SCHEMA = "svc/proto"


def schema(root: Path) -> FileDescriptorSet:
    """The proto files of a checkout; SystemExit if protoc refuses one."""
    import grpc_tools
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).parent / "_proto"
    names = [
        path.relative_to(root).as_posix() for path in sorted(root.glob(f"{SCHEMA}/**/*.proto"))
    ]
    with TemporaryDirectory() as place:
        out = Path(place, "schema")
        options = [f"-I{root}", f"-I{well_known}", f"--descriptor_set_out={out}"]
        if protoc.main(["protoc", *options, *names]) != 0:
            sys.exit("protoc refused the proto files")
        return FileDescriptorSet.FromString(out.read_bytes())


def findings(before: FileDescriptorSet, now: FileDescriptorSet) -> Iterator[str]:
    """What of *before* is not understood any more, or would be understood as something else."""
    messages, enums = dict(_messages(now)), dict(_enums(now))
    for name, message in _messages(before):
        if name in messages:
            yield from _of_message(name, message, messages[name])
        else:
            yield f"{name}: is gone"
    for name, enum in _enums(before):
        if name in enums:
            yield from _of_enum(name, enum, enums[name])
        else:
            yield f"{name}: is gone"
    calls = dict(_calls(now))
    for name, form in _calls(before):
        if calls.get(name) != form:
            yield f"{name}: is gone" if name not in calls else f"{name}: takes or answers another"


def _of_message(name: str, before: DescriptorProto, now: DescriptorProto) -> Iterator[str]:
    fields = {field.number: field for field in now.field}
    kept = [range(one.start, one.end) for one in now.reserved_range]
    for field in before.field:
        other = fields.get(field.number)
        if other is None:
            if not any(field.number in numbers for numbers in kept):
                yield f"{name}.{field.name}: is gone, and its number {field.number} not reserved"
        elif _form(other) != _form(field):
            yield f"{name}.{field.name}: number {field.number} has another type now"
        elif other.name != field.name:
            yield f"{name}.{field.name}: number {field.number} is {other.name} now"
    for numbers in (range(one.start, one.end) for one in before.reserved_range):
        for number in sorted(fields.keys() & set(numbers)):
            yield f"{name}.{fields[number].name}: uses the reserved number {number} again"


def _form(field: FieldDescriptorProto) -> tuple[object, ...]:
    is_repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    return field.type, field.type_name, is_repeated


def _of_enum(name: str, before: EnumDescriptorProto, now: EnumDescriptorProto) -> Iterator[str]:
    values: Mapping[int, str] = {one.number: one.name for one in now.value}
    for one in before.value:
        if values.get(one.number) != one.name:
            yield f"{name}.{one.name}: number {one.number} is {values.get(one.number, 'gone')} now"


def _messages(files: FileDescriptorSet) -> Iterator[tuple[str, DescriptorProto]]:
    for file in files.file:
        yield from _nested(file.package, file.message_type)


def _nested(
    prefix: str, messages: Iterable[DescriptorProto]
) -> Iterator[tuple[str, DescriptorProto]]:
    for one in messages:
        name = f"{prefix}.{one.name}"
        yield name, one
        yield from _nested(name, one.nested_type)


def _enums(files: FileDescriptorSet) -> Iterator[tuple[str, EnumDescriptorProto]]:
    for file in files.file:
        yield from ((f"{file.package}.{one.name}", one) for one in file.enum_type)
    for name, message in _messages(files):
        yield from ((f"{name}.{one.name}", one) for one in message.enum_type)


def _calls(files: FileDescriptorSet) -> Iterator[tuple[str, tuple[object, ...]]]:
    for file in files.file:
        yield from _calls_of(file)


def _calls_of(file: FileDescriptorProto) -> Iterator[tuple[str, tuple[object, ...]]]:
    for service in file.service:
        for one in service.method:
            form = one.input_type, one.output_type, one.client_streaming, one.server_streaming
            yield f"{file.package}.{service.name}/{one.name}", form


def of_newest_tag(root: Path) -> FileDescriptorSet | None:
    """The proto files of the newest tag; None: there is no tag, or it had none."""
    words = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    told = subprocess.run(words, cwd=root, capture_output=True, text=True)
    if told.returncode:
        return None
    packed = ["git", "archive", told.stdout.strip(), SCHEMA]
    done = subprocess.run(packed, cwd=root, capture_output=True)
    if done.returncode:
        return None
    with TemporaryDirectory() as place, tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(place, filter="data")
        return schema(Path(place))


def main(root: Path = Path()) -> int:
    """The exit status."""
    before = of_newest_tag(root)
    wrong = [] if before is None else list(findings(before, schema(root)))
    for each in wrong:
        print(
            f"{SCHEMA}: {each}; older roles would misread it: add a field, and reserve the number"
        )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
