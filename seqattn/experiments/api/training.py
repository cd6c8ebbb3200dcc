"""The functions that train a run, several seeds or a comparison."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from seqattn.analysis.comparison import collect_seeds
from seqattn.config import Config, ConfigSource, OwnFile, as_plain, resolve
from seqattn.config.comparing import plan_comparison
from seqattn.config.files import read_regular_file
from seqattn.config.shipped_configs import find_config
from seqattn.data.frames import frame_kind, frame_notes, write_frame
from seqattn.data.many_files import file_digest
from seqattn.errors import DataError, UsageError
from seqattn.experiments import (
    Callbacks,
    Launch,
    combined_error,
    create_seed_folders,
    seeds_of,
    train_many,
)
from seqattn.experiments.api.arguments import (
    ConfigArgument,
    DataFrame,
    as_config_value,
    as_integer,
    as_override_list,
    check_count,
    warn,
)
from seqattn.experiments.api.comparison import Comparison, Seeds, absolute_result
from seqattn.experiments.api.run import Run
from seqattn.experiments.compare import run_comparison
from seqattn.experiments.progress import RunsInTraining
from seqattn.experiments.workers import MAX_WORKERS
from seqattn.runs import EpochRecord, RunFolder, check_folder_available, check_run_exists

MAX_SEEDS = 100_000
MAX_THREADS = 1024
"""The largest number of threads, as for the option `--threads`."""


def train(
    config: ConfigArgument,
    data: DataFrame | None = None,
    *,
    validation: DataFrame | None = None,
    test: DataFrame | None = None,
    output_dir: str | Path = "outputs",
    resume: bool | Literal["auto"] = False,
    overwrite: bool = False,
    progress: bool | None = None,
    **overrides: Any,
) -> Run:
    """Train a model from a config, and open the new run.

    For example, `train("squares", training__epochs=5, seed=3)` uses the values of a shipped config
    except for two keys.

    Args:
        config: path of a YAML file, name of a shipped config such as "squares", a dict with the
            content of a YAML file, a `Config` such as `seqattn.config.resolve(...).config`, or None
            for the defaults.
        data: DataFrame that replaces the file in `data.path`. The DataFrame is written to a Parquet
            file in `output_dir`. `config.yaml` contains the path of this file, so that the commands
            can read the data of the run.
        validation, test: DataFrames that replace the files in `data.validation_path` and
            `data.test_path`.
        output_dir: parent of the run folder.
        resume: whether to continue an existing run. Without such a run, True is an error, and
            "auto" starts the run.
        overwrite: whether to replace an existing run.
        progress: whether to show a progress bar. With None, the bar is shown only in a terminal or
            in a notebook.
        **overrides: changed values of the config. Two underscores stand for a dot: the argument
            `training__epochs=5` changes `training.epochs`. The argument `overrides=` is a dict with
            dotted keys such as {"training.epochs": 5}, or a list of strings "PATH=VALUE", as in
            `--set`.

    Raises:
        CheckpointError: if `resume` is true and there is no run.
        SeqattnError: for any other error that a user can correct.
    """
    frames = {"path": data, "validation_path": validation, "test_path": test}
    frames = {key: frame for key, frame in frames.items() if frame is not None}
    source = _config_source(config)
    changes = as_override_list(overrides)
    name = source.stem if isinstance(source, Path) else str((source or {}).get("name", "training"))
    with show_bar(name, progress) as callbacks:
        _check_frames(frames)
        if frames and isinstance(config, Config) and not isinstance(config.data, OwnFile):
            raise UsageError(
                f"data.kind is {config.data.kind}, which generates its data. A DataFrame needs a"
                " config with data: {kind: file}."
            )
        if frames:  # the paths are replaced when the files have been written
            changes.append(("data.kind", "file"))
            changes += [(f"data.{key}", f"{key}-frame.parquet") for key in frames]
        resolved = resolve(source, changes).config
        folder = RunFolder(Path(output_dir) / resolved.name)
        _check_resume(resume, folder.path)
        check_folder_available(folder, resume=bool(resume), overwrite=overwrite)
        with _data_files(frames, folder) as paths:
            if paths:
                section = resolved.data.model_copy(update={**paths, "format": "auto"})
                resolved = resolved.model_copy(update={"data": section})
            jobs = train_many(
                [(resolved, folder)], threads=1, resume=bool(resume), overwrite=overwrite,
                plots=True, callbacks=callbacks, launch=Launch(config_path=_path_of(source)),
            )  # fmt: skip
            if error := combined_error(jobs, are_seeds=False):
                raise error
    return Run.open(folder.path)


def train_seeds(
    config: ConfigArgument,
    seeds: int,
    *,
    output_dir: str | Path = "outputs",
    resume: bool | Literal["auto"] = False,
    overwrite: bool = False,
    threads: int | None = 1,
    workers: int | None = 1,
    progress: bool | None = None,
    **overrides: Any,
) -> Seeds:
    """Train several seeds of a config together, and open their folder.

    This function does the same as `seqattn train --seeds`, but always uses the CPU and, by default,
    one thread and one process. The run of seed K is in the folder `seed-K`.

    Args:
        seeds: the number of seeds. The first seed is `seed` of the config.
        threads: number of CPU threads; None to choose the number automatically.
        workers: number of worker processes, as with `--jobs`; None for up to one process per
            core, if this saves time. With any value other than 1, a script needs the guard
            `if __name__ == "__main__":`.
        config, output_dir, resume, overwrite, progress, **overrides: see `train`.

    Returns:
        the seeds of this call, without those of earlier calls in the same folder.

    Raises:
        SeqattnError: for an error that a user can correct, or if a seed diverged. A diverged seed
            does not stop the other seeds.
    """
    check_count(as_integer(seeds, "seeds"), "seeds", MAX_SEEDS)
    workers = check_count(workers, "workers", MAX_WORKERS)
    threads = check_count(threads, "threads", MAX_THREADS)
    source = _config_source(config)
    changes = as_override_list(overrides)
    resolved = resolve(source, changes).config
    folder = Path(output_dir) / resolved.name
    runs = seeds_of(resolved, folder, seeds)
    _check_resume(resume, folder)
    launch = Launch(
        config_path=_path_of(source), workers=workers,
        before_writing=lambda: create_seed_folders(runs),
    )  # fmt: skip
    with show_bar(resolved.name, progress) as callbacks:
        jobs = train_many(
            runs, threads=threads, resume=bool(resume), overwrite=overwrite,
            callbacks=callbacks, launch=launch,
        )  # fmt: skip
    if error := combined_error(jobs, are_seeds=True):
        raise error
    folders = {job.config.seed: job.folder for job in jobs}
    return Seeds(absolute_result(collect_seeds(folder, resolved.name, folders)))


def compare(
    config: Mapping[str, Any] | str | Path,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    along: Mapping[str, Sequence[float]] | None = None,
    seeds: int | None = None,
    resample_data: bool | None = None,
    measures: Sequence[str] | None = None,
    margin: float | None = None,
    power: float | None = None,
    variance: int | None = None,
    output_dir: str | Path = "outputs",
    workers: int | None = 1,
    progress: bool | None = None,
    **overrides: Any,
) -> Comparison:
    """Train variants of a config with the same seeds, and test which variants are better.

    This function does the same as `seqattn compare`, and writes the same files. Finished runs are
    not trained again.

    Args:
        config: path of a YAML file, name of a shipped config such as "compare/scores", or a dict
            with the content of a YAML file.
        vary: the values of each key by dotted key, such as {"model.cell": ["gru", "lstm"]}. Every
            combination of values is a variant. With None, the section `compare` of the config
            defines the variants.
        along: a mapping from one key to the numbers at which all variants are trained and plotted;
            None for `compare.along` of the config.
        seeds: number of seeds of each variant; None for `compare.seeds` of the config.
        resample_data: whether each seed has its own generated data; None for
            `compare.resample_data` of the config.
        measures, margin, power: what is tested, such as `measures=["sequence_error_rate"]`; None
            for the keys of the same names in the section `compare` of the config.
        variance: number of data sets that are crossed with all seeds, to say which variance comes
            from the data; None for `compare.variance` of the config.
        output_dir: parent of the folder of the comparison.
        workers: see `train_seeds`.
        progress, **overrides: see `train`. The overrides apply to all variants.

    Raises:
        SeqattnError: for an error that a user can correct.
    """
    workers = check_count(workers, "workers", MAX_WORKERS)
    source = _config_source(config)
    if source is None:
        raise UsageError(
            "compare: expected the path of a YAML file, the name of a shipped config, or a dict."
        )
    if along is not None and len(along) != 1:
        raise UsageError(f"along: expected one key with its numbers, got {len(along)} keys.")
    plan = plan_comparison(
        source, as_override_list(overrides), as_config_value(vary or {}),
        along=None if along is None else as_config_value(along), seeds=seeds,
        resample_data=resample_data,
        questions={"measures": None if measures is None else list(measures), "margin": margin,
                   "power": power, "variance": variance},
    )  # fmt: skip
    with show_bar(plan.name, progress) as callbacks:
        result = run_comparison(
            plan, Path(output_dir), callbacks=callbacks,
            launch=Launch(config_path=_path_of(source), workers=workers),
        )  # fmt: skip
    return Comparison(absolute_result(result))


def _check_resume(resume: bool | Literal["auto"], path: Path) -> None:
    """Check the argument `resume`, and that there is a run if it is True."""
    if resume not in (True, False, "auto"):
        raise UsageError(f'resume={resume!r}: expected True, False or "auto".')
    if resume and resume != "auto":
        check_run_exists(path)


def _config_source(config: ConfigArgument) -> ConfigSource:
    """Convert an argument `config` to a mapping of plain data, the path of a file, or None."""
    if config is None:
        return None
    if isinstance(config, Config):
        return as_plain(config)
    if isinstance(config, Mapping):
        plain: Mapping[str, Any] = as_config_value(config)
        return plain
    return find_config(Path(config))


def _path_of(source: ConfigSource) -> Path | None:
    """Return the path of the config file, or None if there is no file."""
    return source if isinstance(source, Path) else None


# --- DataFrames -----------------------------------------------------------------------------------


def _check_frames(frames: Mapping[str, DataFrame]) -> None:
    """Check that each value is a DataFrame, and issue the notes on how it is read."""
    for key, frame in frames.items():
        if frame_kind(frame) is None:
            hint = " To change a key of the section data, use data__KEY=VALUE."
            raise DataError(
                f"data.{key}: expected a DataFrame, got {type(frame).__name__}."
                f"{hint if isinstance(frame, Mapping) else ''}"
            )
        for line in frame_notes(frame):
            warn(line)


@contextlib.contextmanager
def _data_files(frames: Mapping[str, DataFrame], folder: RunFolder) -> Iterator[dict[str, str]]:
    """Write the DataFrames to Parquet files beside the run folder, with a digest of their content
    in the file names. At the end, remove the new files that the config of the run does not name.

    Yields:
        the path of the file of each DataFrame, by key.
    """
    paths, new_files = dict[str, str](), list[Path]()
    try:
        for key, frame in frames.items():
            parent = folder.path.parent
            parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=parent, prefix=".frame-") as scratch:
                unnamed = Path(scratch) / "frame.parquet"
                write_frame(frame, unnamed)
                path = parent / f"{folder.path.name}-{file_digest(unnamed)[:12]}.parquet"
                if not path.exists():
                    unnamed.replace(path)
                    new_files.append(path)
            paths[key] = str(path)
        yield paths
    finally:
        for path in new_files:
            if not (folder.is_run and path.name.encode() in read_regular_file(folder.config)):
                path.unlink(missing_ok=True)


# --- the progress bar -----------------------------------------------------------------------------


@contextlib.contextmanager
def show_bar(name: str, progress: bool | None) -> Iterator[Callbacks]:
    """Show a progress bar for the epochs of all runs during the `with` block.

    Args:
        name: the text before the bar.
        progress: whether to show the bar. With None, the bar is shown only if standard error is a
            terminal, or if the process is the kernel of a notebook.

    Yields:
        the callbacks for training.
    """
    if progress is None:
        ipython = sys.modules.get("IPython")  # a notebook has imported it
        shell = None if ipython is None else ipython.get_ipython()
        is_notebook = shell is not None and "IPKernelApp" in shell.config
        progress = is_notebook or (sys.stderr is not None and sys.stderr.isatty())
    if not progress:
        yield Callbacks()
        return
    with warnings.catch_warnings():
        # Without ipywidgets, a notebook shows the bar as text, which needs no warning.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    bar: Any = None
    losses = RunsInTraining()

    def begin(done: int, epochs: int, runs: int) -> None:
        nonlocal bar
        losses.total = runs
        bar = tqdm(total=epochs, initial=done, desc=name, unit="epoch")

    def epoch(folder: Path, record: EpochRecord) -> None:
        losses.epoch(folder, record)
        if bar is not None:
            bar.set_postfix_str(losses.describe_losses(), refresh=False)
            bar.update()

    def message(line: str) -> None:
        tqdm.write(line, file=sys.stderr)

    try:
        yield Callbacks(begin, epoch, losses.ended, message)
    finally:
        if bar is not None:
            bar.close()
