"""The distribution root."""
