"""A policy text that a command is given."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from svc.errors import Malformed


def given_text(file: Path) -> str:
    """What is in *file* or, for ``-``, comes on stdin; never more than a policy may be."""
    from svc.policy.prescan import PolicyLimits
    from svc.policy.refusals import TOO_LARGE, refused
    from svc.runtime.given_file import read_given

    most = PolicyLimits().bytes
    try:
        data = sys.stdin.buffer.read(most + 1) if str(file) == "-" else read_given(file, most)
    except OSError as failed:
        raise click.UsageError(f"{file}: {failed.strerror}") from None
    if len(data) > most:
        raise refused(TOO_LARGE, f"policy: longer than {most} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Malformed(f"policy: line {line}: is not UTF-8") from None
