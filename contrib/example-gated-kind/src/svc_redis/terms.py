"""How policies speak of it."""

from svc.interfaces.kinds import KindTerms
from svc.model.session.parameters import Parameter

TERMS = KindTerms(
    "RedisServer",
    open_action="redisConnect",
    actions={"redisConnect": "db_connect", "redisRead": "db_query", "redisWrite": "db_query"},
    context={"key": "String personal"},
    parameters={
        "database": Parameter(form="[0-9]{1,4}", fact="public", enforced=True, default="0"),
    },
)
