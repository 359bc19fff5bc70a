"""What every long-running part uses: services, threads, files, and output to a transport.

Nothing here knows what the gateway does.  Begin with :mod:`svc.runtime.services`.
"""
