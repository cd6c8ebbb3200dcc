"""The files that describe the project agree with each other. `make project-files` checks their form."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import yaml

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
)


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


WORKFLOWS = {path.stem: read(str(path.relative_to(ROOT)))
             for path in (ROOT / ".github/workflows").glob("*.yml")}  # fmt: skip


def test_ci_covers_each_system_each_python_and_the_oldest_dependencies() -> None:
    matrix = WORKFLOWS["ci"]["jobs"]["tests"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={matrix['python'][0]}"
    (oldest,) = matrix["include"]
    assert (oldest["dependencies"], oldest["python"]) == ("oldest", matrix["python"][0])
    extras = WORKFLOWS["ci"]["jobs"]["tests"]["env"]["EXTRAS"].split(",")
    development = {"all", "checks", "dev", "docs", "ray"}
    assert set(extras) <= PROJECT["optional-dependencies"].keys() - development


def test_workflows_may_only_read_unless_a_job_names_more() -> None:
    assert WORKFLOWS.keys() == {"ci", "codeql", "docs", "release"}
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {"contents": "read"}, name
    writing = {
        (name, job): sorted(
            key for key, value in content["permissions"].items() if value == "write"
        )
        for name, workflow in WORKFLOWS.items()
        for job, content in workflow["jobs"].items()
        if "permissions" in content
    }
    assert writing == {
        ("codeql", "scan"): ["security-events"],
        ("docs", "publish"): ["id-token", "pages"],
        ("release", "attest"): ["attestations", "id-token"],
        ("release", "publish"): ["id-token"],
    }


def test_a_release_is_published_only_after_build_check_and_attestation() -> None:
    jobs = WORKFLOWS["release"]["jobs"]
    assert (jobs["publish"]["needs"], jobs["attest"]["needs"]) == ("attest", "build")
    commands = " ".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert "make package project-files" in commands
    assert "seqattn train" in commands
    (upload,) = (step for step in jobs["publish"]["steps"] if "publish" in step["uses"])
    assert "with" not in upload  # neither a user nor a password


def test_hooks_have_the_pinned_versions() -> None:
    (repo,) = read(".pre-commit-config.yaml")["repos"]
    pinned = {word for hook in repo["hooks"] for word in hook.get("additional_dependencies", ())}
    assert pinned == {f"ruff=={PINNED['ruff']}"}


def test_the_citation_has_version_license_and_title_of_the_package() -> None:
    citation = read("CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["title"] == PROJECT["name"]
    assert citation["authors"] == PROJECT["authors"]


def test_the_image_trains_squares_by_default() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    instructions = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines
                    if line.startswith(("ENTRYPOINT", "CMD", "USER", "FROM"))}  # fmt: skip
    assert json.loads(instructions["ENTRYPOINT"]) == ["seqattn"]
    command = json.loads(instructions["CMD"])
    assert command == ["train", "/opt/seqattn/configs/squares.yaml", "--overwrite"]
    assert instructions["USER"] != "0"
    assert instructions["FROM"] == f"python:{PROJECT['requires-python'].removeprefix('>=')}-slim"
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = {word.strip("./") for line in lines if line.startswith("COPY")
              for word in line.split()[1:-1]}  # fmt: skip
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)


def test_dependencies_of_each_kind_are_updated() -> None:
    found = {entry["package-ecosystem"]: entry["directory"]
             for entry in read(".github/dependabot.yml")["updates"]}  # fmt: skip
    assert found == {"pip": "/", "npm": "/seqattn/report/web", "github-actions": "/", "docker": "/"}
    assert (ROOT / "seqattn/report/web/package.json").exists()


def test_no_page_has_conflict_markers() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "configs").rglob("*.md")]
    assert len(pages) > 30
    marker = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    assert [page for page in pages if marker.search(page.read_text("utf-8"))] == []
