"""What a node tells of itself: it changes nothing of what it looks at."""

import os
import shutil
import subprocess

import pytest

from firstfault.recorder.clean import Cleaner
from firstfault.recorder.header import node_header
from firstfault.recorder.settings import Settings


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_state_of_the_code_is_told_without_writing_its_index(tmp_path):
    def git(*words):
        names = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, env={**os.environ, **names}
        )

    git("init", "-q")
    (tmp_path / "train.py").write_text("x = 1\n")
    git("add", "train.py")
    git("commit", "-q", "-m", "first")
    os.utime(
        tmp_path / "train.py", (1, 1)
    )  # git looks at such a file anew and would note in its index that it is the same
    index = tmp_path / ".git" / "index"
    before = index.read_bytes()
    told = node_header(Settings("box", "run", "local", "node-a"), Cleaner(), {"directory": str(tmp_path)})
    assert told["code"]["dirty"] is False
    assert index.read_bytes() == before
