"""The Connector role: keeps its tunnels, verifies each session itself, connects to the targets.

It trusts no Proxy: it verifies grant and request without its help (rule R2).  Begin with
``service`` for tunnels, and ``opening`` and ``admission`` for sessions.  It is one shelf: each
module is a step of one session, or of the tunnel that brings it.
"""
