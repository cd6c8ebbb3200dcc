"""Two commands begun in one folder at once."""

from __future__ import annotations

import csv
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from seqattn.runs import RunFolder
from seqattn.training import load_model
from tests.faults import Tally, render_exit_codes
from tests.faults.nursery import Nursery

CONFIG = """name: mine
data: {n_train: 24, n_validation: 8, n_test: 8}
model: {hidden_dim: 3}
training: {epochs: 3, checkpoint_seconds: 0}
"""
ROOMS = ("experiments.tuning.trials", "report")
SEARCH = ["tune", "c.yaml", "--threads", "1", "--search"]
SHARED = ["--storage", "sqlite:///shared.db"]

COMMANDS = {
    "train": ["train", "c.yaml", "--threads", "1", "--plots", "none"],
    "train again": ["train", "c.yaml", "--threads", "1", "--plots", "none", "--overwrite"],
    "train on": ["train", "c.yaml", "--threads", "1", "--plots", "none", "--resume",
                 "--set", "training.epochs=5"],
    "seeds": ["train", "c.yaml", "--threads", "1", "--seeds", "2"],
    "other seeds": ["train", "c.yaml", "--threads", "1", "--seeds", "2", "--seed", "40"],
    "compare": ["compare", "c.yaml", "--threads", "1", "--vary", "model.cell=gru,rnn",
                "--seeds", "2"],
    "compare more": ["compare", "c.yaml", "--threads", "1", "--vary", "model.cell=gru,rnn",
                     "--seeds", "3"],
    "compare others": ["compare", "c.yaml", "--threads", "1", "--vary",
                       "model.attention.score=dot,general", "--seeds", "2"],
    "tune": [*SEARCH, "training.learning_rate=log(1e-3,1e-1)", "--trials", "3"],
    "tune on": [*SEARCH, "training.learning_rate=log(1e-3,1e-1)", "--trials", "5"],
    "tune others": [*SEARCH, "model.hidden_dim=2,3,4", "--trials", "3"],
    "tune shared": [*SEARCH, "model.hidden_dim=uniform(2,5)", "--trials", "4", *SHARED],
    "tune others shared": [*SEARCH, "model.hidden_dim=uniform(2,4)", "--trials", "3", *SHARED],
    "predict": ["predict", "outputs/mine", "--example", "0", "--output", "next.csv"],
    "evaluate": ["evaluate", "outputs/mine"],
    "report": ["report", "outputs/mine", "--no-live"],
    "report a trial": ["report", "outputs/mine/trial-0", "--no-live"],
    "plot": ["plot-attention", "outputs/mine", "--grid"],
}  # fmt: skip

BEGUN = "the folder holds what the other has begun or finished there"
ANEW = "the run begins anew, and has no checkpoint yet"


@dataclass(frozen=True)
class Pair:
    """
    Attributes:
        first, second: commands.
        before: commands whose folder they find.
        refused: exit codes that they may end with besides 0 and 6, each with the reason.
        both: whether both must end with 0.
    """

    first: str
    second: str
    before: tuple[str, ...] = ()
    refused: dict[int, str] = field(default_factory=dict)
    both: bool = False


PAIRS = (
    Pair("train", "train", refused={2: BEGUN}),
    Pair("train again", "train again", ("train",)),
    Pair("train on", "train on", ("train",)),
    Pair("train again", "predict", ("train",), {4: ANEW}),
    Pair("train again", "evaluate", ("train",), {4: ANEW}),
    Pair("train on", "predict", ("train",), both=True),
    Pair("train again", "report", ("train",)),
    Pair("train again", "plot", ("train",)),
    Pair("report", "report", ("train",)),
    Pair("train", "seeds", refused={2: BEGUN}),
    Pair("seeds", "seeds", refused={2: BEGUN}),
    Pair("seeds", "other seeds", both=True),
    Pair("other seeds", "report", ("seeds",)),
    Pair("compare", "compare"),
    Pair("compare", "compare others", refused={2: BEGUN}),
    Pair("compare more", "report", ("compare",)),
    Pair("compare", "seeds", refused={2: BEGUN}),
    Pair("compare", "train", refused={2: BEGUN}),
    Pair("compare", "tune", refused={2: BEGUN}),
    Pair("tune", "tune"),
    Pair("tune", "tune others", refused={2: BEGUN}),
    Pair("tune", "train", refused={2: BEGUN}),
    Pair("tune", "seeds", refused={2: BEGUN}),
    Pair("tune on", "report a trial", ("tune",), both=True),
    Pair("tune shared", "tune shared", both=True),
    Pair("tune shared", "tune others shared", refused={2: BEGUN}),
)


class Places:
    """Folders in which commands have run, and what each wrote alone."""

    def __init__(self, home: Path, nursery: Nursery) -> None:
        self.home, self.nursery = home, nursery
        self.found: dict[tuple[str, ...], Path] = {}

    def after(self, commands: tuple[str, ...]) -> Path:
        """The folder after some commands, one after the other."""
        if commands not in self.found:
            before = self.after(commands[:-1]) if commands else None
            place = self.home / f"place-{len(self.found)}"
            if before is not None:
                shutil.copytree(before, place)
                done = self.nursery.run(COMMANDS[commands[-1]], place)
                assert done.code == 0, f"{commands[-1]} alone ended with {done.code}: {done.err}"
            else:
                place.mkdir()
                (place / "c.yaml").write_text(CONFIG)
            self.found[commands] = place
        return self.found[commands]


