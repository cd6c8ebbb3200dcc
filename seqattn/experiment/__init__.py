"""A config becomes a finished run folder; many become many, trained side by side."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from seqattn.config import (
    Config,
    OwnFile,
    as_plain,
    resolve,
    to_yaml,
)
from seqattn.data import Sequences, Splits, load
from seqattn.data.own import UNKNOWN
from seqattn.errors import (
    BusyError,
    CheckpointError,
    ConfigError,
    NotFiniteError,
    SeqattnError,
    Stopped,
    StorageError,
    UsageError,
)
from seqattn.evaluation import References
from seqattn.experiment import board, following, results
from seqattn.experiment.film import read_film, write_film
from seqattn.experiment.following import follow
from seqattn.experiment.jobs import Job, Watchers
from seqattn.experiment.resume import brought_together, newest_state
from seqattn.experiment.sizes import (
    bytes_of_a_run,
    bytes_of_checkpoints,
    group_bytes,
    refuse_too_large,
)
from seqattn.experiment.surroundings import choose_device, environment
from seqattn.runs import EpochRecord, RunFolder, find_run, refuse_taken
from seqattn.storage import (
    Beside,
    only_writer,
    read_whole,
    refuse_full_disk,
    write_json,
    write_whole,
    written_together,
)
from seqattn.training import (
    Batch,
    Frame,
    Run,
    Trained,
    TrainingState,
    World,
    load_model,
    refuse_other_files,
    save_best,
    save_state,
    to_tensors,
    train,
)
from seqattn.training.threads import choose_threads


def run(
    config: Config,
    output_dir: Path,
    *,
    device: str = "cpu",
    threads: int | None = 1,
    resume: bool = False,
    overwrite: bool = False,
    config_path: Path | None = None,
    watchers: Watchers | None = None,
    plots: bool = True,
) -> tuple[RunFolder, dict[str, Any]]:
    """Train what a config describes and leave a complete run folder, `output_dir / config.name`.

    The arguments are those of `run_all`, and nothing is written before all is found to be usable.

    Returns:
        the folder, and the content of its summary.json.

    Raises:
        SeqattnError: what a user can mend, with its exit code.
    """
    (job,) = run_all(
        [(config, RunFolder(output_dir / config.name))],
        device=device, threads=threads, resume=resume, overwrite=overwrite, plots=plots,
        config_path=config_path, watchers=watchers,
    )  # fmt: skip
    if job.error is not None:
        raise job.error
    assert job.summary is not None
    return job.folder, job.summary


def run_all(
    configs: Sequence[tuple[Config, RunFolder]],
    *,
    device: str = "cpu",
    threads: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    plots: bool = False,
    config_path: Path | None = None,
    watchers: Watchers | None = None,
    before_writing: Callable[[], None] = lambda: None,
    provenance: Mapping[str, Any] | None = None,
    world: World | None = None,
    given_up: Mapping[Path, str] | None = None,
) -> list[Job]:
    """Train many configs, side by side where they share a shape; each leaves its own run folder.

    Nothing is written before configs, data, device and folders were all found to be usable.

    Args:
        configs: what to train, and the folder it goes to.
        device: "cpu", "cuda" or "auto".
        threads: for torch's operations on the CPU; None measures a few steps.
        resume: go on with the runs that are there.
        overwrite: replace the runs that are there.
        plots: draw each run's pictures.
        config_path: where the configs came from, for their git revision.
        before_writing: called once everything is found usable.
        provenance: for environment.json: the command, and where values of the config are from.
        world: the processes that share the training of one config; this is the first of them.
        given_up: folders of runs that diverged just now, elsewhere, and in what words.

    Returns:
        a job for each config, in their order, with its summary, or with the `NotFiniteError` of a
        run that diverged, which ends none of the others.

    Raises:
        SeqattnError: what a user can mend, with its exit code.
    """
    watchers = watchers or Watchers()
    with world.beginning() if world is not None else contextlib.nullcontext():
        return _run_all(
            configs, choose_device(device), threads, watchers, before_writing, provenance or {},
            world, given_up or {}, resume=resume, overwrite=overwrite, plots=plots,
            config_path=config_path,
        )  # fmt: skip


def _run_all(
    configs: Sequence[tuple[Config, RunFolder]],
    chosen: torch.device,
    threads: int | None,
    watchers: Watchers,
    before_writing: Callable[[], None],
    provenance: Mapping[str, Any],
    world: World | None,
    given_up: Mapping[Path, str],
    *,
    resume: bool,
    overwrite: bool,
    plots: bool,
    config_path: Path | None,
) -> list[Job]:
    for config, folder in configs:
        refuse_taken(folder, resume=resume, overwrite=overwrite)
        board.refuse_without_tensorboard(config)
    _refuse_too_large(configs)
    with ExitStack() as held:
        holding = set[Path]()
        for _, folder in configs:
            if folder.is_run:  # else there is nothing yet to hold
                held.enter_context(only_writer(folder.path))
                holding.add(folder.path)
        jobs = _prepared(configs, resume=resume)
        for job in jobs:
            if job.folder.path in given_up:
                job.error = NotFiniteError(given_up[job.folder.path])
        todo = [job for job in jobs if job.is_to_do]
        if world is not None:
            _agree(world, jobs)
        for place in dict.fromkeys(job.folder.path.parent for job in todo):
            here = [job for job in todo if job.folder.path.parent == place]
            refuse_full_disk(place, sum(map(bytes_of_checkpoints, here)))
        before_writing()
        for job in jobs:
            if job.summary is not None and len(jobs) == 1:
                watchers.say(f"{job.folder.path}: is trained to epoch {job.summary['epochs']}"
                             " already.")  # fmt: skip
        if 0 < len(todo) < len(jobs):
            watchers.say(f"{len(jobs) - len(todo)} of {len(jobs)} runs are trained already.")
        if todo:
            about = {**environment(chosen, config_path), **provenance}
            if world is not None:
                about["processes"] = world.size
            for job in todo:
                if job.folder.path not in holding:
                    _take_hold(job.folder, held)
            _begin(todo, about, threads, overwrite=overwrite)
            groups = list(_groups(jobs))
            if len(todo) == 1:
                watchers.facts(_facts(todo[0]))
            done = sum(job.state.epoch for job in todo if job.state is not None)
            watchers.begin(done, sum(job.config.training.epochs for job in todo))
            for group in groups:
                _train_group(group, chosen, threads, resume, watchers, about, world)
                _leave_if_told(watchers, group, "after training; --resume goes on from there")
        if plots:
            for job in jobs:
                if job.summary is not None:
                    _draw_what_is_missing(job, watchers)
    return jobs


def groups_of(configs: Sequence[tuple[Config, RunFolder]]) -> list[list[tuple[Config, RunFolder]]]:
    """What `run_all` would train side by side, of what is not trained yet.

    Raises:
        SeqattnError: what a user can mend.
    """
    _refuse_too_large(configs)
    jobs = _prepared(configs, resume=True)
    return [[(job.config, job.folder) for job in group] for group in _groups(jobs)]


def _refuse_too_large(configs: Sequence[tuple[Config, RunFolder]]) -> None:
    """Each size once, of which many seeds are."""
    for config in {repr((c.data, c.model, c.training.batch_size)): c for c, _ in configs}.values():
        refuse_too_large(config)


def _prepared(configs: Sequence[tuple[Config, RunFolder]], *, resume: bool) -> list[Job]:
    """Where each run stands; data that several have are made or read once."""
    parts: dict[str, Splits] = {}
    jobs = []
    for config, folder in configs:
        key = repr(config.data)
        if key not in parts:
            parts[key] = load(config.data)
        jobs.append(_prepare(config, folder, parts[key], resume=resume))
    return jobs


def _agree(world: World, jobs: Sequence[Job]) -> None:
    """Hold what is to be trained against what the other processes have, and tell them where.

    Raises:
        WorldError: they have something else.
    """
    (job,) = jobs
    following.refuse_what_cannot_be_shared(job.config)
    world.compare(following.told(job.config), following.digest(job.data))
    if job.summary is not None:
        world.from_first(following.TRAINED)
    elif job.state is None:
        world.from_first(b"")
    else:
        taken = job.folder.previous if job.passed_over else job.folder.last
        world.from_first(read_whole(taken))


def _facts(job: Job) -> dict[str, Any]:
    """What somebody who watches a single run may want to read its losses by."""
    part, scaling = job.data.validation, job.data.scaling
    floor = None if part.ideal is None else References.of(
        part, job.data.train, None, scaling).noise_floor  # fmt: skip
    return {"seed": job.config.seed, "noise_floor": floor}


def _take_hold(folder: RunFolder, held: ExitStack) -> None:
    """Make a new run's folder and hold it, unless somebody was faster."""
    folder.path.mkdir(parents=True, exist_ok=True)
    held.enter_context(only_writer(folder.path))
    if not folder.is_free:
        raise BusyError(f"{folder.path}: another process has begun to write there just now.")


