"""Recordings at a Connector: written sealed, kept until Authority confirms them, then removed.

``buffers`` bounds what they take of the disk and owns their thread, ``recorder`` is what a kind
records a session with, and ``uploads`` brings their files to Authority.
"""
