"""The Python client as the tests import it: its sources beside fresh stubs, in the build folder."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import sys
import tempfile

SOURCE_DIR = pathlib.Path(os.environ.get("FAIRGATE_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD_DIR = pathlib.Path(os.environ.get("FAIRGATE_BUILD_DIR", SOURCE_DIR / "build" / "dev"))
CLIENT_DIR = SOURCE_DIR / "client" / "python"


def stage() -> pathlib.Path:
    """A folder for sys.path. Tests run side by side: each makes one aside, and one rename wins."""
    sys.path.insert(0, str(CLIENT_DIR))
    import build_stubs

    protos = sorted((build_stubs.proto_dir() / "fairgate" / "v1").glob("*.proto"))
    sources = sorted((CLIENT_DIR / "src" / "fairgate").glob("[!.]*.*"))
    key = hashlib.sha256(b"".join(path.read_bytes() for path in protos) + "".join(map(str, sources)).encode())
    target = BUILD_DIR / "client-python" / key.hexdigest()[:16]
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = pathlib.Path(tempfile.mkdtemp(dir=target.parent))
        try:
            build_stubs.generate(aside)
            for source in sources:
                (aside / "fairgate" / source.name).symlink_to(source)
            aside.rename(target)
        except OSError:
            if not target.exists():
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return target


sys.path.insert(0, str(stage()))