def _begin(
    todo: Sequence[Job], about: dict[str, Any], threads: int | None, *, overwrite: bool
) -> None:
    """Make room in the folders, and write down what each run is."""
    for job in todo:
        folder = job.folder
        if overwrite:
            folder.clear()
        folder.clear_results()
        if job.passed_over:  # a broken file must not be what the next save keeps
            folder.previous.replace(folder.last)
    with written_together():
        for job in todo:
            write_whole(job.folder.config, to_yaml(job.config).encode())
            write_json(job.folder.environment, {**about, "threads": threads or 1})


def seeds_of(config: Config, home: Path, seeds: int) -> list[tuple[Config, RunFolder]]:
    """A config with `seeds` seeds from its own on, each with its folder `home / seed-K`.

    Raises:
        UsageError: `home` is itself a run.
    """
    if RunFolder(home).is_run:
        raise UsageError(
            f"{home}: is the folder of a single run; many seeds need one of their own. Choose"
            " another --name."
        )
    return [
        (config.model_copy(update={"seed": seed}), RunFolder(home / f"seed-{seed}"))
        for seed in range(config.seed, config.seed + seeds)
    ]


def all_errors(failed: Sequence[Job]) -> NotFiniteError:
    """One error for runs that diverged."""
    first = failed[0]
    assert first.error is not None
    if len(failed) == 1:
        return NotFiniteError(f"seed {first.config.seed}: {first.error}")
    seeds = ", ".join(str(job.config.seed) for job in failed)
    return NotFiniteError(
        f"seeds {seeds} diverged; the others are finished. The first: {first.error}"
    )


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
    trained = load_model(checkpoint, expected=expected)
    if expected is not None:  # the folder knows where the data lie, a checkpoint does not
        config = trained.config.model_copy(update={"data": expected.data})
        trained = dataclasses.replace(trained, config=config)
    return folder, trained


