"""A Proxy as ``svc proxy`` runs it, whose public listener serves gRPC's test service as well."""

from __future__ import annotations

import os
import sys

from svc.cli import Globals
from svc.cli.roles import run_role
from tests.interop.service import test_service

if __name__ == "__main__":
    sys.exit(run_role(Globals(config=sys.argv[1], environ=os.environ), "proxy", [test_service()]))
