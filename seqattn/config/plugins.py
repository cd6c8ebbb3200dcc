"""The names that plugins register, functions that load plugins, and the comparison of the plugins
in a stored config with the loaded plugins.

A plugin is a Python file or an importable module that registers mechanisms. Only the functions
`load_plugin`, `load_listed` and `load_received` import code. They are called for plugins that the
user names, and for plugins that another of the user's processes sends. They are never called for a
config that is stored in a run folder or in a checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import platform
import re
import shlex
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seqattn.config.files import read_regular_file
from seqattn.config.schema import Config, Plugin, expand_plugin, is_file_name
from seqattn.config.section import PLUGIN_NAME, Section, Variants
from seqattn.errors import PluginError, SeqattnError


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
    kind: Variants, name: str, section: type[Section], module: str, apply: Callable[[], None]
) -> None:
    """Register a mechanism that has its own config section.

    Args:
        kind: the variants to which the section is added, such as `SCORE`.
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

    def extend() -> None:
        kind.add(name, section)
        OWNERS[section] = source
        apply()

    register(kind.noun, name, module, extend, {*kind.names, *kind.sections}, section)


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
    if not (isinstance(name, str) and PLUGIN_NAME.fullmatch(name)):
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


def source_of(module: str) -> Source:
    """Return the source of a module that registers a name."""
    if module in SOURCES:
        return SOURCES[module]
    file = getattr(sys.modules.get(module), "__file__", None)
    path = Path(file).resolve() if file and Path(file).is_file() else None
    digest = None if path is None else hashlib.sha256(read_regular_file(path)).hexdigest()
    return Source(module, path if module == "__main__" else None, digest)


def used_sources(config: Section) -> Iterator[Source]:
    """Yield the sources of the plugins whose sections a config uses."""
    if type(config) in OWNERS:
        yield OWNERS[type(config)]
    for key in type(config).model_fields:
        value = getattr(config, key)
        if isinstance(value, Section):
            yield from used_sources(value)


@contextlib.contextmanager
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
        file, line = _last_line(error, {str(source.path) for source in sources})
        place = sources[0] if line is None else f"{file}:{line}"
        raise PluginError(f"{place}: {what} raises {type(error).__name__}: {error}") from error


def _last_line(error: BaseException, files: Collection[str]) -> tuple[str, int | None]:
    """Return the file and the number of the last line of a traceback that is in one of the files;
    None for the number if no line is."""
    frames = traceback.extract_tb(error.__traceback__)
    found = [(frame.filename, frame.lineno) for frame in frames if frame.filename in files]
    return found[-1] if found else ("", None)


# --- loading -------------------------------------------------------------------------------------


class PluginChangedWarning(UserWarning):
    """A warning that a run was trained with another version of a plugin."""