def data_of(trained: Trained) -> Splits:
    """The sequences that a model was trained on, made or read again.

    Raises:
        DataError: files that are not there, or are no longer what they were.
    """
    data = load(trained.config.data)
    refuse_other_files(data.digests, trained.layout.digests, "since the training")
    return data


def without_paths(config: Config) -> Config:
    """A config that says how files were read, and not where they lie."""
    if not isinstance(config.data, OwnFile):
        return config
    none = {"path": UNKNOWN, "validation_path": None, "test_path": None}
    return config.model_copy(update={"data": config.data.model_copy(update=none)})


def _prepare(config: Config, folder: RunFolder, data: Splits, *, resume: bool) -> Job:
    """Find out where a run stands.

    Raises:
        UsageError: its model cannot take sequences as long as these.
    """
    job = Job(config, folder, data)
    job.model = job.new_model()
    points = max(data.train.source.shape[1], data.train.target.shape[1])
    if job.model.longest is not None and points > job.model.longest:
        raise UsageError(
            f"model.longest is {job.model.longest}, but the data have sequences of {points} points:"
            " each place needs a position of its own. Set it higher, or positions to sinusoidal."
        )
    found = newest_state(job) if resume else None
    if found is not None:
        job.state = found
        if folder.summary.exists():
            summary = folder.read_summary()
            if job.state.epoch == config.training.epochs or summary["stopped_early"]:
                job.summary = summary
                return job
        job.threads = folder.read_environment().get("threads")
    return job


