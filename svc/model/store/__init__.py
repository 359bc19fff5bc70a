"""Compares the migrations of a store with a build, and a rehearsal's result with the original.

The functions are pure: nothing here opens a store.  Begin with ``migration``.
"""
