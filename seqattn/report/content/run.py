"""The content of the report page of a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis import doctor
from seqattn.analysis.evaluation.load_run import load_splits, open_run
from seqattn.config import Config, as_plain, leaves, read_stored
from seqattn.data.baselines import NOISE_FLOOR, render_verdict
from seqattn.data.metrics import describe_metrics
from seqattn.errors import CheckpointError, ConfigError, DataError, counted
from seqattn.report.content.contributions import contributions_content
from seqattn.report.content.examples import attention_history_content, examples_content
from seqattn.report.content.live import LiveModels, tour_content
from seqattn.report.content.questions import ask
from seqattn.report.content.symbols import is_of_symbols, summary_of_symbols, symbols_content
from seqattn.report.content.task import describe_outside, describe_row, describe_task_of
from seqattn.report.content.verdict import (
    Need,
    command_for_history,
    commands_for_other_model,
    describe_need,
    shown_command,
    shown_path,
)
from seqattn.runs import EpochRecord, RunFolder, check_summary

UNSCALED_NOTE = " (not scaled as the losses are)"


def run_content(folder: RunFolder, examine: bool = True, live: bool = False) -> dict[str, Any]:
    """Return the content of the report page of a run.

    The entry `notices` of the content lists the parts that are missing or cannot be read.

    Args:
        folder: the run folder.
        examine: whether to run the doctor, and to compute the contributions of source steps.
        live: whether to include the model in the page.

    Raises:
        CheckpointError: if the folder is not a run folder, if no epoch has finished, or if the
            metrics or the summary cannot be used.
    """
    if not folder.is_run:
        raise CheckpointError(f"{folder.path}: is not a run folder ({folder.missing_files}).")
    notices = list[str]()
    config, rows = _config_rows(folder, notices)
    history = folder.read_metrics() if folder.metrics.exists() else []
    summary = _read_summary(folder, config, len(history), notices)
    environment = folder.read_environment()
    content: dict[str, Any] = {
        "kind": "run",
        "name": folder.path.name,
        "path": shown_path(folder.path),
        "seed": None if summary is None else summary["seed"],
        "task": describe_task_of(folder, config),
        "config": rows,
        "environment": _environment_rows(environment),
        "command": shown_command(
            environment.get("command")
            or shlex.join(
                ["seqattn", "train", str(folder.config), "--name", f"{folder.path.name}-again"]
            )
        ),
        "command_label": "Trained by" if environment.get("command") else "Train it again",
        "curves": _curves(history, summary),
        "summary": None,
        "symbols": None,
        "loss_name": "mean squared error" if summary is None else summary["loss_name"],
        "notices": notices,
        "doctor": [],
        "doctor_summary": "",
        "unit": "",
        "contributions": None,
    }
    if summary is not None:
        has_symbols = is_of_symbols(summary)
        if has_symbols:
            content["symbols"] = summary_of_symbols(summary)
        else:
            content["summary"] = _summary_content(summary)
            content |= _results(folder, summary, notices)
        need = None
        if examine:
            diagnosis, need = _diagnosis(folder, notices)
            content |= diagnosis
        if live:
            models = LiveModels()
            models.add(folder, folder.path.name)
            content["live"] = models.content(notices)
            notices.extend(models.reasons)
            if content["live"] and has_symbols:
                content["live"] |= symbols_content(folder)
            elif content["live"]:
                content["live"]["tour"] = tour_content(
                    content.get("start"), need, [] if need is None else need.conclusion,
                    commands_for_other_model(folder, config), command_for_history(folder, config),
                    describe_outside(config),
                )  # fmt: skip
    return content


def _read_summary(
    folder: RunFolder, config: Config | None, epochs: int, notices: list[str]
) -> Mapping[str, Any] | None:
    """Return the content of `summary.json`, or None if the run diverged or is not finished.

    Raises:
        CheckpointError: if no epoch has finished, or if the summary belongs to another config.
    """
    diverged = folder.divergence()
    if not epochs:
        raise CheckpointError(
            f"{folder.path}: no epoch has finished{' yet' if diverged is None else ''}, so there is"
            f" nothing to report. {diverged or ''}".rstrip()
        )
    if diverged is not None:
        notices.append(f"The training diverged, so there are no forecasts. {diverged}")
        return None
    if not folder.summary.exists():
        notices.append(
            f"The training is not finished: {counted(epochs, 'epoch')} done. Resume the training"
            " (--resume) to get forecasts, attention and the doctor's findings."
        )
        return None
    if config is None:
        return folder.read_summary()
    return check_summary(folder, as_plain(config.model), config.seed)


def _results(folder: RunFolder, summary: Mapping[str, Any], notices: list[str]) -> dict[str, Any]:
    """Return the forecasts, errors and attention weights of a finished run."""
    scale = _read_loss_scale(folder, notices) if summary["scaled"] else 1.0
    unit = " (scaled)" if summary["scaled"] else ""
    single = UNSCALED_NOTE if scale is None else unit
    results: dict[str, Any] = {"unit": unit, "unit_of_one": single}
    try:
        results |= examples_content(folder, notices, scale, summary.get("units", {}))
    except CheckpointError as error:
        notices.append(f"Forecasts and weights cannot be shown: {error}")
    history = attention_history_content(folder, notices)
    return results | {"attention_history": history, "by_step": summary["loss_by_step"]}


def _diagnosis(folder: RunFolder, notices: list[str]) -> tuple[dict[str, Any], Need | None]:
    """Return the findings of the doctor with the contributions of source steps, and sentences about
    whether the model needs its weights.

    If it is unknown whether the model needs its weights, the second value is None.
    """
    try:
        _, trained = open_run(folder.path)
        losses, history = doctor.sibling_losses(folder), doctor.read_history(folder)
        splits = load_splits(trained)
        evidence = doctor.collect_evidence(trained, splits, losses, history)
    except (CheckpointError, DataError) as error:
        notices.append(f"The doctor could not examine the run: {error}")
        return {}, None
    findings = doctor.examine(evidence)
    has_symbols = evidence.symbol_errors is not None
    plain = [ask(finding, has_symbols) for finding in doctor.findings_as_plain(findings)]
    overridden = evidence.override_errors
    count = len(evidence.source_lengths)
    need = describe_need(evidence.loss, overridden, count) if overridden else None
    content = {
        "doctor": plain,
        "doctor_summary": doctor.summarize(findings),
        "contributions": contributions_content(trained, splits.test),
    }
    return content, need


def _read_loss_scale(folder: RunFolder, notices: list[str]) -> NDArray[np.float64] | None:
    """Return the scale of each target feature, (F,). In the loss of a run, errors are divided by
    this scale.

    The result is None if the checkpoint, which contains the scales, cannot be read.
    """
    try:
        _, trained = open_run(folder.path)
    except CheckpointError as error:
        notices.append(
            "Errors of single sequences are not in the scaled units of the losses, which need the"
            f" checkpoint: {error}"
        )
        return None
    return trained.spec.target.scale


def _config_rows(folder: RunFolder, notices: list[str]) -> tuple[Config | None, list[list[str]]]:
    """Return the config, and a row (key, value, origin) for each config key.

    If the config cannot be read, the function returns None and an empty list.
    """
    try:
        config = read_stored(folder.config)
    except ConfigError as error:
        notices.append(f"The config cannot be read: {error}")
        return None, []
    known = folder.read_environment().get("origins")
    rows = []
    for path, value in leaves(as_plain(config)):
        key = ".".join(path)
        origin = "" if known is None else str(known.get(key, "default"))
        if origin.startswith("/"):  # a file and a line
            origin = shown_path(Path(origin))
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        rows.append([key, text, origin])
    return config, rows


def _environment_rows(environment: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for key, value in environment.items():
        if key in ("command", "origins", "skipped_checkpoints"):  # shown elsewhere
            continue
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        rows.append([key.replace("_", " "), str(text)])
    return rows


def _summary_content(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the test loss, the reference losses, a sentence that compares these losses, and other
    entries of the summary."""
    loss, floor = summary["test_loss"], summary["noise_floor"]
    verdict_text = render_verdict(loss, summary["baselines"], summary["fitted"])
    sentence = f"The free-running mean squared error on the test sequences is {loss:.4g}. The model"
    sentence += f" {verdict_text}"
    if floor is not None:
        above = loss - floor
        sentence += f". The error is {above:.2g} above the noise floor ({floor:.4g})"
    rows = [["this model, free running", loss, "own"]]
    rows += [["this model, teacher-forced", summary["test_loss_teacher_forced"], ""]]
    rows += [[name, value, ""] for name, value in summary["baselines"].items()]
    rows += [[name, value, ""] for name, value in summary["fitted"].items()]
    if floor is not None:
        rows += [[NOISE_FLOOR, floor, "floor"]]
    return {
        "sentence": sentence + ".",
        "rows": [[*row, describe_row(row[0])] for row in sorted(rows, key=lambda row: row[1])],
        "attention": summary["attention"],
        "best_epoch": summary["best_epoch"],
        "epochs": summary["epochs"],
        "parameters": summary["parameters"],
        "seconds": summary["seconds"],
        "rmse": summary["rmse"].get("this model", []),
        "features": summary["features"],
        "units": summary.get("units", {}),
        "scaled": summary["scaled"],
        "metrics": summary.get("metrics"),
        "metrics_lines": describe_metrics(summary),
    }


def _curves(history: Sequence[EpochRecord], summary: Mapping[str, Any] | None) -> dict[str, Any]:
    curves: dict[str, Any] = {
        "epoch": [record.epoch for record in history],
        "training": [record.train_loss for record in history],
        "validation": [record.validation_loss for record in history],
        "teacher_forced": [record.validation_loss_teacher_forced for record in history],
    }
    if summary is not None:
        best: tuple[str, float] = min(summary["validation_baselines"].items(), key=itemgetter(1))
        curves |= {
            "best_epoch": summary["best_epoch"],
            "floor": summary["validation_noise_floor"],
            "baseline": [*best],
        }
    return curves
