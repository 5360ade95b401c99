"""Prints the development requirements of pyproject.toml, one a line, for installers that know no dependency groups."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
print("\n".join(project["dependency-groups"]["dev"]))
