"""Has recorded requests decided again by a candidate policy.  Begin with ``run``."""
