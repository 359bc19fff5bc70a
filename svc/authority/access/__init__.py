"""Requests for access: asked for, decided by another person, used by sessions.

A page in the browser can call :class:`svc.authority.access.requests.AccessRequestService` as the
calls of Proxies do: it takes persons that somebody has authenticated, and knows no transport.
"""
