"""Make pytest run the tests where trial would: in a folder that is thrown away.

``TestCase.mktemp`` makes its folders in the working directory, which trial
moves out of the checkout and pytest does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _thrown_away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = Path.cwd()
    folder = tmp_path_factory.mktemp("trial")
    os.chdir(folder)
    yield folder
    os.chdir(before)
