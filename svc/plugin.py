"""Load the drop-ins that the configuration names, what they name themselves, and no others.

A drop-in is one module of the namespace package ``svc.plugins``; the word that
operators write is its name behind a prefix (``tcp`` with prefix ``kind`` is
``svc/plugins/kind_tcp.py``).  Installed is not enabled: nothing is imported,
listed by import, cached or unpickled that was not named.  Whatever is wrong
with a named drop-in stops the start.
"""

from __future__ import annotations

import grp
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from hashlib import sha256
from importlib import import_module, metadata
from importlib.util import module_from_spec, spec_from_file_location
from shlex import quote
from types import ModuleType

from attrs import evolve, frozen
from zope.interface import Interface
from zope.interface.exceptions import Invalid
from zope.interface.verify import verifyObject

from svc import __version__
from svc.errors import PluginError

PACKAGE = "svc.plugins"
_OWN = os.path.dirname(os.path.realpath(__file__))
_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")


@frozen
class PluginRecord:
    """What ``role.start`` records of a drop-in.

    ``version`` is that of the distribution which brought it; empty for one
    that no distribution lists.
    """

    name: str
    path: str
    version: str
    sha256: str


@frozen
class LoadedPlugin:
    """One drop-in: the provider found in it, its record, and its module."""

    provider: object
    record: PluginRecord
    module: ModuleType

    def resolve(self, reference: str) -> object:
        """What ``module:NAME`` is; ``:NAME`` is in the drop-in itself.  Blocking; imports it.

        A module that is not svc's own is taken as the drop-in is: nobody else may write it,
        nor the packages it is in, and what runs are its bytes.

        Raises:
            PluginError: there is nothing of that name, or it cannot be trusted or imported.
        """
        label = _label(self.record, reference)
        module_name, name = _parts(label, reference)
        module = self.module if not module_name else _named(label, module_name)
        try:
            return getattr(module, name)
        except AttributeError:
            raise PluginError(f"{label}: there is no {name} in {module.__name__}") from None


def with_modules(loaded: LoadedPlugin, references: Iterable[str]) -> LoadedPlugin:
    """The drop-in with a digest that covers every module named, whoever imports it (R21).

    Raises:
        PluginError: a module cannot be found or read.
    """
    digests = {}
    for reference in references:
        label = _label(loaded.record, reference)
        module_name, _ = _parts(label, reference)
        if module_name and not _is_own(module_name):
            for name, path in _files(label, module_name):
                digests[name] = sha256(_read(label, path)).hexdigest()
    if not digests:
        return loaded
    named = "".join(f"{name} {digest}\n" for name, digest in sorted(digests.items()))
    whole = sha256(f"{loaded.record.sha256}\n{named}".encode()).hexdigest()
    return evolve(loaded, record=evolve(loaded.record, sha256=whole))


def load(
    interface: type[Interface],
    prefix: str,
    names: Iterable[str],
    folders: Sequence[str] | None = None,
) -> tuple[LoadedPlugin, ...]:
    """Import the named drop-ins, in the order named.  Blocking; before the reactor runs.

    Args:
        interface: What each must provide; asked with ``verifyObject``.
        prefix: The module's name begins with it and an underscore.
        names: The operator's words.
        folders: Where to look; by default :func:`plugin_folders`.

    Raises:
        PluginError: naming the word and what is wrong with it.
    """
    places = plugin_folders() if folders is None else tuple(folders)
    return tuple(_load(interface, prefix, name, places) for name in names)


def plugin_folders() -> tuple[str, ...]:
    """The folders of ``svc.plugins``: beside ``svc`` itself and in installed distributions.

    The working directory is never one of them unless ``svc`` itself lies there
    or it is where distributions are installed.
    """
    found = [os.path.join(_OWN, "plugins")]
    for place in sys.path:
        if not place or not os.path.isabs(place) or not _holds_distributions(place):
            continue
        folder = os.path.join(os.path.realpath(place), "svc", "plugins")
        if os.path.isdir(folder) and folder not in found:
            found.append(folder)
    return tuple(found)


def _holds_distributions(place: str) -> bool:
    """Whether this entry of the path is where an installer puts distributions."""
    return os.path.basename(os.path.normpath(place)) in ("site-packages", "dist-packages")


def _load(
    interface: type[Interface], prefix: str, name: str, places: tuple[str, ...]
) -> LoadedPlugin:
    if not _WORD.match(name):
        raise PluginError(f"{prefix} {ascii(name)[:60]}: is not a valid drop-in name")
    label = f"{prefix} {name}"
    path = _find(prefix, name, label, places)
    for each in (path, os.path.dirname(path)):
        _check_owner(label, each)
    data = _read(label, path)
    module = _import(label, f"{PACKAGE}.{prefix}_{name}", path, data)
    provider = _provider(interface, name, label, module)
    record = PluginRecord(
        name=name, path=path, version=_version(path), sha256=sha256(data).hexdigest()
    )
    return LoadedPlugin(provider, record, module)


def _label(record: PluginRecord, reference: str) -> str:
    return f"{record.name}: {ascii(reference)[:80]}"


def _parts(label: str, reference: str) -> tuple[str, str]:
    module_name, colon, name = reference.partition(":")
    if not colon or not name.isidentifier():
        raise PluginError(f"{label}: must be written as module:NAME")
    if module_name == PACKAGE or module_name.startswith(f"{PACKAGE}."):
        # Anybody's distribution may put modules there: they are not svc's own.
        raise PluginError(f"{label}: must not be in {PACKAGE}; name a module of a package of yours")
    return module_name, name


def _is_own(module_name: str) -> bool:
    return module_name.partition(".")[0] == "svc"


