"""Building what the project ships, in a copy, so that the checkout gets no build folder."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

ROOT = Path(__file__).resolve().parents[1]
_SKIPPED = shutil.ignore_patterns("__pycache__", "dropin.cache", "build", "*.egg-info")


def run_python(
    arguments: Sequence[str], cwd: Path, python: str = sys.executable, seconds: float = 120
) -> str:
    """Run Python with *arguments*; what it printed, or AssertionError with all of it.

    Another Python than ours is not told our path: trial's workers name the checkout in theirs,
    which would go before what is installed there.
    """
    is_ours = python == sys.executable
    environ = {k: v for k, v in os.environ.items() if is_ours or k != "PYTHONPATH"}
    done = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{arguments} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def pip(*words: str) -> list[str]:
    """The arguments of a pip that asks nobody and no network."""
    return ["-m", "pip", "--no-input", "--disable-pip-version-check", *words, "--no-index"]


@cache
def folder() -> Path:
    """A folder of this process's own, gone at its end."""
    made = Path(mkdtemp(prefix="svc-wheel-"))
    atexit.register(shutil.rmtree, made)
    return made


@cache
def own_copy() -> Path:
    """A copy of what svc's wheel is built from."""
    source = folder() / "source"
    for name in ("svc", "twisted", "migrations", "requirements"):
        shutil.copytree(ROOT / name, source / name, ignore=_SKIPPED)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source / name)
    return source


@cache
def own_wheel() -> Path:
    """svc's wheel."""
    return _built(own_copy(), "svc")


@cache
def wheel_of(name: str) -> Path:
    """The wheel of a distribution of its own in ``contrib``."""
    source = folder() / name
    shutil.copytree(ROOT / "contrib" / name, source, ignore=_SKIPPED)
    return _built(source, f"{name}-built")


def _built(source: Path, name: str) -> Path:
    place = folder() / f"{name}.wheel"
    build = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(place)]
    run_python(pip("wheel", *build, str(source)), folder())
    return next(place.glob("*.whl"))
