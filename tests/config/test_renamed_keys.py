"""Keys that were renamed: the old names work for a release, with one warning that says what to
write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.config import as_plain, from_plain, resolve
from seqattn.config.renames import RenamedKeyWarning
from seqattn.errors import ConfigError
from tests.conftest import Ended

ROWS = [f"s{k},{t},{k + t},{k - t}" for k in range(12) for t in range(5)]
TABLE = "\n".join(["who,when,x,y", *ROWS]) + "\n"
NEW = (
    "name: c\ndata:\n  kind: file\n  path: f.csv\n  series: who\n  time: when\n  source_length: 3\n"
)
OLD = NEW.replace("series:", "sequence:").replace("time:", "order:")
TRAINING = "training: {epochs: 1}\n"


def resolved(tmp_path: Path, text: str) -> tuple[object, list[str]]:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = resolve(file, []).config
    assert all(issubclass(each.category, RenamedKeyWarning) for each in caught)
    return config, [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, NEW),
        (OLD.replace("who", "sequence").replace("when", "step"),
         NEW.replace("who", "auto").replace("when", "auto")),
        (OLD.replace("who", "null").replace("when", "null"),
         NEW.replace("who", "null").replace("when", "null")),
    ],
    ids=["named", "default", "null"],
)  # fmt: skip
def test_old_keys_give_the_same_config_and_say_what_to_write(
    tmp_path: Path, old: str, new: str
) -> None:
    same, messages = resolved(tmp_path, new)
    assert messages == []
    found, messages = resolved(tmp_path, old)
    assert found == same
    written = {line.split(":")[0].strip(): line for line in new.splitlines()}
    assert len(messages) == 2
    for message, line, names in zip(
        messages, (5, 6), (("sequence", "series"), ("order", "time")), strict=True
    ):
        assert message.startswith(
            f"{tmp_path / 'c.yaml'}:{line}: data.{names[0]} is now called data.{names[1]}"
        )
        value = written[names[1]].partition(": ")[2]
        assert message.endswith((f"Write {names[1]}: {value}", f'Write {names[1]}: "{value}"'))


@pytest.mark.parametrize("pair", [("sequence", "series"), ("order", "time")])
def test_both_names_at_once_are_a_mistake(tmp_path: Path, pair: tuple[str, str]) -> None:
    old, _ = pair
    file = tmp_path / "c.yaml"
    file.write_text(NEW.replace("  source_length", f"  {old}: z\n  source_length"))
    with pytest.raises(ConfigError) as caught:
        resolve(file, [])
    (mistake,) = caught.value.mistakes
    assert f"data.{old}" in mistake
    assert f"{file}:7" in mistake


def test_a_run_of_old_keys_is_that_of_new_ones_and_warns_once(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    """A folder and a checkpoint that hold the old names predict as those with the new ones."""
    Path("f.csv").write_text(TABLE)
    Path("new.yaml").write_text(NEW + TRAINING)
    assert seqattn("train", "new.yaml", "--quiet").code == 0
    home = tmp_path / "outputs" / "c"
    expected = seqattn("predict", home, "--input", "f.csv")
    assert expected.code == 0
    assert expected.out.startswith("who,when,x,y\n")
    config = home / "config.yaml"
    text = config.read_text()
    assert "series: who" in text
    assert "time: when" in text
    config.write_text(
        text.replace("  series: who", "  sequence: who").replace("  time: when", "  order: when")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        again = seqattn("predict", home, "--input", "f.csv")
        checkpoint = seqattn("predict", home / "checkpoints/best.safetensors", "--input", "f.csv")
    assert (again.code, again.out) == (0, expected.out)
    assert (checkpoint.code, checkpoint.out) == (0, expected.out)


def test_a_checkpoint_of_an_earlier_version_is_read_without_a_word(tmp_path: Path) -> None:
    config, _ = resolved(tmp_path, NEW)
    plain = as_plain(config)  # type: ignore[arg-type]
    data = dict(plain["data"])
    data["sequence"], data["order"] = "who", "when"
    del data["series"], data["time"]
    assert from_plain({**plain, "data": data}, "a checkpoint") == config  # a warning is an error


def test_the_warning_is_shown_once_and_without_the_words_of_python(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    Path("f.csv").write_text(TABLE)
    Path("old.yaml").write_text(OLD + TRAINING)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = seqattn("train", "old.yaml", "--quiet")
    assert done.code == 0, done.err
    output = " ".join(done.err.split())
    assert output.count("data.sequence is now called data.series") == 1
    assert output.count("data.order is now called data.time") == 1
    assert "RenamedKeyWarning" not in output
    assert "old.yaml:5" in output
