"""Between the wire's messages and the model's values, one module a service.

Decoders take bytes of a peer: they bound what they read, refuse what is not of
its form with :class:`svc.errors.Malformed`, and hand on frozen values.  No
other room builds or reads a protobuf message of ours.
"""
