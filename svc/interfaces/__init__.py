"""Every interface between rooms, one module for each subject.

There is no behaviour here.  It is one shelf: whoever looks for a seam looks here.  Import the
module, not this package:
``from svc.interfaces.store import IStore``.
"""
