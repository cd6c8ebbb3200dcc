"""One config becomes one finished run folder."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from seqattn.config import (
    Config,
    CosineRate,
    LinearForcing,
    as_plain,
    differences,
    resolve,
    to_yaml,
)
from seqattn.data import Splits, load
from seqattn.data.baselines import losses, noise_floor
from seqattn.data.files import forecast_arrays
from seqattn.errors import (
    CheckpointError,
    ConfigError,
    NotFiniteError,
    SeqattnError,
    Stopped,
    UsageError,
)
from seqattn.evaluation import evaluate
from seqattn.models import build_model
from seqattn.runs import (
    EpochRecord,
    RunFolder,
    find_run,
    refuse_taken,
    write_arrays,
    write_json,
    write_whole,
)
from seqattn.training import (
    Layout,
    Trained,
    TrainingState,
    load_model,
    load_state,
    save_best,
    save_state,
    to_tensors,
    train,
)
from seqattn.training.optimizers import build_optimizer

HARMLESS = ("name", "training.epochs", "training.checkpoint_seconds")
"""Keys that may change between a stop and a resume: what was learned stays the same."""


@dataclass(frozen=True)
class Watchers:
    """Whom a training tells what happens, and whom it asks whether to stop.

    Attributes:
        begin: epochs done already and epochs in all, once training starts.
        epoch: each finished epoch.
        say: a line for people.
        stop: the number of a signal that asks to stop, or 0.
    """

    begin: Callable[[int, int], None] = lambda done, epochs: None
    epoch: Callable[[EpochRecord], None] = lambda record: None
    say: Callable[[str], None] = lambda line: None
    stop: Callable[[], int] = lambda: 0


def run(
    config: Config,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    config_path: Path | None = None,
    watchers: Watchers | None = None,
) -> tuple[RunFolder, dict[str, Any]]:
    """Train what a config describes and leave a complete run folder.

    Nothing is written before config, data, device and folder were found to be usable.

    Args:
        output_dir: the run goes to `output_dir / config.name`.
        device: "cpu", "cuda" or "auto".
        threads: for torch's operations on the CPU; small models want 1.
        resume: go on with the run that is there.
        overwrite: replace the run that is there.
        config_path: where the config came from, for its git revision.

    Returns:
        the folder, and the content of its summary.json.

    Raises:
        SeqattnError: what a user can mend, with its exit code.
    """
    watchers = watchers or Watchers()
    torch.set_num_threads(threads)
    chosen = choose_device(device)
    folder = RunFolder(output_dir / config.name)
    refuse_taken(folder, resume=resume, overwrite=overwrite)
    data = load(config.data)
    model = build_model(config.model, len(data.train.features), config.seed).to(chosen)
    state: TrainingState | None = None
    if resume and folder.last.exists():
        optimizer = build_optimizer(model, config.training)
        state, before = load_state(folder.last, model, optimizer)
        _refuse_another_run(folder, before, config, state.epoch)
        if state.epoch == config.training.epochs and folder.summary.exists():
            watchers.say(f"{folder.path}: is trained to epoch {state.epoch} already.")
            _draw_what_is_missing(folder)
            return folder, folder.read_summary()

    if overwrite:
        folder.clear()
    folder.clear_results()
    folder.path.mkdir(parents=True, exist_ok=True)
    write_whole(folder.config, to_yaml(config).encode())
    write_json(folder.environment, environment(chosen, threads, config_path))

    def say(line: str) -> None:
        folder.say(line)
        watchers.say(line)

    if state is not None:
        step = f", step {state.step}" if state.step else ""
        say(f"Going on after epoch {state.epoch}{step}.")
    elif resume:
        say("There is no checkpoint to resume from yet: starting from the beginning.")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    folder.say(
        f"train {config.name}: seed {config.seed}, {parameters} parameters, {len(data.train)}"
        f" training sequences, device {chosen}, threads {threads}, torch {torch.__version__}"
    )
    try:
        state = _train(config, data, model, state, folder, chosen, watchers)
    except SeqattnError as error:
        folder.say(f"ended: {error}")
        raise
    except BaseException as error:
        folder.say(f"ended: {type(error).__name__}")
        raise
    summary = _conclude(config, data, state, folder, parameters)
    folder.say(f"finished: test loss {summary['test_loss']:.6g}, best epoch {state.best_epoch}")
    _leave_if_told(watchers, folder, "after training; --resume draws the pictures")
    _draw_what_is_missing(folder)
    return folder, summary


def choose_device(name: str) -> torch.device:
    """The device for "cpu", "cuda" or "auto" (a GPU if there is one).

    Raises:
        UsageError: another name, or no GPU that torch can use.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {name}: expected auto, cpu or cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no GPU here. Use --device cpu or auto.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def open_run(path: Path) -> tuple[RunFolder, Trained]:
    """Read a RUN argument: a run folder, or a checkpoint in one.

    Raises:
        CheckpointError: there is none, it is broken, or it is not of the folder's config.
    """
    folder, checkpoint = find_run(path)
    expected = None
    if folder.is_run:
        try:
            expected = resolve(folder.config).config
        except ConfigError as error:
            raise CheckpointError(
                f"{folder.path}: its config cannot be read back. {error}"
            ) from None
    return folder, load_model(checkpoint, expected=expected)


