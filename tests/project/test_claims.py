"""Each claim has a config, a section of docs/claims.md, and recorded figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from seqattn.config.comparing import plan_comparison
from seqattn.config.shipped_configs import find_config
from tests.conftest import ROOT

CONFIGS = sorted((ROOT / "configs/claims").glob("*.yaml"))
PAGE = (ROOT / "docs/claims.md").read_text()
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
FIGURES = r"<!-- figures: [\w-]+ -->((?:.|\n)*?)<!-- end of figures -->"
PARTS = ("**Claim.**", "**Test.**", "**Verdict.**", "**Different from the papers.**")


def test_the_page_counts_its_claims() -> None:
    numbered = [section for section in SECTIONS if re.match(r"\d+\. ", section)]
    assert len(numbered) == len(CONFIGS) == 13
    assert PAGE.startswith("# Thirteen claims")
    assert [int(section.split(".")[0]) for section in numbered] == list(range(1, 14))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_claim_has_a_config_a_section_and_figures(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"claims/{path.stem}"
    plan = plan_comparison(find_config(Path(name)))
    assert plan.name == f"claim_{path.stem}"
    assert len(plan.seeds) >= 6
    text = path.read_text()
    assert all(heading in text for heading in ("# Purpose", "# Expect", "# Time"))
    assert f"#   seqattn compare {name}\n" in text
    (section,) = (each for each in SECTIONS if f"\nseqattn compare {name}\n" in each)
    assert all(section.count(part) == 1 for part in PARTS)
    slug = path.stem.replace("_", "-")
    figures = yaml.safe_load((ROOT / "docs/figures.yaml").read_text())["groups"][f"claim-{slug}"]
    assert figures["commands"][0] == f"seqattn compare configs/{name}.yaml"
    assert f"claim-{slug}" in json.loads((ROOT / "docs/figures.json").read_text())
    assert f"images/claim-{slug}.png" in section
    assert (ROOT / f"docs/images/claim-{slug}.png").is_file()
    blocks = re.findall(FIGURES, section)
    assert len(blocks) >= 2  # a table and its sentences
    assert all(block.strip() for block in blocks)
