"""Names, outputs and links that would leave the folder; files that may not be read or written."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.faults import Tally
from tests.faults.nursery import Nursery
from tests.faults.processes import CONFIG, nurtured, words

NAMES = (
    "../escaped", "..", ".", "", " ", "a/b", "/escaped", "//escaped", "~", "~root", "a\\b", "..\\x",
    "a\x00b", "a\nb", "a\x1b[31mb", "x" * 300, "x" * 5000, "-x", "--name", "$HOME", "`touch x`",
    "$(touch x)", "%2e%2e%2fescaped", "file:///escaped", "\u202egnp", "\ufeffx", "con", "*", "?",
    ".hidden", "[bold]x[/]", "caf\u00e9", "a b", "a:b", "a'b\"c",
)  # fmt: skip


def _tree(place: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(place)): str(path.readlink()) if path.is_symlink()
        else path.read_bytes() if path.is_file() else "a folder"
        for path in sorted(place.rglob("*"))
    }  # fmt: skip


def names(every: int = 1) -> Tally:
    """Run names that would lead out of the output folder, or that mean something to somebody."""
    tally = Tally()
    taken = 0
    with nurtured() as (nursery, home):
        for k, name in enumerate(NAMES[::every]):
            inside = home / f"case{k}"
            (inside / "work").mkdir(parents=True)
            (inside / "work" / "c.yaml").write_text(CONFIG)
            with tally.case(repr(name[:40])):
                before = _tree(inside)
                done = nursery.run([*words("out"), "--name", name], inside / "work")
                assert done.code in (0, 2, 5), f"exit code {done.code}: {done.err}"
                assert "Traceback" not in done.err, done.err
                assert "\x1b" not in done.err, "an escape code was written"
                after = _tree(inside)
                new = after.keys() - before.keys()
                assert all(path.startswith("work/out") for path in new), sorted(new)
                runs = {path.split("/")[2] for path in new if path.count("/") >= 2}
                assert len(runs) <= 1, runs
                taken += done.code == 0
            shutil.rmtree(inside)
    tally.remarks.append(f"seqattn accepted {taken} of the {len(NAMES[::every])} run names.")
    return tally


NO_CAPABILITIES = {"no_capabilities": True}


def _modes_bind(nursery: Nursery, place: Path) -> bool:
    """Whether a process without capabilities is refused a file that nobody may read."""
    shut = place / "shut.yaml"
    shut.write_text("seed: 1\n")
    shut.chmod(0o000)
    return nursery.run(["config", "check", "shut.yaml"], place, NO_CAPABILITIES).code != 0


def permissions(most: int = 6) -> Tally:
    """As a user without rights: folders and files that may not be read or written."""
    tally = Tally()
    modes = (
        ("the folder of runs may not be written, the run may", "out", 0o555, 0),
        ("the run may not be written", "out/run", 0o555, 5),
        ("the run may not be entered", "out/run", 0o000, 5),
        ("the checkpoints may not be written", "out/run/checkpoints", 0o555, 5),
        ("the newest checkpoint may not be read", "out/run/checkpoints/last.safetensors", 0o000, 0),
        ("the config may not be read", "c.yaml", 0o000, 2),
    )
    train = [*words("out"), "-q"]
    with nurtured() as (nursery, place):
        bound = _modes_bind(nursery, place)
        for what, where, mode, code in modes[:most]:
            if not bound:
                tally.skip("root's rights cannot be laid down here")
                continue
            home = place / "home"
            home.mkdir()
            (home / "c.yaml").write_text(CONFIG)
            with tally.case(what):
                first = nursery.run(train, home, NO_CAPABILITIES)
                assert first.code == 0, f"the first training: {first.err[-300:]}"
                (home / where).chmod(mode)
                resume = [*train, "--resume", "--set", "training.epochs=7"]
                done = nursery.run(resume, home, NO_CAPABILITIES)
                (home / where).chmod(0o755)
                assert done.code == code, f"{done.code}: {done.err[-300:]}"
                assert "Traceback" not in done.err, done.err
            shutil.rmtree(home)
    return tally
