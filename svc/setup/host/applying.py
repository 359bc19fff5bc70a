"""Carries out a setup plan: under a lock, and as root only the very plan that was approved.

The plan is made again under the lock, right before it is carried out, and whatever is written is
what was digested.  Everything that can be refused is refused first; each step may be repeated.
"""

from __future__ import annotations

import fcntl
import grp
import hashlib
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from svc.config.rules import SHARED
from svc.config.source import MAX_BYTES
from svc.errors import Fault, SvcError
from svc.setup.host.planning import PreparedSetup, SetupInputs, prepared
from svc.setup.host.steps import DirectoryStep, FileStep, SetupPlan, Step, UnitStep
from svc.setup.units.install import install_unit
from svc.setup.units.machine import ServiceRefused

LOCK = "run/svc-setup.lock"
_BEFORE_IT = "the steps before it are done, and may be repeated"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class SetupRefused(SvcError):
    """A plan is not carried out."""

    fault = Fault.PRECONDITION
    reason = "setup_refused"


@frozen
class AppliedSetup:
    """What was done.

    Attributes:
        changed: Of each step in turn, whether it changed anything.
    """

    plan: SetupPlan
    changed: tuple[bool, ...]


def apply(inputs: SetupInputs, approved: str) -> AppliedSetup:
    """Carry out the plan that the configuration gives now.  Blocks.

    Args:
        approved: The digest of the plan that an operator has seen; empty: nobody approved one.

    Raises:
        SetupRefused: it is not the plan that was approved, or root needs an approval.
        SvcError: the plan cannot be made, or a step failed.
    """
    if inputs.machine.uid == 0 and not approved:
        raise SetupRefused(
            "root carries out only a plan that was approved: look at it with --dry-run, and give "
            "its digest with --approve-plan",
            reason="plan_not_approved",
        )
    with _locked(inputs):
        ready = prepared(inputs)
        if approved and approved != ready.plan.digest:
            raise SetupRefused(
                "this is another plan than the one that was approved: the configuration, the "
                "program or the options differ; look at it with --dry-run, and approve it anew",
                reason="plan_differs",
            )
        for step in ready.plan.steps:
            _check(step)
        changed = tuple(_carry_out(step, inputs, ready) for step in ready.plan.steps)
    return AppliedSetup(ready.plan, changed)


def _check(step: Step) -> None:
    """Refuse what a step would not change."""
    if not isinstance(step, DirectoryStep) or not os.path.lexists(step.path):
        return
    found = os.lstat(step.path)
    if not stat.S_ISDIR(found.st_mode):
        raise SetupRefused(f"{step.path}: is not a directory", reason="setup_path")
    uid, _ = _ids(step.file_owner)
    if found.st_uid != uid:
        user = step.file_owner.partition(":")[0]
        raise SetupRefused(
            f"{step.path}: belongs to uid {found.st_uid}, not to {user}; stop the role and run "
            f"chown -R {step.file_owner} {step.path}, or name the account with --account",
            reason="setup_owner",
        )


def _carry_out(step: Step, inputs: SetupInputs, ready: PreparedSetup) -> bool:
    try:
        if isinstance(step, DirectoryStep):
            return _directory(step, inputs.machine.root / SHARED.lstrip("/"))
        if isinstance(step, FileStep):
            return _file(step)
    except OSError as error:
        raise SetupRefused(
            f"{step.path}: {(error.strerror or 'failed').lower()}; {_BEFORE_IT}",
            reason="setup_failed",
        ) from None
    assert isinstance(step, UnitStep) and ready.unit is not None
    try:
        return install_unit(inputs.machine, inputs.wanted, ready.unit).changed
    except ServiceRefused as refused:
        said = refused.text.removesuffix("; nothing was changed")
        raise refused.with_(text=f"{said}; {_BEFORE_IT}") from None


def _directory(step: DirectoryStep, shared: Path) -> bool:
    with _above(Path(step.path), shared) as parent:
        name, is_new = os.path.basename(step.path), False
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
            is_new = True
        except FileExistsError:
            pass  # its owner was looked at
        descriptor = os.open(name, _FLAGS, dir_fd=parent)
        try:
            return _own(descriptor, step.file_owner, step.mode) or is_new
        finally:
            os.close(descriptor)


@contextmanager
def _above(path: Path, shared: Path) -> Iterator[int]:
    """The directory above, without following a link that a role's account could have made.

    Args:
        shared: Above the directories of all roles; only root can change what is in it.
    """
    start = shared if shared in path.parents else path.parent
    descriptor = os.open(start, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.parent.relative_to(start).parts:
            below = os.open(name, _FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _file(step: FileStep) -> bool:
    descriptor = os.open(step.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SetupRefused(f"{step.path}: is not a regular file", reason="plan_differs")
        with open(descriptor, "rb", closefd=False) as file:
            digest = hashlib.sha256(file.read(MAX_BYTES + 1)).hexdigest()
        if digest != step.sha256:
            raise SetupRefused(f"{step.path}: changed just now", reason="plan_differs")
        return _own(descriptor, step.file_owner, step.mode)
    finally:
        os.close(descriptor)


def _own(descriptor: int, file_owner: str, mode: str) -> bool:
    """Give an open file or directory its owner and mode; whether it had others."""
    found, (uid, gid) = os.fstat(descriptor), _ids(file_owner)
    is_changed = False
    if found.st_uid != uid or gid not in (-1, found.st_gid):
        os.fchown(descriptor, uid, gid)
        is_changed = True
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != int(mode, 8):
        os.fchmod(descriptor, int(mode, 8))
        is_changed = True
    return is_changed


def _ids(file_owner: str) -> tuple[int, int]:
    """The ids of an owner; without a group the second is -1, which leaves it as it is."""
    user, _, group = file_owner.partition(":")
    return pwd.getpwnam(user).pw_uid, grp.getgrnam(group).gr_gid if group else -1


@contextmanager
def _locked(inputs: SetupInputs) -> Iterator[None]:
    """Keep other setups out: of root any, of a person those of the same directory."""
    if inputs.machine.uid == 0:
        path, flags = inputs.machine.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    else:
        path, flags = Path(inputs.wanted.config).parent, os.O_RDONLY | os.O_DIRECTORY
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        why = (error.strerror or "failed").lower()
        raise SetupRefused(f"{path}: cannot be locked: {why}", reason="setup_locked") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise SetupRefused(
            f"{path}: another setup is under way; try again once it has ended",
            reason="setup_locked",
        ) from None
    finally:
        os.close(descriptor)
