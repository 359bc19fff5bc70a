"""An operator's request to the next start, stored next to the anchor and outside the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import define

from svc.errors import Malformed, SvcError
from svc.runtime import durable

_Request = TypeVar("_Request")


@define
class StartupRequestFile(Generic[_Request]):
    """The file of one request, or none. Every method blocks on a disk.

    Attributes:
        form_of: The members of the file for a request.
        request_of: The request that such members describe; raises what reading a form of
            another kind raises.
        refused: Makes the refusal of a file that is malformed, of a sentence.
    """

    path: Path
    form_of: Callable[[_Request], Mapping[str, object]]
    request_of: Callable[[Mapping[str, Any]], _Request]
    refused: Callable[[str], SvcError]

    def read(self) -> _Request | None:
        """The request; None if there is none.

        Raises:
            SvcError: the file is malformed.
        """
        try:
            return self.request_of(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, Malformed):
            raise self.refused(f"{self.path}: cannot be read; remove it") from None

    def write(self, request: _Request) -> None:
        """Ask the next start for it, in the place of what was asked for before."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.replace(self.path, json.dumps(dict(self.form_of(request))).encode() + b"\n")

    def done(self) -> None:
        """It was done, or is not needed."""
        self.path.unlink(missing_ok=True)
