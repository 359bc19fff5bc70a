"""A small Kubernetes API server, in one process with the tests.

It keeps objects, and speaks as kube-apiserver does what kubectl needs: discovery, tables, watches,
patches, logs, and exec, attach and port-forward by WebSocket and by SPDY.  A pod is a directory,
and its commands are real processes.
"""
