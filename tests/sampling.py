"""The sample of the slow tests that every change runs.

With SUITE=few, as in `make test` and .ci/run, only a part of the cases of the tests below runs. CI runs all
tests once a week, and so does `make test-all`. A test belongs here if its cases are slow and similar. Tests
that look at every file of the project, and tests of numbers that users publish, do not belong here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from zlib import crc32

import pytest

NEVER = 0

SAMPLED: dict[str, int] = {
    "analysis/test_doctor.py::test_a_case": 3,
    "analysis/test_signed_rank.py::test_every_interval_that_is_shown_covers_as_often_as_it_says": 3,
    "browser/test_arithmetic.py::test_the_stages_are_those_of_explain": NEVER,
    "browser/test_live.py::test_impossible_weights_are_refused": NEVER,
    "browser/test_live_numbers.py::test_every_control_gives_the_numbers_of_python": 5,
    "browser/test_live_numbers.py::test_live_combinations_and_the_others_are_counted": NEVER,
    "browser/test_live_share.py::test_the_saved_input_gives_the_forecast_of_the_page": 5,
    "browser/test_pages.py::test_the_slider_walks_through_free_running": 4,
    "browser/test_site.py::test_a_page_opens_from_a_file_and_fits_a_phone": 5,
    "browser/test_tour_panel.py::test_a_model_without_attention_leads_to_one_with_it": NEVER,
    "browser/test_tour_panel.py::test_the_last_step_begins_with_its_verdict": 4,
    "cli/test_every_command.py::test_every_verb_knows_every_kind": 3,
    "cli/test_help_pages.py::test_the_example_works": 3,
    "cli/test_train.py::test_the_same_bytes_from_a_fresh_process": 2,
    "cli/test_train.py::test_a_signal_saves_and_a_resume_ends_the_same": 3,
    "data/test_cache.py::test_a_cached_folder_is_a_file_in_memory": 4,
    "data/test_data_seams.py::test_a_sequence_without_a_source_is_named": 3,
    "data/test_file_dataset.py::test_columns_of_their_own_go_through_every_verb": 4,
    "data/test_file_dataset.py::test_a_forecast_goes_on_from_the_last_window": 3,
    "data/test_files.py::test_what_is_written_is_read_again": 4,
    "data/test_frames.py::test_forecasts_of_a_frame_are_those_of_its_file": 5,
    "data/test_input_roles.py::test_a_column_that_the_training_had_is_needed": 3,
    "data/test_input_roles.py::test_one_row_of_each_series_in_every_format": 3,
    "data/test_leaks.py::test_later_rows_change_nothing_that_is_learned": 5,
    "data/test_leaks.py::test_rows_of_the_test_part_change_nothing_of_a_fitted_skip": 5,
    "data/test_leaks.py::test_values_behind_a_source_change_no_forecast_of_it": 3,
    "data/test_observed_only.py::test_a_run_knows_observed_cells_alone": 5,
    "data/test_observed_only.py::test_what_a_missing_target_cell_is_filled_with_changes_nothing": 2,
    "data/test_pandas_dates.py::test_a_calendar_that_is_not_known_is_refused": 4,
    "data/test_pandas_dates.py::test_a_file_goes_on_as_in_pandas": 5,
    "data/test_pandas_dates.py::test_dates_go_on_as_in_pandas": 5,
    "data/test_pandas_dates.py::test_few_rows_go_on_with_the_spacing_of_the_training": 7,
    "data/test_pandas_dates.py::test_rows_that_lack_are_those_of_pandas": 5,
    "data/test_real_files.py::test_roles_are_found_and_the_section_trains": 7,
    "data/test_window_memory.py::"
    "test_a_part_is_scored_and_written_in_memory_that_does_not_grow": NEVER,
    "data/test_writing_tables.py::test_a_forecast_has_the_form_of_its_file_and_is_read_like_it": 5,
    "experiments/test_trackers.py::test_mlflow_has_every_epoch_once_after_a_stop": NEVER,
    "experiments/test_trackers.py::"
    "test_the_offline_file_of_wandb_has_every_epoch_once_after_a_stop": NEVER,
    "experiments/test_worker_faults.py::"
    "test_a_killed_worker_is_named_and_the_others_are_saved": NEVER,
    "experiments/test_worker_faults.py::test_workers_end_with_a_killed_parent": NEVER,
    "export/test_export.py::test_graphs_say_what_the_model_says": 6,
    "export/test_live.py::test_intermediate_results_add_up": 5,
    "export/test_live.py::test_the_live_graph_equals_the_model": 7,
    "export/test_live_combinations.py::"
    "test_every_sampled_combination_is_live_and_equals_the_model": NEVER,
    "export/test_live_faults.py::test_an_lstm_with_heads_and_context_as_input_is_traced": 4,
    "export/test_normalized.py::test_graphs_normalize_each_source": 3,
    "export/test_skip_export.py::test_graphs_say_network_plus_skip": 4,
    "faults/test_faults.py::test_a_fault": 5,
    "many/test_process_group.py::test_torchrun_starts_again_where_a_lost_process_left": NEVER,
    "many/test_ray.py::test_a_node_that_is_killed_loses_nothing": NEVER,
    "many/test_ray_stopped.py::test_a_signal_ends_it_with_its_exit_code_and_no_stack": NEVER,
    "models/test_bfloat16.py::test_nothing_but_products_is_rounded": 5,
    "models/test_exact_classes.py::test_a_subclass_is_differentiated_by_autograd": 4,
    "plots/test_figures.py::test_any_length_up_to_64_is_drawn_whole": 3,
    "plots/test_figures.py::test_no_word_is_cut_off": 4,
    "plugins/test_check_plugin.py::test_each_mistake_is_named": 5,
    "plugins/test_check_plugin.py::test_our_own_mechanisms_pass": 3,
    "plugins/test_page.py::test_the_files_and_commands_of_the_page": NEVER,
    "plugins/test_security.py::test_a_command_with_the_plugin": 5,
    "plugins/test_training.py::"
    "test_the_page_shows_the_scores_of_a_plugin_without_arithmetic": NEVER,
    "project/test_contract.py::test_a_step_of_run_k_of_many_is_the_step_of_the_run_alone": 7,
    "project/test_contract.py::test_gradients_are_those_of_central_differences": 5,
    "project/test_contract.py::test_one_step_at_a_time": 7,
    "project/test_contract.py::test_padding_changes_nothing_and_weights_are_what_they_say": 5,
    "project/test_docs.py::test_every_command_of_a_page_does_what_it_should": 6,
    "project/test_docs.py::test_the_python_of_the_documents_runs": 3,
    "training/test_engine.py::"
    "test_auto_compiles_when_that_is_shorter_and_goes_back_where_it_is_slower": 4,
    "training/test_engine.py::test_a_compiled_step_trains_the_same": 4,
    "training/test_engine.py::test_bfloat16_rounds_the_steps_and_nothing_else": 4,
    "training/test_engine.py::test_derived_gradients_are_autograds": 4,
    "training/test_engine.py::test_run_k_of_many_is_the_run_alone": 4,
    "training/test_engine.py::test_runs_innermost_are_the_same": 5,
    "training/test_engine.py::test_each_run_keeps_its_clipping_rate_and_early_stop": 3,
    "training/test_resident_windows.py::test_windows_become_the_same_tensors": 4,
}
"""For each test, n: about one of n cases runs; no case runs if n is `NEVER`."""
MIN_COVERED = 24
"""Number of cases from which the sample contains every value of every parameter of a test."""

SAMPLED_FILES: dict[str, int] = {
    "analysis/test_diverged_seeds.py": 2,
    "analysis/test_metrics_shown.py": 2,
    "analysis/test_seeds_shown.py": 2,
    "analysis/test_table_formats.py": 2,
    "browser/test_live_faults.py": NEVER,
    "browser/test_live_share.py": 3,
    "browser/test_loss_scales.py": NEVER,
    "browser/test_pages.py": 3,
    "browser/test_tour_panel.py": 2,
    "cli/test_completion.py": 2,
    "data/test_cache.py": 2,
    "data/test_file_dataset.py": 2,
    "data/test_files.py": 2,
    "data/test_frames.py": 2,
    "data/test_input_roles.py": 2,
    "data/test_normalize.py": 2,
    "data/test_reading_pipes.py": 2,
    "data/test_spacing.py": 2,
    "data/test_tables.py": 2,
    "experiments/test_comparison.py": 2,
    "experiments/test_core_faults.py": 2,
    "experiments/test_core_seams.py": 2,
    "experiments/test_folder_locks.py": 2,
    "experiments/test_resampled_data.py": 2,
    "experiments/test_search_trials.py": 3,
    "experiments/test_search_words.py": 3,
    "experiments/test_skip_start.py": 2,
    "experiments/test_trackers.py": 3,
    "experiments/test_tuning.py": 3,
    "experiments/test_worker_faults.py": 2,
    "experiments/test_worker_processes.py": 2,
    "export/test_export.py": 2,
    "export/test_live_faults.py": 2,
    "export/test_normalized.py": 2,
    "export/test_plugin_export.py": 2,
    "export/test_skip_export.py": 2,
    "plots/test_figures.py": 2,
    "plots/test_run_displays.py": 3,
    "plugins/test_check_plugin.py": 2,
    "plugins/test_training.py": 2,
    "report/test_live_content.py": 2,
    "runs/test_logging.py": 2,
    "training/test_engine.py": 2,
    "training/test_parameter_history.py": 2,
    "walks/": 8,
}
"""For each file or folder, n: of its tests that `SAMPLED` does not list, about one of n cases runs; no case runs if n is `NEVER`."""


def name_of(item: pytest.Item) -> str:
    """Return the path of a test below the folder `tests`, and its name without parameters."""
    return item.nodeid.removeprefix("tests/").partition("[")[0]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With SUITE=few, remove the cases that are not in the sample from the list of tests."""
    if os.environ.get("SUITE") != "few":
        return
    left_out = not_sampled(items)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


