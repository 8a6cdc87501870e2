"""Checks the files that are not compiled with the tools that their users would meet."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest
import yaml

SOURCE = pathlib.Path(os.environ["FAIRGATE_SOURCE_DIR"])
TOOLS = pathlib.Path(sys.prefix) / "bin"


def run(*command, cwd=SOURCE, env=None):
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return result.returncode, result.stdout + result.stderr


def check(*command, cwd=SOURCE):
    code, output = run(*command, cwd=cwd)
    assert code == 0, output


def test_dockerfile_passes_hadolint():
    check(TOOLS / "hadolint", "docker/Dockerfile")


def test_image_copies_only_what_exists():
    text = (SOURCE / "docker/Dockerfile").read_text()
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--"):
            for name in words[1:-1]:
                assert (SOURCE / name).exists(), f"docker/Dockerfile copies {name}"


def test_compose_file_is_valid():
    check(TOOLS / "docker-compose", "-f", "docker/compose.yaml", "config", "--quiet")


def test_compose_and_image_agree_on_ports():
    compose = yaml.safe_load((SOURCE / "docker/compose.yaml").read_text())
    published = {str(port).rsplit(":", 1)[-1] for port in compose["services"]["gate"]["ports"]}
    exposed = set()
    for line in (SOURCE / "docker/Dockerfile").read_text().splitlines():
        if line.startswith("EXPOSE "):
            exposed.update(line.split()[1:])
    assert published == exposed


def test_compose_keeps_valkeys_state():
    valkey = yaml.safe_load((SOURCE / "docker/compose.yaml").read_text())["services"]["valkey"]
    command = " ".join(valkey["command"])
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command
    assert valkey["healthcheck"]
    assert any(str(volume).endswith(":/data") for volume in valkey["volumes"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_unit_verifies(tmp_path):
    # The verifier wants the program to exist, so the copy that it reads names one that does.
    unit = (SOURCE / "deploy/systemd/fairgate.service").read_text()
    assert "ExecStart=/usr/bin/fairgate-server " in unit
    copy = tmp_path / "fairgate.service"
    copy.write_text(unit.replace("/usr/bin/fairgate-server", shutil.which("true")))
    code, output = run("systemd-analyze", "verify", copy)
    # Other units of the machine are read along; only what is said of ours counts.
    ours = [line for line in output.splitlines() if "fairgate.service" in line]
    assert not ours, output
    assert code == 0, output


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_unit_is_hardened():
    code, output = run("systemd-analyze", "security", "--offline=true", "--threshold=20", "deploy/systemd/fairgate.service")
    assert code == 0, output


def test_protos_pass_buf_lint():
    check(TOOLS / "buf", "lint", "proto")


def test_setup_script_is_valid_and_refuses_unknown_profiles():
    check("bash", "-n", "deploy/setup/install.sh")
    code, output = run("bash", "deploy/setup/install.sh", "nonsense")
    assert code == 1
    assert "usage:" in output


def test_setup_script_does_nothing_the_second_time():
    started = time.monotonic()
    check("bash", "deploy/setup/install.sh", "test")
    assert time.monotonic() - started < 1.0


def test_setup_script_explains_itself_where_apt_is_missing(tmp_path):
    # A copy of the tree's setup, without stamps, on a path without apt-get.
    setup = tmp_path / "tree/deploy/setup"
    shutil.copytree(SOURCE / "deploy/setup", setup)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "cat", "cut", "dirname", "sha256sum"):
        (tools / name).symlink_to(shutil.which(name))
    code, output = run("bash", setup / "install.sh", "run", env={"PATH": str(tools)})
    assert code == 1
    assert "Debian 12" in output
