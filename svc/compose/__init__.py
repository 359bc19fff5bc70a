"""From settings to wired services: the only room that names implementations.

``make_<role>`` is synchronous, refuses everything that document 1 refuses at
start, and returns services that have not been started.
"""
