"""gRPC's interoperability cases: stock clients and servers against a gateway's own."""
