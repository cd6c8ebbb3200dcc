"""Inject six faults into Lightning and seqattn, and print a table of the results.

    pip install lightning pytest && python scripts/lightning_faults.py

Lightning trains the notebook's model (width 5, 40 squares, as in `tests/faults`) in the way that
its documentation recommends: with `ModelCheckpoint(save_last=True)`, here after every step, and
with `fit(ckpt_path="last")` to resume. Both tools train a model of the same size for the same
number of steps, with the same faults, and must meet the same criteria.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import notebook
import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
EPOCHS, BATCH, HIDDEN, SQUARES = 6, 8, 5, 40


# --- Lightning ------------------------------------------------------------------------------------


def lightning_fit(
    home: Path, *, seed: int = 1, steps: int = -1, resume: bool = False, poison: bool = False,
    payload: Path | None = None,
) -> Any:  # fmt: skip
    """Train with a checkpoint after every step, and return the final module."""
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    loss_of = nn.MSELoss()

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = notebook.NotebookModel(2, HIDDEN)

        def training_step(self, batch: list[Tensor], _: int) -> Tensor:
            return loss_of(self.model(*batch, 0.5), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.01)

    torch.set_num_threads(1)
    source, target = notebook.squares(SQUARES, 13)
    if poison:
        target = target.clone()
        target[17] = float("nan")
    lightning.seed_everything(seed, verbose=False)
    module = Module()
    saves = ModelCheckpoint(
        dirpath=home, save_last=True, every_n_train_steps=1, save_top_k=1, monitor=None
    )
    trainer = lightning.Trainer(
        max_epochs=EPOCHS, max_steps=steps, accelerator="cpu", logger=False, callbacks=[saves],
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=home,
    )  # fmt: skip
    loader = DataLoader(TensorDataset(source, target), BATCH, shuffle=True)
    place: Any = payload or ("last" if resume and (home / "last.ckpt").exists() else None)
    trainer.fit(module, loader, ckpt_path=place)
    return module


def weights(module: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def child(home: Path, resume: bool) -> None:
    """Train in this process, and save the final weights in the folder of the checkpoints."""
    module = lightning_fit(home, resume=resume)
    torch.save(weights(module), home / "final.pt")


def process(home: Path, *, resume: bool = False) -> subprocess.Popen[bytes]:
    words = [sys.executable, __file__, "--child", str(home), *(["--resume"] if resume else [])]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def final(home: Path) -> dict[str, Tensor] | None:
    file = home / "final.pt"
    return torch.load(file, weights_only=True) if file.exists() else None


def lightning_killed(count: int) -> str:
    numbers, same, ended = np.random.RandomState(0), 0, 0
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        began = time.perf_counter()
        process(home / "whole").communicate()
        lasts = time.perf_counter() - began
        whole = final(home / "whole")
        assert whole is not None
        for case in range(count):
            here = home / str(case)
            here.mkdir()
            running = process(here)
            # Wait for the first checkpoint, because the import is not part of the training.
            ends = time.monotonic() + 60
            while not list(here.glob("*.ckpt")) and time.monotonic() < ends:
                time.sleep(0.002)
            time.sleep(numbers.uniform(0, min(lasts, 1.0)))
            running.kill()
            running.communicate()
            (here / "final.pt").unlink(missing_ok=True)
            process(here, resume=True).communicate()
            found = final(here)
            ended += found is not None
            same += found is not None and equal(whole, found)
    return f"{same} of {count} give the same result; {count - ended} cannot be resumed"


def lightning_stopped(steps: list[int]) -> str:
    same = 0
    with tempfile.TemporaryDirectory() as place:
        whole = weights(lightning_fit(Path(place) / "whole"))
        for k in steps:
            home = Path(place) / str(k)
            lightning_fit(home, steps=k)
            # Another seed represents the other state of the random generators in a new process.
            same += equal(whole, weights(lightning_fit(home, seed=99, resume=True)))
    return f"{same} of {len(steps)} give the same result"


def lightning_disk(pages: list[int]) -> str:
    loud, same, resumed = 0, 0, 0
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        process(home / "whole").communicate()
        whole = final(home / "whole")
        assert whole is not None
        for count in pages:
            disk = home / f"disk{count}"
            disk.mkdir()
            _mount(disk, count * 4096)
            try:
                running = process(disk)
                running.communicate()
                loud += running.returncode != 0 or final(disk) is not None
                _mount(disk, 2**24, again=True)
                (disk / "final.pt").unlink(missing_ok=True)
                process(disk, resume=True).communicate()
                found = final(disk)
                resumed += found is not None
                same += found is not None and equal(whole, found)
            finally:
                subprocess.run(["umount", str(disk)], check=True)
    n = len(pages)
    return (
        f"{same} of {n} give the same result; {n - resumed} cannot be resumed; {n - loud} fail"
        " silently"
    )


def _mount(place: Path, size: int, *, again: bool = False) -> None:
    options = f"size={size}" + (",remount" if again else "")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


class Payload:
    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.made,))


def lightning_payloads() -> str:
    ran, tried = 0, 0
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        lightning_fit(home, steps=2)
        made = home / "it-was-run"
        good = torch.load(home / "last.ckpt", weights_only=False)
        for protocol in (2, 4, 5):
            for key in (None, "callbacks", "loops", "hyper_parameters", "state_dict"):
                tried += 1
                content = Payload(made) if key is None else {**copy.copy(good), key: Payload(made)}
                file = home / "planted.ckpt"
                if key is None:
                    file.write_bytes(pickle.dumps(content, protocol))
                else:
                    torch.save(content, file, pickle_protocol=protocol)
                made.unlink(missing_ok=True)
                with contextlib.suppress(Exception):
                    lightning_fit(home / "other", payload=file)
                ran += made.exists()
    return f"{ran} of {tried} were executed"


def lightning_misspelt() -> str:
    """Misspell the settings of Lightning, which are the arguments of `Trainer`."""
    import lightning

    from tests.faults.configs import misspellings

    names = [name for name in inspect.signature(lightning.Trainer).parameters if name != "self"]
    tried = refused = right = 0
    for name in names:
        for wrong in dict.fromkeys(misspellings(name)):
            if wrong in names or not wrong.isidentifier():
                continue
            tried += 1
            try:
                lightning.Trainer(**{wrong: None}, logger=False)
            except TypeError as error:
                refused += 1
                right += f"'{name}'" in str(error)
    return f"{refused} of {tried} rejected; the right name is suggested for {right}"


def lightning_nan() -> str:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        try:
            module = lightning_fit(home, poison=True)
            ended = "trains to the end"
            bad = any(not tensor.isfinite().all() for tensor in weights(module).values())
        except Exception as error:
            ended, bad = f"stops ({type(error).__name__})", False
        kept = torch.load(home / "last.ckpt", weights_only=False)["state_dict"]
        sick = any(not tensor.isfinite().all() for tensor in kept.values())
    return (f"{ended}; weights {'NaN' if bad else 'finite'}, newest checkpoint"
            f" {'NaN' if sick else 'finite'}")  # fmt: skip


# --- seqattn --------------------------------------------------------------------------------------


def seqattn_nan() -> str:
    from seqattn.config import resolve
    from seqattn.data import load_data
    from seqattn.models import build_model
    from seqattn.training import TrainingRun, to_tensors
    from tests.training_session import trained

    config = resolve(
        None, [f"data.n_train={SQUARES}", f"training.epochs={EPOCHS}",
               f"training.batch_size={BATCH}", f"model.hidden_dim={HIDDEN}"],
    ).config  # fmt: skip
    splits = load_data(config.data)
    data = to_tensors(splits.train)
    data.target[17] = float("nan")
    saved: list[Any] = []
    run = TrainingRun(build_model(config.model, 2, 1), data, to_tensors(splits.validation),
              config.training, 1)  # fmt: skip
    (ended,) = trained([run], save=saved.append)
    sick = any(not tensor.isfinite().all() for tensor in saved[-1].weights.values())
    return f"stops before the update ({type(ended.error).__name__}, exit code" \
           f" {ended.error.exit_code if ended.error else 0}); newest checkpoint" \
           f" {'NaN' if sick else 'finite'}"  # fmt: skip


def ours(tally: Any, what: str) -> str:
    return f"{tally.passed} of {tally.tried} {what}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kills", type=int, default=15)
    arguments = parser.parse_args()
    if arguments.child:
        arguments.child.mkdir(parents=True, exist_ok=True)
        child(arguments.child, arguments.resume)
        return
    import lightning

    from tests.faults import configs, disk, files, processes, states

    steps = list(range(1, EPOCHS * SQUARES // BATCH))
    pages = list(range(1, 42, 8))
    rows = [
        ("SIGKILL at a random moment, then a resume", lambda: lightning_killed(arguments.kills),
         lambda: ours(processes.killed(arguments.kills), "give the same result")),
        ("a full disk, then free space and a resume", lambda: lightning_disk(pages),
         lambda: ours(disk.full(41, step=8), "give the same result; 0 fail silently")),
        ("a stop after step k and a resume, for every k", lambda: lightning_stopped(steps),
         lambda: ours(states.stopped_at(steps), "give the same result")),
        ("a pickle that runs code, loaded as a checkpoint", lightning_payloads,
         lambda: ours(files.payloads(), "rejected; 0 executed")),
        ("a misspelt setting", lightning_misspelt, lambda: configs.misspelt().remarks[0]),
        ("NaN in a batch", lightning_nan, seqattn_nan),
    ]  # fmt: skip
    print(f"| fault | Lightning {lightning.__version__} | seqattn |\n| --- | --- | --- |")
    for name, theirs, own in rows:
        print(f"| {name} | {theirs()} | {own()} |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    main()
