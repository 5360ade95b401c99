"""Packs the built-in signatures into the wheel; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithPack(build_py):
    """Copies the sources as always, then packs the signatures among the copies, where the build has what that needs."""

    def run(self) -> None:
        """Builds."""
        super().run()
        if getattr(self, "editable_mode", False):
            return  # a checkout is read as it stands
        built = Path(self.build_lib).resolve()
        sys.path.insert(0, str(built))
        try:
            from firstfault.signatures.loader import read_folder, read_tables
            from firstfault.signatures.pack import write_pack
        except ImportError as missing:
            self.announce(f"signatures are not packed: {missing}", level=3)
            return
        finally:
            sys.path.remove(str(built))
        write_pack(built / "firstfault" / "signatures", lambda folder: (read_folder(folder), read_tables(folder)))


setup(cmdclass={"build_py": BuildWithPack})
