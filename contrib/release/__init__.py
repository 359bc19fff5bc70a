"""Makes a release: what is planned, the artifacts, their bill, checksums and signature.

Begin with ``__main__``.  The names of everything are those of :mod:`svc.model.release`, by which an
operator's preflight reads them.
"""
