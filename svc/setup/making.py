"""Writes a plan to disk: creates everything in a temporary place, then moves it at once.

A rename is the last step, so a directory that is there is whole; whatever ends
us before leaves nothing under the name that was asked for.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import field, frozen

from svc.config import load_settings, read_settings
from svc.errors import ConfigError, Fault, SvcError
from svc.model.ids import Entropy
from svc.pki.files import make_private_directory
from svc.pki.keyring import create_cluster, root_key_pem
from svc.pki.profile import DAY
from svc.runtime import durable
from svc.setup.plan import AUTHORITY, InitPlan
from svc.setup.texts import FIRST_POLICY, configurations, holder_configuration

POLICY = "policy.cedar"


class AlreadyThere(SvcError):
    """What is to be written is there already, and nothing is overwritten."""

    fault = Fault.EXISTS
    reason = "already_exists"


def check_free(plan: InitPlan) -> None:
    """Refuse before anything is made what would be refused in the end.

    Raises:
        AlreadyThere: the directory holds something, or the root key's file is there.
        ConfigError: there is nowhere to write.
    """
    directory = plan.directory
    if os.path.lexists(directory):
        if not directory.is_dir() or directory.is_symlink():
            raise AlreadyThere(f"{directory}: exists and is not a directory; choose another one")
        if directory.samefile(Path.cwd()):
            # Its place is taken by another directory; a shell in it would stand in none.
            raise AlreadyThere(f"{directory}: is the working directory; choose a new one")
        if any(directory.iterdir()):
            raise AlreadyThere(
                f"{directory}: is not empty, and svc overwrites nothing; choose another directory"
            )
    if plan.root_key is not None and os.path.lexists(plan.root_key):
        raise AlreadyThere(f"--root-key-to {plan.root_key}: already exists")


@frozen
class Stage:
    """Where a plan is being made.

    Attributes:
        path: The directory that will take the plan's place.
        outside: Files made elsewhere; without the cluster they are of no use.
    """

    path: Path
    outside: list[Path] = field(factory=list)


@contextmanager
def staged(plan: InitPlan, entropy: Entropy) -> Iterator[Stage]:
    """A private directory next to the plan's; it replaces that when the block succeeds.

    Blocks for the disk.

    Raises:
        AlreadyThere: something stands in the place.
        ConfigError: the place cannot be written.
    """
    check_free(plan)
    parent = plan.directory.parent
    stage = parent / f".{plan.directory.name}.{entropy(4).hex()}.new"
    try:
        make_private_directory(stage)
    except OSError as error:
        raise ConfigError(str(parent), (error.strerror or "cannot be written").lower()) from None
    made = Stage(stage)
    try:
        yield made
        _take_place(stage, plan.directory)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        for file in made.outside:
            file.unlink(missing_ok=True)
        raise
    durable.sync_directory(parent)


def write(plan: InitPlan, stage: Stage, now: Callable[[], float], entropy: Entropy) -> str:
    """Write keys, configurations and directories into *stage*; the cluster's pin.

    Raises:
        SvcError: a configuration would be refused, or the disk refused.
    """
    ca_pin = plan.ca_pin
    for state in _states(plan):
        make_private_directory(stage.path / state)
    if plan.makes_keys:
        ca_pin = _write_keys(plan, stage, now, entropy)
        durable.write_new(stage.path / POLICY, FIRST_POLICY.encode("utf-8"))
    for name, text in configurations(plan, ca_pin).items():
        path = stage.path / name
        durable.write_new(path, text.encode("utf-8"))
        # What the roles would refuse is refused here, before it has a place.
        load_settings(str(path), name.removesuffix(".toml"), {})
    durable.sync_directory(stage.path)
    return ca_pin


def make(plan: InitPlan, now: Callable[[], float], entropy: Entropy) -> str:
    """Make all of a plan whose roles are separate; the cluster's pin.  Blocks for the disk.

    Raises:
        SvcError: nothing was made.
    """
    plan.check()
    with staged(plan, entropy) as stage:
        return write(plan, stage, now, entropy)


def _states(plan: InitPlan) -> list[Path]:
    """The directories to make, by their place in the plan's, outer ones first."""
    if plan.is_one:
        return [Path("state"), *(Path("state") / role for role in plan.state)]
    return [Path(role) for role in plan.roles]


def _write_keys(plan: InitPlan, stage: Stage, now: Callable[[], float], entropy: Entropy) -> str:
    state = stage.path / plan.state[AUTHORITY].relative_to(plan.directory)
    # What the keys' holder will read is what they are made by.
    read = read_settings(holder_configuration(plan), plan.holder)
    keys = create_cluster(
        state / "keys",
        plan.cluster,
        now,
        entropy,
        keep_root_key=plan.root_key is None,
        issuer_lifetime=read.identity.issuing_ca_days * DAY,
    )
    if plan.root_key is not None:
        # The only copy is on the disk before anything of this cluster is in its place.
        stage.outside.append(plan.root_key)
        try:
            durable.write_new(plan.root_key, root_key_pem(keys))
            durable.sync_directory(plan.root_key.parent)
        except OSError as error:
            where = f"--root-key-to {plan.root_key}"
            raise ConfigError(where, (error.strerror or "cannot be written").lower()) from None
    return keys.ca_pin


def _take_place(stage: Path, directory: Path) -> None:
    try:
        durable.move(stage, directory)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise AlreadyThere(
                f"{directory}: was created in the meantime; nothing was overwritten"
            ) from None
        raise ConfigError(str(directory), (error.strerror or "cannot be created").lower()) from None
