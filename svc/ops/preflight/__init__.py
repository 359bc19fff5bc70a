"""What is checked before an upgrade, read only: the artifacts, this Authority, its store, its log.

Begin with ``run``.
"""