def environment(device: torch.device, threads: int, config_path: Path | None) -> dict[str, Any]:
    """What the numbers of a run may depend on beside its config."""
    packages = ("seqattn", "torch", "numpy", "pydantic", "safetensors", "matplotlib")
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "device": str(device),
        "gpu": gpu,
        "threads": threads,
        "git_revision": _git_revision(config_path),
    }


def _train(
    config: Config,
    data: Splits,
    model: Any,
    state: TrainingState | None,
    folder: RunFolder,
    device: torch.device,
    watchers: Watchers,
) -> TrainingState:
    """The training itself, with its saves; raises Stopped where a signal ended it."""
    layout = Layout.of(data.train)
    written_best = 0

    def save(state: TrainingState) -> None:
        nonlocal written_best
        if state.best_epoch != written_best:
            save_best(folder.best, state, config, layout)
            written_best = state.best_epoch
        save_state(folder.last, state, config, layout)
        folder.write_metrics(state.history)

    def tell(record: EpochRecord) -> None:
        folder.say(
            f"epoch {record.epoch}: training {record.train_loss:.6g}, validation"
            f" {record.validation_loss:.6g} free running,"
            f" {record.validation_loss_teacher_forced:.6g} teacher-forced"
        )
        watchers.epoch(record)

    watchers.begin(state.epoch if state else 0, config.training.epochs)
    state, outcome = train(
        model,
        to_tensors(data.train, device),
        to_tensors(data.validation, device),
        config.training,
        seed=config.seed,
        state=state,
        on_epoch=tell,
        save=save,
        stop=lambda: watchers.stop() != 0,
    )
    if not outcome.finished:
        _leave_if_told(
            watchers,
            folder,
            f"in epoch {state.epoch + 1}; --resume, with the same config and"
            " --set, goes on from there",
        )
    if outcome.early:
        watchers.say(f"Stopped early after epoch {state.epoch}: no improvement any more.")
    return state


def _conclude(
    config: Config, data: Splits, state: TrainingState, folder: RunFolder, parameters: int
) -> dict[str, Any]:
    """Score the best epoch's weights on the test part and write the data files."""
    state.model.load_state_dict(state.best_weights)
    evaluation, free = evaluate(state.model, data.test, data.train, data.rule)
    if not math.isfinite(evaluation.loss + evaluation.loss_teacher_forced):
        raise NotFiniteError(
            f"The test loss is {evaluation.loss}. The run's checkpoints are kept; no summary is."
        )
    scored = evaluation.as_plain()
    loss, forced = scored.pop("loss"), scored.pop("loss_teacher_forced")
    summary = {
        "name": config.name,
        "seed": config.seed,
        "test_loss": loss,
        "test_loss_teacher_forced": forced,
        **scored,
        "validation_loss": state.best_loss,
        "validation_noise_floor": noise_floor(data.validation),
        "validation_baselines": dict(losses(data.train, data.validation, data.rule)),
        "best_epoch": state.best_epoch,
        "epochs": state.epoch,
        "stopped_early": state.epoch < config.training.epochs,
        "parameters": parameters,
        "model": as_plain(config.model),
        "seconds": sum(record.seconds for record in state.history),
    }
    write_arrays(folder.predictions, forecast_arrays(data.test, free.values, with_target=True))
    if free.weights is not None:
        write_arrays(folder.attention, free.attention_arrays(data.test, steps_real=True))
    write_json(folder.summary, summary)
    return summary


def _draw_what_is_missing(folder: RunFolder) -> None:
    drawn = [folder.loss_picture, folder.predictions_picture]
    drawn += [folder.attention_picture] if folder.attention.exists() else []
    if not all(picture.exists() for picture in drawn):
        from seqattn import pictures  # matplotlib is slow to import and not needed before

        pictures.draw_all(folder)


def _leave_if_told(watchers: Watchers, folder: RunFolder, where: str) -> None:
    number = watchers.stop()
    if number:
        raise Stopped(number, f"saved to {folder.path} {where}.")


def _refuse_another_run(folder: RunFolder, before: Config, config: Config, epoch: int) -> None:
    """A resumed run must be the same run: refuse any change that would make it another."""
    changed = differences(before, config)
    lines = [f"{k}: {old} -> {new}" for k, (old, new) in changed.items() if k not in HARMLESS]
    training = config.training
    spanned = {
        "training.teacher_forcing": isinstance(training.teacher_forcing, LinearForcing),
        "training.learning_rate_schedule": isinstance(training.learning_rate_schedule, CosineRate),
    }
    if "training.epochs" in changed:
        old, new = changed["training.epochs"]
        for key, spans in spanned.items():
            section = (
                training.teacher_forcing if "forcing" in key else training.learning_rate_schedule
            )
            if spans and getattr(section, "over_epochs", None) is None:
                lines.append(
                    f"training.epochs: {old} -> {new}, and {key} spans all epochs, so the epochs"
                    " behind would have been others (over_epochs fixes its span from the start)"
                )
    if config.training.epochs < epoch:
        lines.append(
            f"training.epochs: {epoch} are done already, {config.training.epochs} are asked"
        )
    if lines:
        raise ConfigError(
            f"{folder.path}: cannot be resumed with another config. Give it the old values, or"
            " start another run with --name:",
            lines,
        )


def _git_revision(config_path: Path | None) -> str | None:
    """Revision of the repository that the config lies in, "-dirty" where files differ from it."""
    place = config_path.resolve().parent if config_path else Path.cwd()
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(
            ["git", "-C", str(place), *describe],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
