"""The built-in kind ``kube``: Kubernetes API requests, decided one by one.

HTTP is read as in :mod:`svc.kinds.web`.  Begin with ``request`` (what a request is to the API
server) and ``terms``.
"""
