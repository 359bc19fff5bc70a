"""What is done with the audit log while an Authority runs: look at records, erase, the queue.

Each module holds one command or group of ``svc authority audit``; :mod:`svc.cli.authority.commands`
lists them.
"""
