"""The functions that train a run, several seeds or a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seqattn.analysis.comparison import collect_seeds
from seqattn.config import Config, ConfigSource, Override, resolve
from seqattn.config.comparing import plan_comparison
from seqattn.config.plugins import with_used_plugins
from seqattn.config.shipped_configs import find_config
from seqattn.errors import UsageError
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
from seqattn.experiments.api.comparison import Comparison
from seqattn.experiments.api.paths import absolute_result
from seqattn.experiments.api.progress import show_bar
from seqattn.experiments.api.run import Run
from seqattn.experiments.api.seeds import Seeds
from seqattn.experiments.compare import run_comparison
from seqattn.experiments.frames import FrameData, train_on_frames
from seqattn.experiments.worker_count import MAX_WORKERS
from seqattn.runs import RunFolder, check_run_exists

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
            `--set`. Overrides are not allowed with a `Config`.

    Raises:
        CheckpointError: if `resume` is true and there is no run.
        SeqattnError: for any other error that a user can correct.
    """
    frames = {"path": data, "validation_path": validation, "test_path": test}
    source = _config_source(config)
    changes = as_override_list(overrides)
    name = _name_of(source, "training")
    with show_bar(name, progress) as callbacks:
        options = _Options(Path(output_dir), resume, overwrite, callbacks)
        folder = _train_run(source, changes, frames, options)
    return Run.open(folder.path)


class _Options(NamedTuple):
    """The arguments of `train` that say where and how a run is trained."""

    output_dir: Path
    resume: bool | Literal["auto"]
    overwrite: bool
    callbacks: Callbacks


def _train_run(
    source: Config | ConfigSource,
    changes: Sequence[Override],
    frames: Mapping[str, DataFrame | None],
    options: _Options,
) -> RunFolder:
    """Train a run on DataFrames or, if there are none, on the data of the config; see `train`."""
    output_dir, resume, overwrite, callbacks = options
    replaced = [key for key, frame in frames.items() if frame is not None]
    if _needs_run(resume):
        check_run_exists(output_dir / _resolve(source, changes, replaced).name)
    if replaced:
        return train_on_frames(
            source, FrameData(frames, warn), changes, output_dir,
            resume=bool(resume), overwrite=overwrite, callbacks=callbacks,
        )  # fmt: skip
    resolved = _resolve(source, changes)
    folder = RunFolder(output_dir / resolved.name)
    jobs = train_many(
        [(resolved, folder)], threads=1, resume=bool(resume), overwrite=overwrite, plots=True,
        callbacks=callbacks, launch=Launch(config_path=_path_of(source)),
    )  # fmt: skip
    if error := combined_error(jobs, are_seeds=False):
        raise error
    return folder


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
    if not 1 <= as_integer(seeds, "seeds") <= 100_000:
        raise UsageError(f"seeds {seeds}: expected 1 to 100000.")
    workers = check_count(workers, "workers", MAX_WORKERS)
    threads = check_count(threads, "threads", MAX_THREADS)
    source = _config_source(config)
    changes = as_override_list(overrides)
    resolved = _resolve(source, changes)
    folder = Path(output_dir) / resolved.name
    runs = seeds_of(resolved, folder, seeds)
    if _needs_run(resume):
        check_run_exists(folder)
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
        output_dir: parent of the folder of the comparison.
        workers: see `train_seeds`.
        progress, **overrides: see `train`. The overrides apply to all variants.

    Raises:
        SeqattnError: for an error that a user can correct.
    """
    workers = check_count(workers, "workers", MAX_WORKERS)
    source = _config_source(config)
    if source is None or isinstance(source, Config):
        raise UsageError(
            "compare: expected the path of a YAML file, the name of a shipped config, or a dict."
        )
    if along is not None and len(along) != 1:
        raise UsageError(f"along: expected one key with its numbers, got {len(along)} keys.")
    plan = plan_comparison(
        source, as_override_list(overrides), as_config_value(vary or {}),
        along=None if along is None else as_config_value(along), seeds=seeds,
        resample_data=resample_data,
    )  # fmt: skip
    with show_bar(plan.name, progress) as callbacks:
        result = run_comparison(
            plan, Path(output_dir), callbacks=callbacks,
            launch=Launch(config_path=_path_of(source), workers=workers),
        )  # fmt: skip
    return Comparison(absolute_result(result))


def _needs_run(resume: bool | Literal["auto"]) -> bool:
    """Return whether a run must exist already.

    Raises:
        UsageError: if `resume` is neither True, False nor "auto".
    """
    if resume not in (True, False, "auto"):
        raise UsageError(f'resume={resume!r}: expected True, False or "auto".')
    return resume != "auto" and resume


def _config_source(config: ConfigArgument) -> Config | ConfigSource:
    """Convert an argument `config` to a config, a mapping of plain data, the path of a file, or
    None."""
    if config is None or isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        plain: Mapping[str, Any] = as_config_value(config)
        return plain
    return find_config(Path(config))


def _resolve(
    source: Config | ConfigSource, changes: Sequence[Override], replaced: Sequence[str] = ()
) -> Config:
    """Build the config of a run. The config lists every plugin that it uses.

    Args:
        source: the result of `_config_source`.
        changes: the changed values. They are not allowed with a `Config`.
        replaced: the keys of the section `data` that DataFrames replace. Unless the source is a
            `Config`, their values in the result are placeholders.

    Raises:
        UsageError: if there are changes for a `Config`.
        ConfigError: if the config has mistakes.
    """
    if not isinstance(source, Config):
        kind = [("data.kind", "file")] if replaced else []
        paths = [(f"data.{key}", "frame.parquet") for key in replaced]
        return resolve(source, [*changes, *kind, *paths]).config
    if changes:
        raise UsageError(
            "overrides: allowed with a YAML file or None, not with a Config. Change the Config"
            " instead."
        )
    return with_used_plugins(source)


def _path_of(source: Config | ConfigSource) -> Path | None:
    """Return the path of the config file, or None if there is no file."""
    return source if isinstance(source, Path) else None


def _name_of(source: Config | ConfigSource, default: str) -> str:
    """Return a short name of a config for the progress bar."""
    if isinstance(source, Config):
        return source.name
    if isinstance(source, Path):
        return source.stem
    return str((source or {}).get("name", default))
