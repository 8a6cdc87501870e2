"""Other limiters by their published packages, in an environment of their own: the very scripts that they send."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
import time

import redis

PACKAGES = {"limits": "5.8.0", "litellm": "1.80.0"}
LITELLM_FILE = "litellm/proxy/hooks/parallel_request_limiter_v3.py"
WINDOW_S = 60
LIMIT = 1000  # entries of one key; `limits` keeps a list that long
# hit() of the package itself; the keys that it leaves behind show how it names them
HIT = """
import sys
from limits import RateLimitItemPerMinute, storage, strategies
kept = storage.storage_from_string("redis+unix://" + sys.argv[1])
moving, sliding = strategies.MovingWindowRateLimiter, strategies.SlidingWindowCounterRateLimiter
kind = moving if sys.argv[2] == "moving" else sliding
assert kind(kept).hit(RateLimitItemPerMinute(int(sys.argv[3])), "tenant-0")
"""


class Peers:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"

    def install(self) -> None:
        """Once; litellm without what it needs for serving, as its text alone is read."""
        wanted = "\n".join(f"{name}=={version}" for name, version in PACKAGES.items())
        stamp = self.folder / "packages.txt"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"limits=={PACKAGES['limits']}", "redis"], check=True)
        subprocess.run([*pip, "--no-deps", f"litellm=={PACKAGES['litellm']}"], check=True)
        stamp.write_text(wanted)

    def _package_file(self, path: str) -> pathlib.Path:
        return next(self.folder.glob(f"lib/python3*/site-packages/{path}"))

    def litellm(self, tenants: int, calls: int) -> tuple[str, list[list[bytes]]]:
        """Its rate limiter's script, and arguments of should_rate_limit() for one key's requests and tokens."""
        text = None
        for node in ast.parse(self._package_file(LITELLM_FILE).read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BATCH_RATE_LIMITER_SCRIPT":
                text = ast.literal_eval(node.value)
        assert text, f"{LITELLM_FILE} has no such script"
        out = []
        for i in range(calls):
            tag = f"{{api_key:tenant-{i % tenants}}}"
            keys = [f"{tag}:window", f"{tag}:requests", f"{tag}:window", f"{tag}:tokens"]
            out.append([b"%d" % len(keys), *(k.encode() for k in keys), b"%d" % time.time(), b"%d" % WINDOW_S])
        return text, out

    def limits(
        self, client: redis.Redis, socket: str, kind: str, tenants: int, calls: int
    ) -> tuple[str, list[list[bytes]]]:
        """Its script, and keys and arguments as its own hit() sends them (the package has run it on this server)."""
        client.flushdb()
        subprocess.run([str(self.python), "-c", HIT, socket, kind, str(LIMIT)], check=True)
        made = [key for key in client.keys() if b"tenant-0" in key]
        file = {"moving": "acquire_moving_window", "sliding": "acquire_sliding_window"}[kind]
        text = self._package_file(f"limits/resources/redis/lua_scripts/{file}.lua").read_text()
        assert len(made) == 1, made
        out = []
        for i in range(calls):
            key = made[0].replace(b"tenant-0", b"tenant-%d" % (i % tenants))
            if kind == "moving":
                out.append([b"1", key, b"%.6f" % time.time(), b"%d" % LIMIT, b"%d" % WINDOW_S, b"1"])
            else:
                out.append([b"2", _previous(key), key, b"%d" % LIMIT, b"%d" % WINDOW_S, b"1"])
        client.flushdb()
        return text, out


def _previous(key: bytes) -> bytes:
    """Key of the window before, as the package names it."""
    return key + b"/-1"
