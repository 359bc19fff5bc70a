"""Every interface between rooms, one module for each subject.

There is no behaviour here.  Import the module, not this package:
``from svc.interfaces.store import IStore``.
"""
