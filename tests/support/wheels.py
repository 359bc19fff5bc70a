"""Building what the project ships, in a copy, so that the checkout gets no build folder."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import mkdtemp
from unittest import SkipTest
from zipfile import ZipFile

from attrs import frozen

from contrib.release.plan import ReleaseRefused
from contrib.release.static.build import check_builder
from contrib.release.static.packages import copy_installed
from tests.support.tools import STATIC, missing, stock_tool

ROOT = Path(__file__).resolve().parents[2]
_SKIPPED = shutil.ignore_patterns("__pycache__", "dropin.cache", "build", "*.egg-info")


def run_python(
    arguments: Sequence[str], cwd: Path, python: str = sys.executable, seconds: float = 300
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
    [wheel] = _built(own_copy())
    return wheel


@frozen
class Environment:
    """A virtual environment that has svc and examples as wheels, and nothing of the checkout."""

    place: Path
    python: str
    site: Path

    def run(self, *arguments: str) -> str:
        """Run its Python, with nothing of where we are on its path."""
        return run_python(["-P", *arguments], self.place, self.python)


@cache
def environment_with(*names: str) -> Environment:
    """An environment with the wheels of ``contrib/<name>``, made once a process."""
    place = folder() / "environment"
    home = place / "env"
    run_python(["-m", "venv", "--without-pip", str(home)], folder())
    python = str(home / "bin" / "python")
    [site] = home.glob("lib/python*/site-packages")
    # What svc needs is here already.  A line in a .pth file brings the folder, and not what
    # .pth files in it bring: the checkout stays out.
    site.joinpath("others.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n", "utf-8")
    for name in names:
        shutil.copytree(ROOT / "contrib" / name, place / name, ignore=_SKIPPED)
    wheels = [own_wheel(), *_built(*(place / name for name in names))]
    install = pip("--python", python, "install", "--no-deps", "--no-compile", *map(str, wheels))
    run_python(install, place)
    _lend_bytecode(site)
    return Environment(place, python, site)


def _lend_bytecode(site: Path) -> None:
    """Give what was installed the bytecode of the checkout: the files are the same.

    Bytecode is for the time and size of its source.  To compile it again takes longer than all
    tests that run there.
    """
    for source in (ROOT / "svc").rglob("*.py"):
        installed = site / source.relative_to(ROOT)
        compiled = Path(cache_from_source(str(source)))
        if not compiled.exists() or not installed.exists():
            continue
        if installed.read_bytes() == source.read_bytes():
            there = Path(cache_from_source(str(installed)))
            there.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, there)
            os.utime(installed, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))


def _built(*sources: Path) -> list[Path]:
    place = Path(mkdtemp(dir=folder()))
    build = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(place)]
    run_python(pip("wheel", *build, *map(str, sources)), folder())
    return list(place.glob("*.whl"))


@cache
def library_wheels() -> tuple[Path, ...]:
    """A wheel of each locked library, from what is installed here: no network is asked."""
    place = folder() / "libraries"
    place.mkdir()
    locked = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    return tuple(
        _packed(distribution(name), place)
        for name in re.findall(r"^([A-Za-z0-9._-]+)==", locked, re.M)
    )


@cache
def debian_packages() -> Path:
    """The files of the Debian packages of the static file, from what is installed here.

    Raises:
        SkipTest: it cannot be made here.
        AssertionError: likewise, if tools are required (:mod:`tests.support.tools`).
    """
    try:
        check_builder()
    except ReleaseRefused as refused:
        raise SkipTest(refused.text) from None
    for name in STATIC:
        stock_tool(name)
    made = folder() / "debian"
    try:
        copy_installed(made)
    except ReleaseRefused as refused:
        missing(refused.text)
    return made


def _packed(library: Distribution, to: Path) -> Path:
    """The library as a wheel again, without scripts and bytecode."""
    wheel = to / f"{library.name}-{library.version}-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for file in sorted(library.files or (), key=str):
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.writestr(str(file), Path(file.locate()).read_bytes())
    return wheel
