"""Logs, metrics, traces, and the plain HTTP listener that serves them.

This is the only room that knows the names of series and log formats.  It decides nothing and holds
no state that another room reads.  Begin with ``series`` and ``logs``.
"""
