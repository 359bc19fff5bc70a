"""Drop-in for twistd: one sub-command a role.

Every twistd on the machine imports this file, so it imports nothing of svc;
``svc.tap`` is looked up by name once its sub-command is chosen.
"""

from twisted.application.reactors import Reactor
from twisted.application.service import ServiceMaker

authority = ServiceMaker(
    "svc authority", "svc.tap.authority", "Access gateway: control plane.", "svc-authority"
)
proxy = ServiceMaker("svc proxy", "svc.tap.proxy", "Access gateway: public side.", "svc-proxy")
connector = ServiceMaker(
    "svc connector", "svc.tap.connector", "Access gateway: side of the targets.", "svc-connector"
)
all_roles = ServiceMaker("svc all", "svc.tap.all", "Access gateway: all roles at once.", "svc-all")
client = ServiceMaker(
    "svc client", "svc.tap.client", "Access gateway: a person's resident.", "svc-client"
)
lean = Reactor("svc", "svc.runtime.reactor", "epoll(4) with less done around each event.")
