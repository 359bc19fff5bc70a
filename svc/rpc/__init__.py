"""gRPC on the reactor: servers, channels, and byte streams over calls."""
