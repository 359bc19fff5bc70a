"""Calls, channels and byte streams, among ourselves and against grpcio."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
