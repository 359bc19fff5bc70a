"""Every seam of the house, one page a subject.

Import the page, not this package: ``from svc.interfaces.store import IStore``.
"""