def _groups(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs that can share every step, no more at once than memory allows.

    They are cut from all jobs, done or not, so that who goes with whom does not depend on what was
    finished before a stop: beside other runs the last bits of a number may be others.
    """
    alike: dict[str, list[Job]] = {}
    for job in jobs:
        alike.setdefault(_shape_of_step(job), []).append(job)
    for shape in alike.values():
        most = max(1, group_bytes() // bytes_of_a_run(shape[0]))
        if shape[0].data.stream is not None:  # each reads for itself
            most = 1
        for first in range(0, len(shape), most):
            group = [job for job in shape[first : first + most] if job.is_to_do]
            ended: dict[tuple[int, int], list[Job]] = {}  # of whom only the results are missing
            for job in group:
                if job.is_trained:
                    ended.setdefault(job.position, []).append(job)
            yield from ended.values()
            group = [job for job in group if not job.is_trained]
            if group:
                brought_together(group)
                yield group


def _shape_of_step(job: Job) -> str:
    """Equal where two jobs can be trained side by side."""
    training, train, validation = job.config.training, job.data.train, job.data.validation
    ragged = [bool(keep.all()) for part in (train, validation)
              for keep in (part.source_keep, part.target_keep)]  # fmt: skip
    return repr(
        (
            as_plain(job.config.model), training.batch_size, training.optimizer, training.momentum,
            training.weight_decay, training.compile, training.precision,
            training.record_attention,
            training.teacher_forcing.coin, training.checkpoint_seconds,
            train.source.shape, train.target.shape, validation.source.shape,
            validation.target.shape, ragged,
        )
    )  # fmt: skip


def _train_group(
    jobs: list[Job],
    device: torch.device,
    threads: int | None,
    resume: bool,
    watchers: Watchers,
    about: dict[str, Any],
    world: World | None = None,
) -> None:
    """Train jobs side by side and conclude each."""
    alone = len(jobs) == 1
    tensors: dict[int, Batch] = {}

    def part(sequences: Sequences, data: Splits) -> Batch:
        if id(sequences) not in tensors:
            tensors[id(sequences)] = to_tensors(sequences, device, scaling=data.scaling)
        return tensors[id(sequences)]

    # Many runs save together, so that the disk is waited for once; one saves while it goes on.
    beside = Beside() if alone else None
    runs = [_run_of(job, part, device, watchers, beside) for job in jobs]
    before = next((job.threads for job in jobs if job.threads), None)
    count, why = (threads, "asked for") if threads else (before, "as before")
    if count is None and world is not None:
        count, why = 1, "one of several processes"
    if count is None:
        count, why = choose_threads(runs) if device.type == "cpu" else (1, "the device works")
    torch.set_num_threads(count)
    parameters = sum(p.numel() for p in runs[0].model.parameters())

    def say(line: str) -> None:
        for job in jobs:
            job.note(line)
            job.write_notes()
        watchers.say(line)

    def engine(name: str) -> None:
        for job in jobs:
            job.note(f"gradients: {name}")

    for note in jobs[0].data.notes:
        watchers.say(note)
    for job in jobs:
        for note in job.data.notes:
            job.note(note)
        if job.data.split:
            job.folder.write_split(job.data.split)
        if job.data.stream is not None:
            job.folder.write_sources(job.data.stream.files())
        if count != 1:
            write_json(job.folder.environment, {**about, "threads": count})
        job.note(
            f"train {job.config.name}: seed {job.config.seed}, {parameters} parameters,"
            f" {job.data.training_sequences} training sequences, device {device}, threads {count}"
            f" ({why}), torch {torch.__version__}"
        )
        if not alone:
            job.note(
                f"side by side with {len(jobs) - 1} more, about"
                f" {bytes_of_a_run(job) / 2**20:.1f} MiB each"
            )
        job.write_notes()
    for job in jobs:
        for line in job.passed_over:
            job.note(line)
            watchers.say(line)
    first = jobs[0].state
    if first is not None:
        step = f", step {first.step}" if first.step else ""
        say(f"Going on after epoch {first.epoch}{step}.")
    elif resume and alone:
        say("There is no checkpoint to resume from yet: starting from the beginning.")

    def stop() -> bool:
        if beside is not None:
            beside.ask()
        return watchers.stop() != 0

    try:
        with beside or contextlib.nullcontext():
            train(runs, stop=stop, say=engine, world=world)
    except BaseException as error:
        name = str(error) if isinstance(error, SeqattnError) else type(error).__name__
        for job in jobs:
            with contextlib.suppress(OSError):  # the disk may be what is wrong
                job.note(f"ended: {name}")
                job.write_notes()
        if isinstance(error, OSError):
            place = error.filename or jobs[0].folder.path
            raise StorageError(
                f"{place}: {error.strerror or error}. The checkpoints that are there are whole;"
                " once this is mended, --resume goes on from them."
            ) from None
        raise
    finished = []
    for job, run in zip(jobs, runs, strict=True):
        job.state, job.error = run.state, run.error
        if run.early:
            watchers.say(
                f"Stopped early after epoch {job.state.epoch if job.state else 0}: no improvement"
                " any more."
            )
        if run.error is not None:
            job.note(f"ended: {run.error}")
        elif run.finished:
            finished.append((job, run))
        else:
            job.note("stopped")
        job.write_notes()
    if finished:
        with written_together():
            results.conclude(finished)
        for job, _ in finished:
            if job.config.logging.tensorboard and job.summary is not None:
                board.conclude(job.folder, job.config, job.summary)
    if world is not None and world.stopped:
        watchers = dataclasses.replace(watchers, stop=lambda: signal.SIGTERM)
    _leave_if_told(
        watchers,
        [job for job, run in zip(jobs, runs, strict=True) if not (run.finished or run.error)],
        f"in epoch {jobs[0].state.epoch + 1 if jobs[0].state else 1}; --resume, with the same"
        " config and --set, goes on from there",
    )


def _run_of(
    job: Job,
    part: Callable[[Sequences, Splits], Batch],
    device: torch.device,
    watchers: Watchers,
    beside: Beside | None,
) -> Run:
    """A job as the training loop sees it.

    Args:
        beside: where its saves are written while it goes on; None: it waits for each.
    """
    assert job.model is not None
    folder, layout = job.folder, job.layout
    written_best = written_film = 0
    scalars = board.Board(folder) if job.config.logging.tensorboard else None
    film = list[Frame]()
    if job.state is not None:
        film += read_film(folder, job.state.epoch)

    def save(state: TrainingState) -> None:
        job.write_notes()
        if beside is None:
            write(state, film)
        else:  # the loop goes on to add to its history and film
            kept, frames = dataclasses.replace(state, history=list(state.history)), list(film)
            beside.begin(lambda: write(kept, frames))

    def write(state: TrainingState, film: Sequence[Frame]) -> None:
        nonlocal written_best, written_film
        with written_together():
            if state.best_epoch != written_best:
                save_best(folder.best, state, job.config, layout)
                written_best = state.best_epoch
            if len(film) != written_film:
                write_film(folder, film, job.data.validation)
                written_film = len(film)
            save_state(folder.last, state, job.config, layout, keep_as=folder.previous)
            folder.write_metrics(state.history)
        if scalars is not None:
            scalars.write(state.history)

    def tell(record: EpochRecord) -> None:
        if (
            beside is not None
        ):  # then somebody may be following the log; metrics.csv has the same numbers
            folder.say(
                f"epoch {record.epoch}: training {record.train_loss:.6g}, validation"
                f" {record.validation_loss:.6g} free running,"
                f" {record.validation_loss_teacher_forced:.6g} teacher-forced"
            )
        watchers.epoch(record)

    return Run(
        job.model.to(device), job.data.stream or part(job.data.train, job.data),
        part(job.data.validation, job.data),
        job.config.training, job.config.seed, job.state, job.data.train.ids, tell, save, film,
    )  # fmt: skip


def _draw_what_is_missing(job: Job, watchers: Watchers) -> None:
    folder, where = job.folder, "; --resume draws the pictures that are missing"
    drawn = [folder.loss_picture, folder.predictions_picture]
    drawn += [folder.attention_picture] if folder.attention.exists() else []
    if not all(picture.exists() for picture in drawn):
        _leave_if_told(watchers, [job], where)
        from seqattn import pictures  # matplotlib is slow to import and not needed before

        for path in pictures.draw_each(folder):
            _leave_if_told(watchers, [job], "; nothing is missing" if path == drawn[-1] else where)


def _leave_if_told(watchers: Watchers, jobs: Sequence[Job], where: str) -> None:
    number = watchers.stop()
    if number and jobs:
        place = jobs[0].folder.path if len(jobs) == 1 else jobs[0].folder.path.parent
        raise Stopped(number, f"saved to {place}{'' if where[0] == ';' else ' '}{where}.")


__all__ = [
    "Job",
    "Watchers",
    "all_errors",
    "bytes_of_a_run",
    "choose_device",
    "data_of",
    "environment",
    "follow",
    "group_bytes",
    "groups_of",
    "open_run",
    "run",
    "run_all",
    "seeds_of",
    "without_paths",
]
