"""The hooks in the frameworks themselves, where these are installed: what each part of a real run is seen to be.

The stand-ins of `test_hooks.py` have the same names; the first test here holds them against the real classes.
"""

import importlib
import importlib.util
import json

import programs
import pytest
from programs import run

from firstfault.recorder.hooks import TABLE
from firstfault.recorder.hooks.frameworks import METHODS


def installed(module):
    return importlib.util.find_spec(module.split(".", 1)[0]) is not None


@pytest.mark.parametrize("module", sorted(filter(installed, METHODS)))
def test_what_is_hooked_is_there(module):
    assert module in TABLE
    library = importlib.import_module(module)
    for path, _ in METHODS[module]:
        found = library
        for part in path.split("."):
            found = getattr(found, part)
        assert callable(found), path


COMMON = """
import json, os, tempfile
import firstfault.recorder as r
r.start()
from firstfault.recorder import api, format
recorder, seen = api.current(), {}
def note(where):
    recorder.looker.look()
    seen.setdefault(where, set()).add(format.read_ring(bytes(recorder.ring.map)).phase)
import torch
from torch.utils.data import DataLoader, Dataset
class Samples(Dataset):
    def __len__(self): return 12
    def __getitem__(self, index):
        note("item")
        return {"x": torch.randn(4), "labels": torch.tensor(1.0)}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        if self.training: note("forward")
        out = self.layer(x).squeeze(-1)
        loss = ((out - labels) ** 2).mean()
        if loss.requires_grad: loss.register_hook(lambda g: note("backward"))
        return {"loss": loss, "logits": out}
class SGD(torch.optim.SGD):
    def step(self, *args, **kwargs):
        note("optimizer")
        return super().step(*args, **kwargs)
folder = tempfile.mkdtemp(dir=os.getcwd())
"""
END = """
print("SEEN", json.dumps({k: sorted(v) for k, v in seen.items()}), recorder.ring.step_number, recorder.broken)
"""
RUNS = {
    "lightning": """
import lightning.pytorch as pl
class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def training_step(self, batch, index): return self.net(**batch)["loss"]
    def validation_step(self, batch, index): note("evaluation")
    def configure_optimizers(self): return SGD(self.parameters(), lr=0.01)
    def on_save_checkpoint(self, checkpoint): note("checkpoint")
trainer = pl.Trainer(max_epochs=1, accelerator="cpu", devices=1, default_root_dir=folder, logger=False,
                     enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
trainer.fit(Module(), DataLoader(Samples(), batch_size=4))
trainer.validate(trainer.lightning_module, DataLoader(Samples(), batch_size=4), verbose=False)
""",
    "transformers": """
from transformers import Trainer, TrainingArguments
class Own(Trainer):
    def save_model(self, *args, **kwargs):
        note("checkpoint")
        return super().save_model(*args, **kwargs)
    def prediction_step(self, *args, **kwargs):
        note("evaluation")
        return super().prediction_step(*args, **kwargs)
net = Net()
how = TrainingArguments(output_dir=folder, num_train_epochs=1, per_device_train_batch_size=4, report_to=[], use_cpu=True,
                        save_steps=3, remove_unused_columns=False, disable_tqdm=True)
trainer = Own(model=net, args=how, train_dataset=Samples(), eval_dataset=Samples(), optimizers=(SGD(net.parameters(), lr=0.01), None))
trainer.train()
trainer.evaluate()
""",
    "accelerate": """
from accelerate import Accelerator
accelerator, net = Accelerator(cpu=True), Net()
net, optimizer, batches = accelerator.prepare(net, SGD(net.parameters(), lr=0.01), DataLoader(Samples(), batch_size=4))
for batch in batches:
    accelerator.backward(net(**batch)["loss"])
    optimizer.step()
    optimizer.zero_grad()
accelerator.register_save_state_pre_hook(lambda *args: note("checkpoint"))
accelerator.save_state(folder)
""",
}


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(n for n in RUNS if installed(n) and installed("torch")))
def test_each_part_of_a_real_run_is_seen_as_what_it_is(tmp_path, monkeypatch, name):
    monkeypatch.setattr(programs, "LIMIT", 600)  # their imports take a minute on a busy machine
    alone = {"RANK": "", "WORLD_SIZE": "", "LOCAL_RANK": "", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    text = COMMON + RUNS[name] + END
    left = run(
        tmp_path, "import os\nfor n in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK'): del os.environ[n]\n" + text, **alone
    )
    told = next((line for line in left.out.splitlines() if line.startswith("SEEN ")), "")
    assert told, left.err
    seen, _, rest = told.removeprefix("SEEN ").rpartition("} ")
    assert rest == "3 []"
    wanted = {
        "item": "data",
        "forward": "forward",
        "backward": "backward",
        "optimizer": "optimizer",
        "checkpoint": "checkpoint",
    }
    wanted |= {} if name == "accelerate" else {"evaluation": "evaluation"}
    assert json.loads(seen + "}") == {w: [p] for w, p in wanted.items()}


@pytest.mark.torch
@pytest.mark.skipif(not installed("torch"), reason="torch is not installed")
def test_a_step_of_an_optimizer_that_torch_hooks_in_two_classes_is_one(tmp_path):
    left = run(
        tmp_path,
        """
import firstfault.recorder as r
r.start()
from firstfault.recorder import api
import torch
weights = [torch.nn.Parameter(torch.zeros(3))]
plain = torch.optim.SGD(weights, lr=0.1)
# As Horovod makes its optimizers: a class of the name and the base of the given one, made anew.
class Distributed(torch.optim.Optimizer):
    def __init__(self, params): super(self.__class__, self).__init__(params)
    def step(self, closure=None): return super(self.__class__, self).step(closure)
made = type("SGD", (torch.optim.SGD,), dict(Distributed.__dict__))(plain.param_groups)
schedule = torch.optim.lr_scheduler.StepLR(made, 2)
for _ in range(5):
    weights[0].grad = torch.ones(3)
    made.step()
    schedule.step()
print(api.current().ring.beats, api.current().broken)
""",
    )
    assert left.out == "5 []\n", left.err
