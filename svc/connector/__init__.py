"""The Connector role: keeps its tunnels, verifies each session itself, connects to the targets.

It trusts no Proxy: it verifies grant and request without its help (rule R2).  Begin with
``service`` for tunnels, and ``opening`` and ``admission`` for sessions.
"""
