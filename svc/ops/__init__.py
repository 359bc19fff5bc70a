"""An operator's work beside a gateway: backups, restores, verifying the log.

Works on files and stores, whether or not a role runs; nothing here serves anybody.
"""
