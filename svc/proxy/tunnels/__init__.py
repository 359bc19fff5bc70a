"""Connectors at a Proxy: they register, Authority says whether they may stay, and they end.

Begin with ``service``.
"""
