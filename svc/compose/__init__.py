"""Builds the services of each role from its settings; the only room that names implementations.

``make_<role>`` is synchronous, refuses everything that must be refused at a start, and returns
services that have not been started.  It contains wiring only.  It is one shelf: a module for each
role, and one for each part that several roles have.  Begin with ``process``, then the module of
the role.
"""
