"""The built-in kinds with all their sides, as no single program has them."""

from __future__ import annotations

from svc.compose.drop_ins import KindSide, load_kinds
from svc.interfaces.kinds import ServedKind

KINDS = load_kinds(["tcp", "ssh"], *KindSide).by_name
tcp: ServedKind = KINDS["tcp"]
ssh: ServedKind = KINDS["ssh"]