def not_sampled(items: Sequence[pytest.Item]) -> dict[pytest.Item, None]:
    """Return the cases that are not in the sample, in their order."""
    families = dict[str, list[pytest.Item]]()
    for item in items:
        key, step = family_of(item)
        if step != 1:
            families.setdefault(key, []).append(item)
    kept = set[pytest.Item]()
    for key, family in families.items():
        step = SAMPLED.get(key, SAMPLED_FILES.get(key, 1))
        kept |= set() if step == NEVER else sample(family, step)
    left_out = {item for family in families.values() for item in family} - kept
    return {item: None for item in items if item in left_out}


def sample(family: Sequence[pytest.Item], step: int) -> set[pytest.Item]:
    """Choose about one of `step` cases, and at least one. The choice depends on the hash of the
    name, because a choice by place could leave out a value of a parameter in every case."""
    by_hash = sorted(family, key=lambda item: crc32(item.nodeid.encode()))
    kept = set(by_hash[: max(1, len(family) // step)])
    if len(family) < MIN_COVERED:
        return kept
    values = set().union(*map(values_of, kept))
    for item in by_hash:
        if values_of(item) - values:
            kept.add(item)
            values |= values_of(item)
    return kept


def values_of(item: pytest.Item) -> set[tuple[str, str]]:
    """Return the name and the value of each parameter, for tests with several parameters."""
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    return {(name, repr(value)) for name, value in params.items()} if len(params) > 1 else set()


def family_of(item: pytest.Item) -> tuple[str, int]:
    """Return the entry of `SAMPLED` or `SAMPLED_FILES` to which a case belongs, and its number."""
    name = name_of(item)
    if name in SAMPLED:
        return name, SAMPLED[name]
    for path, step in SAMPLED_FILES.items():
        if name.startswith(path):
            return path, step
    return name, 1
