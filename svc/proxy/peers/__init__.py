"""Sessions that go from the Proxy they entered to the Proxy with the tunnel to their Connector.

Where a session enters, its *ingress* Proxy asks the Authority, decides, records and reports, as for
any other; the *egress* Proxy checks the grant, which names both, and passes bytes.  It opens only
through tunnels of its own, so no session goes further than one hop.  Begin with ``route`` for the
one side, with ``service`` for the other.
"""
