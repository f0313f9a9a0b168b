"""Makes the wheel and the source distribution, with Python's own library alone.

pip calls the hooks of PEP 517. By hand: python3 build_backend.py DIRECTORY
The same files make the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import sys
import tarfile
import zipfile
from typing import Any, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "corral_exec"
TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can hold


def _read(path: str) -> bytes:
    with open(os.path.join(HERE, path), "rb") as f:
        return f.read()


def _version() -> str:
    found = re.search(r'^__version__ = "([^"]+)"$', _read("corral/__init__.py").decode(), re.M)
    if found is None:
        raise ValueError("corral/__init__.py has no version")
    return found.group(1)


def _project(key: str) -> str:
    found = re.search(rf'^{key} = "([^"]+)"$', _read("pyproject.toml").decode(), re.M)
    if found is None:
        raise ValueError(f"pyproject.toml has no {key}")
    return found.group(1)


def _metadata() -> bytes:
    return "\n".join([
        "Metadata-Version: 2.1",
        f"Name: {_project('name')}",
        f"Version: {_version()}",
        f"Summary: {_project('description')}",
        "License: Apache-2.0",
        f"Requires-Python: {_project('requires-python')}",
        "Description-Content-Type: text/markdown",
        "",
        _read("README.md").decode(),
    ]).encode()


def _package() -> List[str]:
    found = []
    for directory in ("corral", "corral/adapters"):
        found += [f"{directory}/{n}" for n in os.listdir(os.path.join(HERE, directory)) if n.endswith(".py") or n == "py.typed"]
    return sorted(found)


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None) -> str:
    info = f"{NAME}-{_version()}.dist-info"
    files: Dict[str, bytes] = {path: _read(path) for path in _package()}
    files[info + "/METADATA"] = _metadata()
    files[info + "/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: corral\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[info + "/RECORD"] = (record + info + "/RECORD,,\n").encode()
    name = f"{NAME}-{_version()}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    base = f"{NAME}-{_version()}"
    files = {path: _read(path) for path in [*_package(), "README.md", "build_backend.py", "pyproject.toml"]}
    files["PKG-INFO"] = _metadata()
    with open(os.path.join(sdist_directory, base + ".tar.gz"), "wb") as out, \
            gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{base}/{path}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return base + ".tar.gz"


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for build in (build_wheel, build_sdist):
        print(os.path.join(sys.argv[1], build(sys.argv[1])))