def beginning_with(*names: str) -> list[Pair]:
    """The pairs whose first command begins with one of some words."""
    return [pair for pair in PAIRS if pair.first.split()[0] in names]


def pairs(
    chosen: Sequence[Pair] = PAIRS, delays: Sequence[float] = (0.0,), nursery: Nursery | None = None
) -> Tally:
    """Each pair, the second command begun that many seconds after the first: both end with 0 or 6
    (or as the pair says), one with 0, and what those wrote is what they write alone.

    Args:
        nursery: one that has imported `ROOMS`; without, this begins its own.
    """
    tally, codes = Tally(), dict[int, int]()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = Places(home, nursery or stack.enter_context(Nursery(*ROOMS)))
        for number, pair in enumerate(chosen):
            for delay in delays:
                with tally.case(f"{pair.first} and {pair.second}, {delay} s later"):
                    here = home / f"pair-{number}-{delay}"
                    shutil.copytree(places.after(pair.before), here)
                    for code in _run(pair, here, places, delay, tally):
                        codes[code] = codes.get(code, 0) + 1
    tally.remarks.append(render_exit_codes(codes))
    return tally


def _run(pair: Pair, here: Path, places: Places, delay: float, tally: Tally) -> list[int]:
    """
    Returns:
        the exit codes.

    Raises:
        AssertionError: something is lost, or a command ended as it must not.
    """
    names = (pair.first, pair.second)
    alone = [[places.after((*pair.before, name))] for name in names]
    if pair.second == "predict":  # of the run before or after the training
        alone[1].append(places.after((*pair.before, *names)))
    first = places.nursery.start(COMMANDS[pair.first], here)
    time.sleep(delay)
    second = places.nursery.start(COMMANDS[pair.second], here)
    done = [places.nursery.wait(child) for child in (first, second)]
    codes = [ended.code for ended in done]
    outcomes = "; ".join(f"{ended.code}: {ended.err.strip()[-600:]}" for ended in done)
    for ended in done:
        tally.took(ended.mib)
        assert "Traceback" not in ended.err, ended.err
        assert ended.code in (0, 6, *pair.refused), outcomes
        assert ended.code == 0 or ended.err.strip(), "no reason is given"
    assert 0 in codes, outcomes
    assert not pair.both or codes == [0, 0], outcomes
    for name, ended, wanted in zip(names, done, alone, strict=True):
        if ended.code == 0:
            _check_loss(name, _written(name, here), [_written(name, place) for place in wanted])
    left = [str(path) for path in here.rglob("*.part")]
    assert not left, f"{left} were left behind"
    return codes


def _check_loss(name: str, found: dict[str, object], alone: Sequence[dict[str, object]]) -> None:
    """
    Raises:
        AssertionError: what a command wrote is not what it writes alone.
    """
    differing = [
        [file for file in wanted if file not in found or found[file] != wanted[file]]
        for wanted in alone
    ]
    assert not all(differing), f"{name}: {', '.join(differing[0])} differ or are missing"


def _written(name: str, place: Path) -> dict[str, object]:
    """What a command writes, by file, without times."""
    verb, home = COMMANDS[name][0], place / "outputs" / "mine"
    if verb == "train":
        seeds = [f"seed-{k}" for k in ((40, 41) if "--seed" in COMMANDS[name] else (23, 24))]
        runs = [home / seed for seed in seeds] if "--seeds" in COMMANDS[name] else [home]
        return {f"{run.name}/{file}": content for run in runs for file, content in _run_of(run)}
    if verb == "compare":
        variants = sorted(home.glob("*/seed-*"))
        return {
            "comparison.json": (home / "comparison.json").read_bytes(),
            "pairs.csv": (home / "pairs.csv").read_bytes(),
            "comparison.png": (home / "comparison.png").read_bytes(),
            **{file: _rows(home / file) for file in ("variants.csv", "seeds.csv")},
            **{f"{run.relative_to(home)}/{file}": content
               for run in variants for file, content in _run_of(run)},
        }  # fmt: skip
    if verb == "tune" and "--storage" in COMMANDS[name]:
        # Which process trains which trial, and what is known by then, is a matter of time.
        rows = _rows(home / "trials.csv")
        return {"trials.csv": sorted((row["state"], row["model.hidden_dim"]) for row in rows)}
    if verb == "tune":
        return {"trials.csv": _rows(home / "trials.csv"),
                "best.yaml": (home / "best.yaml").read_bytes()}  # fmt: skip
    if verb == "report":
        page = home / "trial-0" / "report.html" if "trial-0" in COMMANDS[name][1] else (
            home / "report.html")  # fmt: skip
        return {"report.html": page.read_text().rstrip().endswith("</html>")}
    if verb == "plot-attention":
        return {"attention-grid.png": (home / "attention-grid.png").read_bytes()}
    return {"next.csv": (place / "next.csv").read_bytes()} if verb == "predict" else {"": True}


def _run_of(path: Path) -> list[tuple[str, object]]:
    """The files of a run, which must be whole."""
    folder = RunFolder(path)
    load_model(folder.best)
    load_model(folder.last)
    folder.read_summary()
    found = [folder.config, folder.predictions, folder.attention]
    return [(file.name, file.read_bytes()) for file in found] + [
        ("metrics.csv", _rows(folder.metrics))
    ]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{key: cell for key, cell in row.items() if key != "seconds"}
                for row in csv.DictReader(file)]  # fmt: skip
