"""What answers are made of."""

import math
from typing import Any

Answer = dict[str, Any]
Limit = tuple[float, list[str]]  # seconds, [layer, dimension]


def up_to_ms(us: float) -> int:
    return math.ceil(us / 1000 - 1e-6) * 1000
