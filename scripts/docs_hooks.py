"""Functions that generate parts of the documentation site. MkDocs calls the `on_` functions.

- They convert equations between dollar signs to MathML, which browsers draw without a script.
- They append every command and its options to docs/commands.md, as the command line defines them.
- They create a page for every YAML or Markdown file in configs/, and direct links to these pages.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
INLINE = r"(?<![\\\w$])\$(?!\s)([^$]+?)(?<!\s)\$(?![\w$])([.,;:)]*)"
"""A pattern for an equation within a line, with the punctuation after it, so that a line break
cannot separate them."""
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(Equations())  # type: ignore[arg-type]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted((ROOT / "configs").rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".md":
            files.append(File.generated(config, name, content=path.read_text()))
        elif path.suffix == ".yaml":
            files.append(File.generated(config, f"{name}.md", content=config_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.src_uri in ("index.md", "attention-in-ten-minutes.md"):
        page.meta["hide"] = ["navigation"]  # each of these pages is the only page of its tab
    if page.file.src_uri in ("benchmarks.md", "performance-log.md", "reliability.md"):
        page.meta["hide"] = ["toc"]  # the tables of these pages are wide
    if page.file.src_uri == "commands.md":
        markdown += commands()
    return LINK.sub(lambda link: _into_the_site(link, page.file.src_uri, files), markdown)


def _into_the_site(link: re.Match[str], page: str, files: Files) -> str:
    """Return a link from a page in docs/ into configs/ as a link to the page of the config.

    A link to a folder leads to the list of shipped configs. Links within docs/ and links in pages
    of configs/ are returned unchanged.
    """
    if page.startswith("configs/"):
        return link[0]
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link[1]))
    if target.startswith("docs/"):
        return link[0]
    if (ROOT / target).is_dir():
        return "](shipped-configs.md)"
    found = target if files.get_file_from_path(target) else f"{target}.md"
    return f"]({found}{link[2] or ''})"


# --- equations ------------------------------------------------------------------------------------


class Equations(Extension):
    """A Markdown extension for equations: `$...$` within a line, `$$...$$` on separate lines."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  Markdown calls it by this name
        # The priorities place equations after code fences (25) and after inline code (190).
        md.preprocessors.register(_Displayed(md), "equations", 24)
        md.inlinePatterns.register(_InLine(INLINE, md), "equations", 185)


def math(latex: str, display: str = "inline") -> str:
    """Convert an equation to MathML.

    Raises:
        PluginError: if the equation has a command that the converter does not know. The converter
            would print such a command as it is.
    """
    drawn = convert(latex, display=display)
    if "\\" in drawn:
        raise PluginError(f"an equation has an unknown command: {latex}")
    return drawn


class _InLine(InlineProcessor):
    def handleMatch(  # type: ignore[override]  # noqa: N802
        self, match: re.Match[str], data: str
    ) -> tuple[str | Element, int, int]:
        drawn = f'<span class="equation">{math(match[1])}{match[2]}</span>'
        return self.md.htmlStash.store(drawn), match.start(0), match.end(0)


class _Displayed(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        def stored(match: re.Match[str]) -> str:
            return f"\n{self.md.htmlStash.store(math(match[1].strip(), 'block'))}\n"

        return re.sub(r"^\$\$(.+?)\$\$$", stored, "\n".join(lines), flags=re.M | re.S).split("\n")


# --- generated pages ------------------------------------------------------------------------------


def config_page(path: Path) -> str:
    name = path.relative_to(ROOT)
    return f"---\ntitle: {name}\n---\n\n# {name}\n\n```yaml\n{path.read_text()}```\n"


def commands() -> str:
    """Return a section for every command, with the arguments and options of the command."""
    sys.path.insert(0, str(ROOT))
    from typer.main import get_command

    from seqattn.cli import app

    lines, top = list[str](), get_command(app)
    for name, command in sorted(_leaves(top, ())):
        context = command.make_context(
            " ".join(("seqattn", *name)), [], resilient_parsing=True,
            help_option_names=top.context_settings["help_option_names"],
        )  # fmt: skip
        usage = command.get_usage(context).removeprefix("Usage: ")
        lines += ["", f"## seqattn {' '.join(name)}", "", " ".join((command.help or "").split()),
                  "", "```", " ".join(usage.split()), "```", ""]  # fmt: skip
        rows = [
            f"| `{name}` | {_cell(text)} |"  # a column separator in code needs no escape
            for records in command.sections(context).values() for name, text in records
        ]  # fmt: skip
        lines += ["| argument or option | meaning |", "| --- | --- |", *rows, ""]
        if command.epilog:
            lines += ["Example:", "", "```", command.epilog.removeprefix("Example: "), "```", ""]
    return "\n".join(lines)


def _leaves(group: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    found = list[tuple[tuple[str, ...], Any]]()
    for name, command in group.commands.items():
        here = (*path, name)
        found += _leaves(command, here) if hasattr(command, "commands") else [(here, command)]
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
