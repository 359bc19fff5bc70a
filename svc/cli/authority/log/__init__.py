"""What is done with the audit log and with recordings: look at them, erase, the queue.

Each module holds one command or group; :mod:`svc.cli.authority.commands` lists them.
"""
