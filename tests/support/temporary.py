"""Directories of a test process, which go as it ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def process_directory(prefix: str = "svc-test-") -> Path:
    """A new directory for as long as this process lasts.

    For what no single test can clean up: a test that can uses ``addCleanup``.
    """
    made = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
