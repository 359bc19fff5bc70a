"""How policies speak of it."""

from svc.interfaces.kinds import KindTerms

TERMS = KindTerms(
    "RedisServer",
    open_action="redisConnect",
    actions={"redisConnect": "db_connect", "redisRead": "db_query", "redisWrite": "db_query"},
    context={"key": "String personal"},
)
