"""States that `pickle.dump` wrote without `torch.save`, and a model whose class dill carries along: `pickled.py FOLDER`."""

import pickle
import sys
from pathlib import Path

import dill
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)


folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
state = nn.Linear(3, 4).state_dict()
other = {key: value.clone() for key, value in state.items()}
other["bias"][2] = 9
broken = {key: value.clone() for key, value in other.items()}
broken["bias"][1] = float("nan")
rng = torch.get_rng_state()
(folder / "p2.pt").write_bytes(pickle.dumps({"model": state}, protocol=2))
(folder / "p4.pt").write_bytes(pickle.dumps({"model": state, "rng": rng}, protocol=4))
(folder / "p4-other.pt").write_bytes(pickle.dumps({"model": other, "rng": rng}, protocol=4))
(folder / "p4-nan.pt").write_bytes(pickle.dumps({"model": broken}, protocol=4))
torch.save({"model": state, "rng": rng}, folder / "same.pt")
torch.save({"model": Model(), "epoch": 1}, folder / "dilled.pt", pickle_module=dill)
