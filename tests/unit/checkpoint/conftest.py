"""Real checkpoints, unpacked for each test that may damage them."""

import tarfile
from pathlib import Path

import pytest

REAL = Path(__file__).parent / "real"


@pytest.fixture
def real(tmp_path):
    """Gives the folder of a real checkpoint by its name, `archive` or `archive/below`."""

    def unpack(name):
        archive, _, below = name.partition("/")
        into = tmp_path / archive if archive in {"formats", "layouts"} else tmp_path
        if not (tmp_path / archive).exists():
            with tarfile.open(REAL / f"{archive}.tar.xz") as tar:
                tar.extractall(into, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(into)
        return tmp_path / archive / below

    return unpack
