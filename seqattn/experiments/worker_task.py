"""The task of a worker process: a group of jobs, and the settings for their training."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seqattn.analysis.evaluation.load_run import SplitsChangedWarning
from seqattn.config import OwnFile, PluginChangedWarning, RenamedKeyWarning, as_plain
from seqattn.config.plugins import load_received, plugin_contents
from seqattn.data import Splits
from seqattn.data.tasks import naive_forecast_of
from seqattn.experiments.group_training import Resources
from seqattn.experiments.job import Job

SILENT_WARNINGS = (RenamedKeyWarning, SplitsChangedWarning, PluginChangedWarning)
"""The warnings about configs and runs that a worker does not show, because the parent process has
checked the same configs and runs."""


@dataclass(frozen=True)
class WorkerTask:
    """A group of jobs, as it is sent to a worker.

    Attributes:
        configs: the configs as plain data, because a worker cannot unpickle a plugin's config
            section before it has loaded the plugin.
        plugins: the loaded plugins; see `plugin_contents`.
        jobs: the pickled jobs. Their data lack the naive baseline, which may be a function that
            cannot be pickled.
        resources: the device, threads and environment.
        variables: the environment variables of the parent process. A worker starts with the
            variables of the fork server, which may be older.
        start_method: the start method of `multiprocessing` that the parent process has selected;
            None for the default of the system. Without this value, a worker would use the method
            with which it was started.
    """

    configs: list[dict[str, Any]]
    plugins: dict[str, bytes | None]
    jobs: bytes
    resources: Resources
    variables: Mapping[str, str]
    start_method: str | None

    @classmethod
    def of(cls, jobs: Sequence[Job], resources: Resources) -> WorkerTask:
        # Plain pickle copies tensors. The pickler of multiprocessing would share their memory,
        # which ends with the process.
        content = pickle.dumps(
            _replace_data(jobs, lambda job: replace(job.data, rule=None)), pickle.HIGHEST_PROTOCOL
        )
        return cls(
            configs=[as_plain(job.config) for job in jobs],
            plugins=plugin_contents(),
            jobs=content,
            resources=resources,
            variables=dict(os.environ),
            start_method=multiprocessing.get_start_method(allow_none=True),
        )

    def set_up_process(self) -> None:
        """Give this process the settings of the parent process. Plugins may depend on them."""
        for name in set(os.environ) - set(self.variables):
            del os.environ[name]
        os.environ.update(self.variables)
        multiprocessing.set_start_method(self.start_method, force=True)
        for category in SILENT_WARNINGS:
            warnings.simplefilter("ignore", category)

    def load_jobs(self) -> list[Job]:
        """Load the plugins, and return the jobs.

        Raises:
            SeqattnError: for an error in a plugin.
        """
        load_received(self.plugins, self.configs)
        jobs: list[Job] = pickle.loads(self.jobs)  # noqa: S301 (from a process of this command)
        return _replace_data(jobs, _with_naive_baseline)


def _replace_data(jobs: Sequence[Job], new_data: Callable[[Job], Splits]) -> list[Job]:
    """Replace the data of each job. Jobs that share their data also share the new data."""
    data = {id(job.data): new_data(job) for job in jobs}
    return [replace(job, data=data[id(job.data)]) for job in jobs]


def _with_naive_baseline(job: Job) -> Splits:
    task = job.config.data
    return job.data if isinstance(task, OwnFile) else replace(
        job.data, rule=naive_forecast_of(task)
    )  # fmt: skip
