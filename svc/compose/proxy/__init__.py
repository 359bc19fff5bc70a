"""A Proxy, put together."""
