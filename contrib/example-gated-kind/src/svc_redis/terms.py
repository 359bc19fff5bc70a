"""How policies speak of it."""

from svc.interfaces.kinds import KindEvent, KindTerms
from svc.model.session.parameters import Parameter

TERMS = KindTerms(
    "RedisServer",
    open_action="redisConnect",
    actions={"redisConnect": "db_connect", "redisRead": "db_query", "redisWrite": "db_query"},
    context={"key": "String personal"},
    events={"redis.unknown": KindEvent("a command not known", {"size": "number public"})},
    parameters={
        "database": Parameter(form="[0-9]{1,4}", fact="public", enforced=True, default="0"),
    },
    reasons={"unknown_command": "svc does not know this command, or its form"},
)
