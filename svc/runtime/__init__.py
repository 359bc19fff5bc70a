"""What every long-running part stands on: services, threads, files, and bytes on their way out.

Nothing here knows what the gateway is about.  Begin with :mod:`svc.runtime.services`.
"""
