"""`seqattn check-plugin` passes correct mechanisms, and names the mistake in broken ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from seqattn.errors import ConfigError
from seqattn.experiments.contract import MechanismReport, check_mechanism, check_plugin
from seqattn.experiments.contract.plugin import CHECKS, TASK_CHECKS
from tests.conftest import ROOT, Ended
from tests.plugins.broken import CORRECT, MISTAKES
from tests.project.test_docs import blocks

EXAMPLES = sorted((ROOT / "examples/plugins").glob("*.py"))
# The other checks that find the same mistake.
ALSO = {
    "no mask": {"padding"},
    "mask after the normalization": {"padding"},
    "location without a mask": {"padding"},
    "non-differentiable step": {"scale"},
    "non-finite": {"scale"},
    "mixed queries": {"runs"},
    "global random numbers": {"prefix", "resume"},
    "alignment outside of the source": {"resume"},
    "temperature of masked scores": {"finite", "resume", "runs"},
}


@pytest.fixture
def without_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/export traces graphs; here, this takes ten seconds for each file."""
    checks = "seqattn.experiments.contract.training_checks"
    monkeypatch.setattr(f"{checks}.claims_export", lambda module: False)


def states_of(report: MechanismReport) -> dict[str, str]:
    return {row.check: row.state for row in report.rows}


def test_the_score_of_the_examples_passes_every_check(
    seqattn: Callable[..., Ended], without_export: None
) -> None:
    done = seqattn("check-plugin", ROOT / "examples/plugins/bilinear_tanh.py", "--json")
    assert done.code == 0, done.out + done.err
    assert done.err.splitlines() == ["Checking score bilinear_tanh in 14 combinations."]
    (found,) = json.loads(done.out)["mechanisms"]
    assert (found["kind"], found["name"], found["combinations"]) == ("score", "bilinear_tanh", 14)
    assert found["refused"] == []
    states = {row["check"]: row["state"] for row in found["checks"]}
    assert states == dict.fromkeys(CHECKS, "passed") | {"export": "not applicable"}


@pytest.mark.parametrize("kind", CORRECT)
def test_correct_plugins_of_the_other_kinds_pass(kind: str, write: Callable[..., Path]) -> None:
    for report in check_plugin(write("correct.py", CORRECT[kind]), limit=2):
        assert report.kind == kind.split()[0]
        assert set(states_of(report).values()) <= {"passed", "not applicable"}, report.rows


@pytest.mark.parametrize(
    ("part", "name"), [("cell", "lstm"), ("location", "location_shift"),
                       ("location", "monotonic"), ("normalizer", "hard"), ("normalizer", "entmax"),
                       ("model", "fast_weights"), ("model", "transformer")],
)  # fmt: skip
def test_our_own_mechanisms_pass(part: str, name: str, without_export: None) -> None:
    more = {
        "hard": ["model.attention.estimator=reinforce"],
        "entmax": ["model.attention.alpha=learned"],
    }.get(name, [])
    report = check_mechanism(part, name, overrides=more, limit=2)  # type: ignore[arg-type]
    assert set(states_of(report).values()) <= {"passed", "not applicable"}, report.rows


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_named(name: str, write: Callable[..., Path]) -> None:
    mistake = MISTAKES[name]
    (report,) = check_plugin(write("broken.py", mistake.content), limit=mistake.combinations)
    rows = {row.check: row for row in report.rows}
    assert rows[mistake.check].state == mistake.state, report.rows
    for words in mistake.words:
        assert words in rows[mistake.check].message
    found = {row.check for row in report.rows if row.state in ("failed", "warning")}
    assert found - {mistake.check} == ALSO.get(name, set())


def test_every_check_finds_a_mistake_of_some_plugin() -> None:
    found = {mistake.check for mistake in MISTAKES.values()}
    found |= {check for checks in ALSO.values() for check in checks} | {"export"}
    of_values = {"values"}  # tested below
    assert {*CHECKS, *TASK_CHECKS} <= found | of_values


def test_large_values_of_a_task_are_found(write: Callable[..., Path]) -> None:
    content = CORRECT["task"].replace("uniform(-1, 1,", "uniform(-1000, 1000,")
    (report,) = check_plugin(write("large.py", content))
    assert states_of(report)["values"] == "warning"
    content = CORRECT["task"].replace("ideal = source[:, :-1] + source[:, 1:]",
                                      "ideal = 1 + 0 * source[:, 1:]")  # fmt: skip
    content = content.replace("ideal + noise, 0.0", "ideal, 0.0").replace("sum", "constant")
    content = content.replace("NeighbourSum", "Constant")
    (report,) = check_plugin(write("constant_task.py", content))
    assert states_of(report)["values"] == "failed"


