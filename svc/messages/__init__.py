"""Converts between wire messages and the model's values, one module for each service.

Decoders take bytes from a peer: they limit what they read, refuse malformed input with
:class:`svc.errors.Malformed`, and return frozen values.  No other room builds or reads one of our
protobuf messages.  It is one shelf: a module for each service, and ``forms`` for all.
"""