def load_plugin(plugin: str | Path) -> Source:
    """Load a plugin, so that configs can contain the names that the plugin registers. A plugin that
    is already loaded is not loaded again.

    Args:
        plugin: the path of a Python file, the name of an importable module, or the name of an entry
            point in the group `seqattn.plugins` of an installed package.

    Returns:
        The source of the plugin: its module, its path if it is a file, and its SHA-256 digest.

    Raises:
        PluginError: if the plugin cannot be found or loaded, if it registers nothing, or if it
            registers a name that already exists.
    """
    if isinstance(plugin, str) and not is_file_name(plugin):
        return _load_module(plugin)
    path = Path(plugin).resolve()
    try:
        content = read_regular_file(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PluginError(
            f"{path}: the plugin cannot be read ({reason}). Give the path of a Python file."
        ) from None
    return _load_content(path, content)


def _load_content(path: Path, content: bytes) -> Source:
    """Load a plugin from the content of its file."""
    digest = hashlib.sha256(content).hexdigest()
    for source in SOURCES.values():
        if source.sha256 == digest:
            return source
        if source.path == path:
            raise PluginError(
                f"{path}: was changed after it was loaded. Start Python again to load the new"
                " version."
            )
    stem = re.sub(r"\W", "_", path.stem)
    name = f"seqattn_plugin_{stem}_{digest[:8]}"
    source = Source(name, path, digest)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    SOURCES[name] = source
    try:
        with _loading(source):
            # Only plugins that the user names, or that another of the user's processes sends, lead
            # here. A run folder cannot.
            exec(compile(content, str(path), "exec"), vars(module))  # noqa: S102
    except BaseException:
        del sys.modules[name], SOURCES[name]
        raise
    _contents[digest] = content
    return source


_contents: dict[str, bytes] = {}
"""The contents of the loaded files, by digest."""


def _load_module(name: str) -> Source:
    if name in SOURCES:
        return SOURCES[name]
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        for offered in importlib.metadata.entry_points(group="seqattn.plugins", name=name):
            if offered.module != name:
                return _load_module(offered.module)
        raise PluginError(
            f"{name}: there is no module of this name. Install the module, or give the path of a"
            f" file, such as {name.rpartition('.')[2]}.py."
        )
    before = name in sys.modules
    digest = None
    with contextlib.suppress(OSError, TypeError):
        digest = hashlib.sha256(read_regular_file(Path(str(found.origin)))).hexdigest()
    source = Source(name, None, digest)
    try:
        with _loading(source):
            importlib.import_module(name)
    except BaseException:
        if not before:
            sys.modules.pop(name, None)
        raise
    SOURCES[name] = source
    return source


@contextlib.contextmanager
def _loading(source: Source) -> Iterator[None]:
    """Return a context manager for loading a plugin. Names that the plugin registers become
    available at the end of the outermost context, unless it ends with an exception.

    Raises:
        PluginError: if the plugin raises an exception, or if it registers nothing.
    """
    global _pending
    outer, found = _pending, list[Registration]() if _pending is None else _pending
    before, _pending = len(found), found
    try:
        yield
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        module = sys.modules.get(source.module)
        file = str(source.path or getattr(module, "__file__", None) or source.module)
        if isinstance(error, SyntaxError) and error.filename == file:
            line, text = error.lineno, error.msg
        else:
            line, text = _last_line(error, {file})[1], str(error)
        place = file if line is None else f"{file}:{line}"
        raise PluginError(
            f"{place}: the plugin cannot be loaded: {type(error).__name__}: {text}"
        ) from error
    finally:
        _pending = outer
    of_module = (each.source.module for each in REGISTERED.values())
    if len(found) == before and not any(
        f"{module}.".startswith(f"{source.module}.") for module in of_module
    ):
        raise PluginError(
            f"{source}: registers nothing. A plugin contains a class or a function with a"
            " decorator such as @seqattn.register_score."
        )
    for registration in found if outer is None else ():
        _make_available(registration)


# --- configs --------------------------------------------------------------------------------------


def load_listed(content: dict[str, Any], place: str, folder: Path) -> None:
    """Load the plugins that the user's own config lists, and replace each entry of the list with
    the file or module and its digest. Validation reports the invalid entries.

    Args:
        content: the plain data of the config.
        place: the place of the list, for error messages.
        folder: the folder to which the paths in the list are relative.

    Raises:
        PluginError: if a plugin cannot be loaded; see `load_plugin`.
    """
    for number, entry in enumerate(_valid_entries(content)):
        if entry is None:
            continue
        try:
            source = load_plugin(folder / entry.path if entry.path else str(entry.module))
        except PluginError as error:
            raise PluginError(f"{place}: {error}") from error
        if entry.sha256 not in (None, source.sha256):
            _warn_changed(entry, source)
        content["plugins"][number] = {**entry.model_dump(), **source.entry().model_dump()}


def _valid_entries(content: Mapping[str, Any]) -> list[Plugin | None]:
    """Return the entries of the key `plugins`, and None for each invalid entry."""
    listed, entries = content.get("plugins"), list[Plugin | None]()
    for each in listed if isinstance(listed, list) else ():
        try:
            entries.append(Plugin.model_validate(expand_plugin(each)))
        except ValidationError:
            entries.append(None)
    return entries


def with_used_plugins(config: Config) -> Config:
    """Return a config whose key `plugins` lists every plugin that defines a section of the config,
    with the digest of the loaded file."""
    digests = {entry.sha256 for entry in config.plugins} - {None}
    used = dict.fromkeys(used_sources(config))
    new = [source.entry() for source in used if source.sha256 not in digests]
    names = {entry.short_name for entry in new}
    kept = [entry for entry in config.plugins if entry.short_name not in names]
    return config.model_copy(update={"plugins": [*kept, *new]}) if new else config


def plugin_contents() -> dict[str, bytes | None]:
    """Return the contents of the loaded plugins, so that another process can load the plugins with
    `load_received`.

    Returns:
        the content of each file by path, and None for each module by name, in the order in which
        the plugins were loaded. Plugins that are neither a file nor a module are left out.
    """
    return {
        str(source.path) if source.sha256 in _contents else source.module: _contents.get(
            str(source.sha256)
        )
        for source in SOURCES.values()
        if source.module != "__main__"
    }


def load_received(
    contents: Mapping[str, bytes | None], configs: Iterable[Mapping[str, Any]]
) -> None:
    """Load the plugins that another of the user's processes sent.

    Args:
        contents: the plugins, from `plugin_contents`.
        configs: the plain data of the configs. Their key `plugins` contains the expected digests.

    Raises:
        PluginError: if a module has another digest on this machine.
    """
    for name, content in contents.items():
        if content is None:
            load_plugin(name)
        else:
            _load_content(Path(name), content)
    for entry in [entry for config in configs for entry in config.get("plugins", ())]:
        if "module" not in entry:
            continue
        source = load_plugin(entry["module"])
        if source.sha256 != entry.get("sha256"):
            raise PluginError(
                f"{source}: another version of this module is installed on {platform.node()}."
                " Install the same version on all machines."
            )


def require_plugins(content: Mapping[str, Any], origin: str) -> None:
    """Check that every plugin listed in an invalid config is loaded.

    Args:
        content: the plain data of the config.
        origin: the origin of the config, for the error message.

    Raises:
        PluginError: if a plugin is not loaded; the message names the option that loads it.
    """
    missing = {
        str(entry.path or entry.module): f" (SHA-256 {entry.sha256})" if entry.sha256 else ""
        for entry in _valid_entries(content)
        if entry is not None and _loaded(entry) is None
    }
    if not missing:
        return
    names = ", ".join(f"{name}{digest}" for name, digest in missing.items())
    options = " ".join(f"--plugin {shlex.quote(name)}" for name in missing)
    needs = (
        f"needs the plugin {names}, which is not loaded"
        if len(missing) == 1
        else f"needs at least one of these plugins, which are not loaded: {names}"
    )
    raise PluginError(
        f"{origin}: {needs}. seqattn does not import code because a run folder names it. Read the"
        f" code, and give {options} if you trust it (in Python, call seqattn.load_plugin first)."
    )


def warn_of_changes(config: Config) -> None:
    """Issue a `PluginChangedWarning` for each loaded plugin that differs from the plugin in a
    stored config. Each change causes only one warning."""
    matching = [_loaded(entry) for entry in config.plugins]
    for entry, source in zip(config.plugins, matching, strict=True):
        if source is not None and entry.sha256 not in (None, source.sha256):
            _warn_changed(entry, source)
    for source in used_sources(config) if config.plugins else ():
        if source not in matching:
            _warn_changed(config.plugins[0], source)


def plugin_changes(before: Config, now: Config) -> tuple[str, ...]:
    """Return a line for each plugin whose digest differs from its digest in the config of a
    checkpoint.

    Args:
        before: the config of the checkpoint.
        now: the user's current config.
    """
    digests = {old.sha256 for old in before.plugins}
    named = {old.short_name: old for old in reversed(before.plugins)}
    return tuple(
        f"{_describe_change(named[new.short_name], new)}."
        for new in now.plugins
        if new.sha256 not in digests and new.short_name in named
    )


def _loaded(entry: Plugin) -> Source | None:
    """Return the loaded plugin with the digest of an entry. If no loaded plugin has this digest,
    return the loaded plugin with the same file name or module. Otherwise, return None."""
    sources = SOURCES.values()
    same = [source for source in sources if entry.sha256 and source.sha256 == entry.sha256]
    named = (source for source in sources if source.entry().short_name == entry.short_name)
    return next(iter([*same, *named]), None)


def _warn_changed(entry: Plugin, source: Source) -> None:
    changed = entry.sha256, source.sha256
    if changed not in _warned:
        _warned.add(changed)
        warnings.warn(_describe_change(entry, source.entry()), PluginChangedWarning, stacklevel=2)


def _describe_change(old: Plugin, new: Plugin) -> str:
    """Return a sentence with the digests of two versions of a plugin, without the final period."""
    return (
        f"plugin {old.short_name}: the run was trained with SHA-256 {old.sha256}, and the loaded"
        f" {new.short_name} has SHA-256 {new.sha256}"
    )


_warned: set[tuple[str | None, str | None]] = set()
"""The changes for which a warning was issued, as pairs of digests."""