def test_failures_are_printed_with_an_exit_code(
    seqattn: Callable[..., Ended], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanisms = "seqattn.experiments.contract.plugin.combinations_of"
    monkeypatch.setattr(mechanisms, lambda part, name: iter([{"attention.score": name}]))
    file = write("broken.py", MISTAKES["padding leak"].content)
    done = seqattn("check-plugin", file)
    assert done.code == 8
    assert f"seqattn: {file}: score bilinear_tanh fails 1 check: padding." in done.err
    lines = {line.split()[1]: line for line in done.out.splitlines()[1:]}
    assert lines["padding"].startswith("  failed")
    assert "Padding changes the forecast by up to 0." in lines["padding"]
    assert lines["batch"].startswith("  passed")


def test_overrides_set_the_keys_of_a_plugin(seqattn: Callable[..., Ended]) -> None:
    file = ROOT / "examples/plugins/bilinear_tanh.py"
    done = seqattn("check-plugin", file, "--set", "model.attention.width=0")
    assert done.code == 2
    assert "width" in done.err
    done = seqattn("check-plugin", "nothing_here.py")
    assert done.code == 2
    assert "nothing_here.py: the plugin cannot be read" in done.err


def test_required_keys_are_set_with_overrides(write: Callable[..., Path]) -> None:
    content = CORRECT["location"].replace(
        '    """A preference for the last steps."""',
        '    """A preference for the last steps."""\n\n    gain: float\n    """Gain."""',
    )
    path = write("required.py", content)
    with pytest.raises(ConfigError, match=r"model.attention.location.gain: is required"):
        check_plugin(path, limit=1)
    (report,) = check_plugin(path, overrides=["model.attention.location.gain=1.0"], limit=1)
    assert not report.has_failed


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_trains_and_passes(
    path: Path, seqattn: Callable[..., Ended], without_export: None, tmp_path: Path
) -> None:
    assert len(path.read_text().splitlines()) < 60
    config = path.with_suffix(".yaml")
    name = yaml.safe_load(config.read_text())["name"]
    small = ["training.epochs=1", "data.n_train=16", "data.n_validation=8", "data.n_test=8"]
    sets = [word for text in small for word in ("--set", text)]
    done = seqattn("train", config, *sets, "--plots", "none", "-q")
    assert done.code == 0, done.err
    assert (tmp_path / "outputs" / name / "summary.json").is_file()
    (report,) = check_plugin(path, limit=2)
    assert set(states_of(report).values()) <= {"passed", "not applicable"}, report.rows


def test_combinations_with_several_heads_are_refused_for_a_score_with_one_head(
    write: Callable[..., Path], without_export: None
) -> None:
    code = blocks(ROOT / "docs/plugins.md", "python")[0]
    (report,) = check_plugin(write("my_attention.py", code))
    assert set(states_of(report).values()) == {"passed", "not applicable"}
    assert report.combinations == 8
    assert len(report.refused) == 6
    assert all("heads: 2" in refused for refused in report.refused)
    assert report.refused[0] == (
        "normalizer: softmax, heads: 2: model.attention.heads: is 2, but the score bilinear_tanh"
        " has 1 head. Set it to 1, or pass config.heads to super().__init__ in the class"
        " BilinearTanh, and split queries and keys into heads."
    )


def test_a_run_with_heads_that_the_score_does_not_have_is_refused(
    seqattn: Callable[..., Ended], write: Callable[..., Path], tmp_path: Path
) -> None:
    shift = "model.attention={score: bilinear_tanh, heads: 2, location: {kind: location_shift}}"
    file = write("my_attention.py", blocks(ROOT / "docs/plugins.md", "python")[0])
    done = seqattn("train", ROOT / "configs/squares.yaml", "--plugin", file, "--set", shift)
    assert done.code == 2
    assert "model.attention.heads: is 2, but the score bilinear_tanh has 1 head." in done.err
    assert not (tmp_path / "outputs").exists()


NOISE_KEY = '''    noise: Annotated[float, Field(ge=0, le=10)] = 0.1
    """Standard deviation of the normal noise on the target."""
'''
IDEAL = "ideal=np.where(keep, ideal, 0.0),"


@pytest.mark.parametrize(
    ("old", "new", "check", "words"),
    [
        (
            IDEAL,
            f"{IDEAL[:-1]} if task.noise else None,",
            "ideal",
            "With noise: 0, the task returns",
        ),
        (NOISE_KEY, "", "shapes", ":33: the task neighbour_sum raises AttributeError: "),
        (IDEAL, "ideal={'noise': 1},", "shapes", "must return `ideal`, the target without noise"),
        (
            IDEAL,
            "ideal=ideal[:, :1],",
            "shapes",
            "the shape of the target, (37, 5, 2), got (37, 1,",
        ),
    ],
    ids=["no ideal without noise", "no key noise", "a mapping", "a shape"],
)
def test_a_wrong_ideal_forecast_is_named(
    old: str, new: str, check: str, words: str, seqattn: Callable[..., Ended],
    write: Callable[..., Path],
) -> None:  # fmt: skip
    content = (ROOT / "examples/plugins/neighbour_sum.py").read_text()
    assert old in content
    file = write("sums.py", content.replace(old, new))
    (report,) = check_plugin(file)
    assert states_of(report)[check] == "failed"
    assert words in {row.check: row.message for row in report.rows}[check]
    if check == "shapes":
        task = "data={kind: neighbour_sum, n_train: 8, n_validation: 8, n_test: 8}"
        done = seqattn("train", ROOT / "configs/squares.yaml", "--plugin", file, "--set", task)
        assert done.code == 2
        assert done.err.startswith(f"seqattn: {file}:")
        assert "the task neighbour_sum" in done.err
