"""Calling gRPC: a channel over one connection, and dialing one."""
