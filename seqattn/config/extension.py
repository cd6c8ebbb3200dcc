"""The extension of the config schema by plugins.

A plugin registers names, such as the name of a score. If a name has a config section, this module
adds the section to the pydantic models, so that YAML, `--set` and the JSON Schema accept the name.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator, Discriminator, Tag
from pydantic.fields import FieldInfo

from seqattn.config.files import read_regular_file
from seqattn.config.schema import (
    CellConfig,
    Config,
    Generated,
    LocationConfig,
    ModelConfig,
    NormalizerConfig,
    Plugin,
    Recurrent,
    ScoreConfig,
    Section,
)
from seqattn.config.sections import TEXT_TAG, choices, field_variants, variants
from seqattn.errors import PluginError, SeqattnError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*( [A-Za-z0-9_]+)*")


@dataclass(frozen=True)
class Kind:
    """A kind of mechanism that has its own config section, such as a score.

    Attributes:
        noun: the name of the kind, such as "score".
        base: the base class of the sections.
        key: the key whose value selects the section.
        owner: the section whose key `field` contains the section of the mechanism.
        field: see `owner`.
    """

    noun: str
    base: type[Section]
    key: str
    owner: type[Section]
    field: str


SCORE = Kind("score", ScoreConfig, "score", Recurrent, "attention")
NORMALIZER = Kind("normalizer", NormalizerConfig, "name", ScoreConfig, "normalizer")
LOCATION = Kind("location", LocationConfig, "kind", ScoreConfig, "location")
CELL = Kind("cell", CellConfig, "name", Recurrent, "cell")
TASK = Kind("task", Generated, "kind", Config, "data")
MODEL = Kind("model", ModelConfig, "kind", Config, "model")
KINDS = (SCORE, NORMALIZER, LOCATION, CELL, TASK, MODEL)


@dataclass(frozen=True)
class Source:
    """The source of a plugin.

    Attributes:
        module: the name of the imported module.
        path: the file, if the plugin was loaded from a file; None for a module.
        sha256: the digest of the source file; None if there is no file, as in a notebook.
    """

    module: str
    path: Path | None
    sha256: str | None

    def __str__(self) -> str:
        return str(self.path or self.module)

    def entry(self) -> Plugin:
        """Return the entry of the source for the config key `plugins`."""
        if self.path is not None:
            return Plugin(path=str(self.path), sha256=self.sha256)
        return Plugin(module=self.module, sha256=self.sha256)

    def plain(self) -> dict[str, Any]:
        """Return the entry of the source as plain data."""
        return dict(self.entry().model_dump())


@dataclass(frozen=True)
class Registration:
    """A name that a plugin registers.

    Attributes:
        noun: the kind of the name, such as "score".
        name: the name.
        source: the source of the plugin.
        apply: a function that makes the name available.
        section: the config section of the name; None if the name has no section.
    """

    noun: str
    name: str
    source: Source
    apply: Callable[[], None]
    section: type[Section] | None = None


SOURCES: dict[str, Source] = {}
"""The sources of the loaded plugins by module name."""
REGISTERED: dict[tuple[str, str], Registration] = {}
"""The registrations of the available names, by kind and name."""
OWNERS: dict[type[Section], Source] = {}
"""The source of the plugin that defines a config section, by section."""
_pending: list[Registration] | None = None


def register_section(
    kind: Kind, name: str, section: type[Section], module: str, apply: Callable[[], None]
) -> None:
    """Register a mechanism that has its own config section.

    Args:
        kind: the kind of the mechanism.
        name: the name that selects the mechanism.
        section: the config section, a subclass of `kind.base`.
        module: the name of the module that defines the mechanism.
        apply: a function that makes the mechanism available.

    Raises:
        PluginError: if the section is not a subclass of `kind.base` or belongs to another
            mechanism, or if the name is not valid or exists already.
    """
    source = source_of(module)
    if not (isinstance(section, type) and issubclass(section, kind.base)):
        raise PluginError(
            f"{source}: register_{kind.noun}({name!r}, ...) needs a config class, a subclass of"
            f" seqattn.{kind.noun.capitalize()}Config; got {section!r}."
        )
    pending = {each.section for each in _pending or []}
    is_taken = section in OWNERS or section in pending
    if is_taken or section is kind.base or section.__module__.startswith("seqattn."):
        raise PluginError(
            f"{source}: register_{kind.noun}({name!r}, {section.__name__}): the class"
            f" {section.__name__} belongs to another {kind.noun}. Define a subclass for {name}."
        )
    annotation = kind.owner.model_fields[kind.field].annotation
    taken = {*field_variants(kind.owner, kind.field), *choices(annotation)}

    def extend() -> None:
        add_variant(kind, name, section)
        OWNERS[section] = source
        apply()

    register(kind.noun, name, module, extend, taken, section)


def register(
    noun: str, name: str, module: str, apply: Callable[[], None], taken: Collection[str],
    section: type[Section] | None = None,
) -> None:  # fmt: skip
    """Register a name. If a plugin is being loaded, the name becomes available once the whole
    plugin has been loaded.

    Args:
        noun: the kind of the name, such as "score".
        name: the name.
        module: the name of the module that registers the name.
        apply: a function that makes the name available.
        taken: the names that exist already.
        section: the config section of the name; None if the name has no section.

    Raises:
        PluginError: if the name is not valid or exists already.
    """
    source = source_of(module)
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise PluginError(
            f"{source}: {name!r} is not a name for a {noun}. A name consists of letters, digits and"
            " '_', and starts with a letter."
        )
    known = {(each.noun, each.name): each for each in (_pending or [])} | REGISTERED
    first = known.get((noun, name))
    if first is not None:
        twice = "twice" if first.source == source else f", and so does {first.source}"
        raise PluginError(
            f"{source}: registers the {noun} {name}{' ' * (twice == 'twice')}{twice}. Give one of"
            " the two another name."
        )
    if name in taken:
        raise PluginError(
            f"{source}: registers the {noun} {name}, which is a {noun} of seqattn. Choose another"
            " name."
        )
    found = Registration(noun, name, source, apply, section)
    if _pending is None:
        _make_available(found)
    else:
        _pending.append(found)


def _make_available(registration: Registration) -> None:
    registration.apply()
    REGISTERED[registration.noun, registration.name] = registration
    SOURCES[registration.source.module] = registration.source


class Loading:
    """The context in which a plugin is loaded. Names that the plugin registers become available at
    the end of the outermost context, unless this context ends with an exception."""

    def __enter__(self) -> list[Registration]:
        global _pending
        self.outer = _pending
        self.found: list[Registration] = []
        _pending = self.found if self.outer is None else self.outer
        return _pending

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        global _pending
        _pending = self.outer
        if error is None and self.outer is None:
            for registration in self.found:
                _make_available(registration)


def source_of(module: str) -> Source:
    """Return the source of a module that registers a name."""
    if module in SOURCES:
        return SOURCES[module]
    file = getattr(sys.modules.get(module), "__file__", None)
    path = Path(file).resolve() if file and Path(file).is_file() else None
    digest = None if path is None else sha256(read_regular_file(path)).hexdigest()
    return Source(module, path if module == "__main__" else None, digest)


def used_sources(config: Section) -> Iterator[Source]:
    """Yield the sources of the plugins whose sections a config uses."""
    if type(config) in OWNERS:
        yield OWNERS[type(config)]
    for key in type(config).model_fields:
        value = getattr(config, key)
        if isinstance(value, Section):
            yield from used_sources(value)


@contextmanager
def plugin_errors(sources: Sequence[Source], what: str) -> Iterator[None]:
    """Convert an exception from the code of plugins to a `PluginError` that names the plugin and,
    if the traceback contains lines of its file, the last such line.

    Args:
        sources: the plugins whose code runs in the context; if empty, exceptions are not converted.
        what: what the code does, such as "the task plus_one".

    Raises:
        PluginError: if the context ends with an exception that is not a `SeqattnError`.
    """
    try:
        yield
    except SeqattnError:
        raise
    except Exception as error:  # a plugin's code may raise any exception
        if not sources:
            raise
        paths = {str(source.path) for source in sources}
        lines = [frame for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename in paths]  # fmt: skip
        place = f"{lines[-1].filename}:{lines[-1].lineno}" if lines else str(sources[0])
        raise PluginError(f"{place}: {what} raises {type(error).__name__}: {error}") from error


# --- the schema -----------------------------------------------------------------------------------


def add_variant(kind: Kind, name: str, section: type[Section]) -> None:
    """Add a section to the schema, as the variant `name` of the key `kind.field`."""
    _add_discriminator(kind, name, section)
    changed = {section}
    for owner in _with_subclasses(kind.owner):
        field = owner.model_fields[kind.field]
        extended = _with_choice if _has_texts(field.annotation) else _with_variant
        field.annotation = extended(field.annotation, name, section)
        changed.add(owner)
    rebuild(changed)


def _add_discriminator(kind: Kind, name: str, section: type[Section]) -> None:
    """Add the key that selects the section, such as `score: Literal[name] = name`."""
    literal = Literal[name]  # type: ignore[valid-type]
    field = FieldInfo(annotation=literal, default=name, description=f"Name of the {kind.noun}.")
    section.model_fields[kind.key] = field

    def require(schema: dict[str, Any]) -> None:
        schema["required"] = [kind.key, *schema.get("required", [])]

    section.model_config = {**section.model_config, "json_schema_extra": require}


def _with_subclasses(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for inner in section.__subclasses__():
        yield from _with_subclasses(inner)


def _has_texts(annotation: Any) -> bool:
    """Return whether an annotation lists its choices as strings, as in `Literal["gru", "lstm",
    "rnn"]`."""
    return bool(choices(annotation))


def _with_variant(annotation: Any, name: str, section: type[Section]) -> Any:
    """Add a variant to the union of sections in an annotation."""
    choice = Annotated[section, Tag(name)]  # type: ignore[valid-type]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        union, *extras = inner
        return Annotated[Union[(*get_args(union), choice)], *extras]
    if any(get_origin(each) is Annotated and isinstance(get_args(each)[-1], Tag) for each in inner):
        return Union[(*inner, choice)]
    return Union[tuple(  # noqa: UP007
        _with_variant(each, name, section) if get_origin(each) is Annotated else each
        for each in inner
    )]  # fmt: skip


def _with_choice(annotation: Any, name: str, section: type[Section]) -> Any:
    """Add a name to an annotation that lists its choices as strings.

    A config gives the new name as a string, or as the value of the key `name` in the section. The
    string alone selects the section with its defaults.
    """
    texts = (*choices(annotation), name)
    sections = {**variants(annotation), name: section}
    builtin = [text for text in texts if text not in sections]

    def convert(given: Any) -> Any:
        if isinstance(given, str) and given in sections:
            return {"name": given}
        if isinstance(given, dict) and given.get("name") in builtin and len(given) == 1:
            return given["name"]
        return given

    def tag(given: Any) -> str | None:
        if isinstance(given, dict):
            return str(given.get("name"))
        return str(given.name) if isinstance(given, Section) else TEXT_TAG  # type: ignore[attr-defined]

    tagged = [Annotated[each, Tag(name)] for name, each in sections.items()]
    union = Union[(Annotated[Literal[texts], Tag(TEXT_TAG)], *tagged)]  # type: ignore[valid-type]
    return Annotated[union, Discriminator(tag), BeforeValidator(convert)]


def rebuild(changed: set[type[Section]]) -> None:
    """Rebuild the validators of changed sections, and of the sections that contain them."""
    dirty: dict[type[Section], bool] = {}

    def visit(section: type[Section]) -> bool:
        if section not in dirty:
            inner = [
                visit(each)
                for key in section.model_fields
                for each in field_variants(section, key).values()
            ]
            dirty[section] = any(inner) or section in changed
            if dirty[section]:
                section.model_rebuild(force=True)
        return dirty[section]

    for top in _with_subclasses(Config):
        visit(top)
