"""``svc service install``: the systemd unit of a role, written and enabled, never started.

``unit`` renders it and touches no file; ``planning`` reads the role's configuration and refuses
what the unit could not run; ``machine`` says whether units can be installed here;
``install`` writes.
"""
