"""Serving gRPC: listeners, TLS below them, their connections, and the calls they serve."""
