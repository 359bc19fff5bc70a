"""Logs, metrics, traces and the plain HTTP listener that shows them.

The only room that knows series names and log formats.  It decides nothing and
holds no state that another room reads.
"""
