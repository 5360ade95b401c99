"""Prints the development requirements of pyproject.toml, one a line, for installers that know no dependency groups."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def group(name: str) -> list[str]:
    """The requirements of one dependency group."""
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    found: list[str] = tomllib.loads(text)["dependency-groups"][name]
    return found


if __name__ == "__main__":
    print("\n".join(group("dev")))
