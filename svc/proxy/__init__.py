"""The Proxy role: the public listener, the gate, the routes, and the way to Authority.

It is a courier (rule R1): it decides by what Authority signed, carries what
persons, nodes and Authority signed, and can make none of it.
"""
