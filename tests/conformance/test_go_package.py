"""The Go client as its users get it: linted, raced, fetched by another module from a proxy, run against a gate."""

from __future__ import annotations

import os
import re
import zipfile

import pytest
from go_module import CLIENT, MODULE, go, run, setting

STATICCHECK = {(1, 26): "v0.8.2", (1, 23): "v0.6.1"}
PATH = "fairgate.io/go/fairgate"
VERSION = "v" + re.search(r'Version = "(.+)"', (CLIENT / "doc.go").read_text())[1]
DIMENSIONS = [
    {"name": "requests", "limit": 1000, "window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"},
    {"name": "tokens", "limit": 20000, "window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"},
]


@pytest.fixture(scope="session")
def proxy(tmp_path_factory):
    """A module proxy that serves the staged module, as a folder."""
    root = tmp_path_factory.mktemp("proxy")
    versions = root / PATH / "@v"
    versions.mkdir(parents=True)
    (versions / "list").write_text(f"{VERSION}\n")
    (versions / f"{VERSION}.info").write_text(f'{{"Version": "{VERSION}"}}')
    (versions / f"{VERSION}.mod").write_text((MODULE / "go.mod").read_text())
    with zipfile.ZipFile(versions / f"{VERSION}.zip", "w") as archive:
        for path in sorted(MODULE.rglob("*")):
            if path.is_file():
                archive.write(path, f"{PATH}@{VERSION}/{path.relative_to(MODULE)}")
    return root


def test_staticcheck(tmp_path):
    ours = tuple(int(part) for part in re.findall(r"\d+", setting("GOVERSION"))[:2])
    version = next(pin for oldest, pin in STATICCHECK.items() if ours >= oldest)
    go("install", f"honnef.co/go/tools/cmd/staticcheck@{version}", GOBIN=str(tmp_path))
    caches = {name: setting(name) for name in ("GOMODCACHE", "GOCACHE")}
    run(tmp_path / "staticcheck", "./...", **caches, PATH=f"{setting('GOROOT')}/bin:{os.environ['PATH']}")


def test_races():
    go("test", "-race", "-count=1", ".", CGO_ENABLED="1")


def test_module_is_tidy():
    go("mod", "tidy", "-diff")


def test_users_fetch_it_and_the_readme_works_when_pasted(proxy, real_gate, tmp_path):
    program = re.search(r"```go\n(package main.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)[1]
    real_gate.configure({"name": "readme-go", "dimensions": DIMENSIONS})
    program = program.replace("127.0.0.1:50051", f"127.0.0.1:{real_gate.port}").replace("openai-prod", "readme-go")
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "main.go").write_text(program)
    # The module at hand must not stay in the tree's cache, which serves the others.
    environment = {
        "GOMODCACHE": str(tmp_path / "mod"),
        "GOCACHE": setting("GOCACHE"),
        "GOFLAGS": "-modcacherw",
        "GOPROXY": f"file://{proxy},file://{setting('GOMODCACHE')}/cache/download,{setting('GOPROXY')}",
        "GONOSUMDB": PATH,
        "GOTOOLCHAIN": "local",
    }
    program = f"{setting('GOROOT')}/bin/go"
    run(program, "mod", "init", "example.com/user", cwd=folder, **environment)
    run(program, "get", f"{PATH}@{VERSION}", cwd=folder, **environment)
    output = run(program, "run", ".", cwd=folder, **environment)
    assert "granted map[requests:1 tokens:9000]" in output, output
    assert re.search(r"^deferred \d+\.\d+s", output, re.MULTILINE), output
    assert real_gate.state("readme-go")["leases_open"] == 0


def test_example_sees_grants_and_a_defer(real_gate):
    limit = {"name": "tokens", "limit": 3000, "window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    real_gate.configure({"name": "example-go", "dimensions": [DIMENSIONS[0], limit]})
    output = go("run", "./examples/call_with_admission", f"127.0.0.1:{real_gate.port}", "example-go", "acme")
    assert re.search(r"^call 1: granted$", output, re.MULTILINE), output
    assert re.search(r"deferred by \d+\.\d{3} s$", output, re.MULTILINE), output
    assert real_gate.state("example-go")["leases_open"] == 0
