"""Puts PyTorch into this environment for the lab, where pip offers a CPU build; says so where it does not.

The lab (`tests/lab`) is the only thing that needs it. A CUDA build takes several gigabytes and is never taken unasked:
`python tools/install_torch.py yes` takes whatever there is, `no` takes nothing.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from dev_requirements import group

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--retries", "1")


def main(want: str) -> int:
    """Installs or explains; fails only where it was told to install and could not."""
    if importlib.util.find_spec("torch") is not None:
        return 0
    if want == "no":
        return left_out("it was asked to be")
    wanted = group("lab")
    if want != "yes":
        names = resolved(wanted)
        if names is None:
            return left_out("pip finds no PyTorch for this Python")
        if any(name.startswith(("nvidia-", "cuda-")) for name in names):
            return left_out("pip offers a CUDA build of several gigabytes; `make LAB=yes test` takes it")
    print("installing PyTorch for the lab", flush=True)
    if subprocess.run([*PIP, "install", "--no-compile", *wanted], check=False).returncode == 0:
        return 0
    left_out("PyTorch could not be installed")
    return 1 if want == "yes" else 0


def resolved(wanted: list[str]) -> list[str] | None:
    """Names of what pip would install, in small letters; None where it finds no way. Only metadata is fetched."""
    subprocess.run([*PIP, "install", "pip>=23.3"], check=False)  # older ones fetch the wheels themselves for this
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        asked = [*PIP, "install", "--dry-run", "--report", str(report), *wanted]
        if subprocess.run(asked, check=False, capture_output=True).returncode != 0:
            return None
        return [entry["metadata"]["name"].lower() for entry in json.loads(report.read_text("utf-8"))["install"]]


def left_out(why: str) -> int:
    """Says that the lab's tests will be skipped."""
    print(f"The lab (tests/lab) is left out: {why}. A PyTorch that you install into this environment is used.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "auto"))