def _named(label: str, module_name: str) -> ModuleType:
    if _is_own(module_name):
        try:
            return import_module(module_name)
        except ImportError as error:
            raise PluginError(f"{label}: cannot be imported: {error}") from error
    for name, path in _files(label, module_name):
        for each in (path, os.path.dirname(path)):
            _check_owner(label, each)
        module = _import(label, name, path, _read(label, path))
    return module


def _files(label: str, module_name: str) -> list[tuple[str, str]]:
    """A module and the packages it is in, from the outermost, each with its file."""
    parts = module_name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise PluginError(f"{label}: is not the name of a module")
    for place in sys.path:
        if not place or not os.path.isabs(place) or not _holds_distributions(place):
            continue
        top = os.path.join(os.path.realpath(place), parts[0])
        if not (os.path.isfile(f"{top}.py") or os.path.isdir(top)):
            continue
        folders = [os.path.join(top, *parts[1:at]) for at in range(1, len(parts))]
        paths = [os.path.join(folder, "__init__.py") for folder in folders]
        paths.append(f"{os.path.join(top, *parts[1:])}.py")
        names = [".".join(parts[: at + 1]) for at in range(len(parts))]
        return list(zip(names, paths, strict=True))
    raise PluginError(f"{label}: no such module is installed")


def _find(prefix: str, name: str, label: str, places: tuple[str, ...]) -> str:
    file = f"{prefix}_{name}.py"
    found = [os.path.join(place, file) for place in places]
    found = [path for path in found if os.path.lexists(path)]
    packages = [os.path.join(place, file[:-3]) for place in places]
    if len(found) > 1:
        raise PluginError(f"{label}: found twice: {' and '.join(found)}")
    if not found:
        if any(os.path.isdir(path) for path in packages):
            raise PluginError(f"{label}: must be one module, not a package")
        raise PluginError(f"{label}: no such drop-in{_nearest(prefix, name, places)}")
    return found[0]


def installed(prefix: str, folders: Sequence[str] | None = None) -> tuple[str, ...]:
    """The words of the drop-ins there are, by their files' names alone; nothing is imported."""
    begin = f"{prefix}_"
    places = plugin_folders() if folders is None else folders
    words = {
        file[len(begin) : -3]
        for place in places
        if os.path.isdir(place)
        for file in os.listdir(place)
        if file.startswith(begin) and file.endswith(".py")
    }
    return tuple(sorted(word for word in words if _WORD.match(word)))


def _nearest(prefix: str, name: str, places: tuple[str, ...]) -> str:
    """What to try instead."""
    known = installed(prefix, places)
    close = get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; installed: {', '.join(known)}" if known else "; none is installed"


def _check_owner(label: str, path: str) -> None:
    """Refuse what another user could change (R21)."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode) or not (
        stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    ):
        raise PluginError(f"{label}: {path} is not a regular file or directory")
    if status.st_uid not in (0, os.geteuid()):
        raise PluginError(f"{label}: {path} belongs to another user")
    shared = stat.S_IWOTH if _private_group(status) else stat.S_IWOTH | stat.S_IWGRP
    if status.st_mode & shared:
        raise PluginError(f"{label}: other users can write to {path}; run chmod go-w {quote(path)}")


def _private_group(status: os.stat_result) -> bool:
    """Whether the file's group is its owner's own, with nobody else in it."""
    if status.st_gid != status.st_uid:
        return False
    try:
        return not grp.getgrgid(status.st_gid).gr_mem
    except KeyError:
        return False


def _read(label: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise PluginError(f"{label}: {path} cannot be read: {error.strerror}") from None


def _import(label: str, module_name: str, path: str, data: bytes) -> ModuleType:
    """Run exactly the bytes that were digested; no byte code of a cache is read."""
    is_package = os.path.basename(path) == "__init__.py"
    folders = [os.path.dirname(path)] if is_package else None
    spec = spec_from_file_location(module_name, path, submodule_search_locations=folders)
    if spec is None:
        raise PluginError(f"{label}: {path} is not a Python module")
    present = sys.modules.get(module_name)
    if present is not None and getattr(present, "__file__", None) == path:
        return present
    module = module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        exec(compile(data, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del sys.modules[module_name]
        # One that would end the process, with whatever status, is broken like any other.
        if not isinstance(error, Exception | SystemExit):
            raise
        kind = type(error).__name__
        raise PluginError(f"{label}: {path} cannot be imported: {kind}: {error}") from error
    return module


def _provider(interface: type[Interface], name: str, label: str, module: ModuleType) -> object:
    providers = {
        id(value): value
        for value in vars(module).values()
        if not isinstance(value, type) and interface.providedBy(value)
    }
    if len(providers) != 1:
        count = "none" if not providers else f"{len(providers)} of them"
        raise PluginError(
            f"{label}: must hold exactly one object that provides "
            f"{interface.__name__}; found {count}"
        )
    (provider,) = providers.values()
    try:
        verifyObject(interface, provider)
    except Invalid as error:
        what = " ".join(str(error).split())
        raise PluginError(f"{label}: does not implement {interface.__name__}: {what}") from None
    if getattr(provider, "name", None) != name:
        raise PluginError(f"{label}: the object found there has a different name")
    return provider


def _version(path: str) -> str:
    """The version of the distribution that installed *path*; ours for our own drop-ins.

    Where svc is installed, others' drop-ins lie in the same folder as ours: the
    installer's records tell them apart.  A checkout has no records.
    """
    place = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    relative = os.path.relpath(path, place)
    for distribution in metadata.distributions(path=[place]):
        if any(str(file) == relative for file in distribution.files or ()):
            return __version__ if distribution.name == "svc" else distribution.version
    is_own = os.path.dirname(path) == os.path.join(_OWN, "plugins")
    return __version__ if is_own and not _holds_distributions(place) else ""
