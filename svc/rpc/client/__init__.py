"""The client side of gRPC: connects to an address and makes calls over one connection.

Begin with ``channel``.
"""
