"""Functions that load plugins, and compare the plugins in a stored config with the loaded plugins.

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
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from seqattn.config import extension
from seqattn.config.extension import Source
from seqattn.config.files import read_regular_file
from seqattn.config.schema import Config, expand_plugin, is_file_name
from seqattn.errors import PluginError


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
    if isinstance(plugin, Path) or is_file_name(plugin):
        return _load_file(Path(plugin))
    return _load_module(plugin)


def _load_file(path: Path) -> Source:
    path = path.resolve()
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
    for source in extension.SOURCES.values():
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
    extension.SOURCES[name] = source
    try:
        with _loading(source):
            # Only plugins that the user names, or that another of the user's processes sends, lead
            # here. A run folder cannot.
            exec(compile(content, str(path), "exec"), vars(module))  # noqa: S102
    except BaseException:
        del sys.modules[name], extension.SOURCES[name]
        raise
    _contents[digest] = content
    return source


_contents: dict[str, bytes] = {}
"""The contents of the loaded files, by digest."""


def _load_module(name: str) -> Source:
    if name in extension.SOURCES:
        return extension.SOURCES[name]
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
    source = Source(name, None, _digest_of(found.origin))
    try:
        with _loading(source):
            importlib.import_module(name)
    except BaseException:
        if not before:
            sys.modules.pop(name, None)
        raise
    extension.SOURCES[name] = source
    return source


def _digest_of(file: str | None) -> str | None:
    with contextlib.suppress(OSError, TypeError):
        return hashlib.sha256(read_regular_file(Path(str(file)))).hexdigest()
    return None


@contextlib.contextmanager
def _loading(source: Source) -> Iterator[None]:
    """Return a context manager for loading a plugin. If the plugin is loaded without an error, the
    names that it registers become available.

    Raises:
        PluginError: if the plugin raises an exception, or if it registers nothing.
    """
    with extension.Loading() as found:
        before = len(found)
        try:
            yield
        except PluginError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(_describe_exception(source, error)) from error
        of_module = (each.source.module for each in extension.REGISTERED.values())
        if len(found) == before and not any(
            f"{module}.".startswith(f"{source.module}.") for module in of_module
        ):
            raise PluginError(
                f"{source}: registers nothing. A plugin contains a class or a function with a"
                " decorator such as @seqattn.register_score."
            )


def _describe_exception(source: Source, error: BaseException) -> str:
    """Return a message with the file, the line and the text of an exception."""
    module = sys.modules.get(source.module)
    file = str(source.path or getattr(module, "__file__", None) or source.module)
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == file else None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    place = file if line is None else f"{file}:{line}"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{place}: the plugin cannot be loaded: {type(error).__name__}: {text}"


# --- configs --------------------------------------------------------------------------------------


def load_listed(content: dict[str, Any], place: str, folder: Path) -> None:
    """Load the plugins that the user's own config lists, and replace each entry of the list with
    the file or module and its digest.

    Invalid entries are left unchanged. Validation reports these entries.

    Args:
        content: the plain data of the config.
        place: the place of the list, for error messages.
        folder: the folder to which the paths in the list are relative.

    Raises:
        PluginError: see `load_plugin`.
    """
    listed = content.get("plugins")
    if not isinstance(listed, list):
        return
    entries = list[Any]()
    for each in listed:
        entry = expand_plugin(each)
        name = _name_in(entry)
        if name is None:
            entries.append(each)
            continue
        try:
            source = load_plugin(folder / name if "path" in entry else name)
        except PluginError as error:
            raise PluginError(f"{place}: {error}") from error
        if entry.get("sha256") not in (None, source.sha256):
            _warn_changed(entry, source)
        entries.append({**entry, **source.plain()})
    content["plugins"] = entries


def _name_in(entry: Any) -> str | None:
    """Return the path or the module of a valid entry, and None for an invalid entry."""
    if not isinstance(entry, dict):
        return None
    names = [entry[key] for key in ("path", "module") if entry.get(key) is not None]
    return names[0] if len(names) == 1 and isinstance(names[0], str) and names[0] else None


def with_used_plugins(config: Config) -> Config:
    """Return a config whose key `plugins` lists every plugin that defines a section of the config,
    with the digest of the loaded file."""
    digests = {entry.sha256 for entry in config.plugins} - {None}
    used = dict.fromkeys(extension.used_sources(config))
    new = [source for source in used if source.sha256 not in digests]
    replaced = {_short_name(source.plain()) for source in new}
    kept = [entry for entry in config.plugins if _short_name(entry.model_dump()) not in replaced]
    if not new:
        return config
    return config.model_copy(update={"plugins": [*kept, *(source.entry() for source in new)]})


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
        for source in extension.SOURCES.values()
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
        PluginError: if a plugin cannot be loaded, or if a module has another digest on this
            machine.
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
    listed = content.get("plugins")
    missing = dict[str, str]()
    for each in listed if isinstance(listed, list) else ():
        entry = expand_plugin(each)
        name = _name_in(entry)
        if name is not None and _loaded(entry) is None:
            missing[name] = f" (SHA-256 {entry['sha256']})" if entry.get("sha256") else ""
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
    for entry in config.plugins:
        plain = entry.model_dump()
        source = _loaded(plain)
        if source is not None and entry.sha256 not in (None, source.sha256):
            _warn_changed(plain, source)
    if not config.plugins:
        return
    matching = [_loaded(entry.model_dump()) for entry in config.plugins]
    for source in extension.used_sources(config):
        if source not in matching:
            _warn_changed(config.plugins[0].model_dump(), source)


def plugin_changes(before: Config, now: Config) -> tuple[str, ...]:
    """Return a line for each plugin whose digest differs from its digest in the config of a
    checkpoint.

    Args:
        before: the config of the checkpoint.
        now: the user's current config.
    """
    lines = list[str]()
    for new in now.plugins:
        same = [old for old in before.plugins if old.sha256 == new.sha256]
        name = _short_name(new.model_dump())
        old = next((old for old in before.plugins if _short_name(old.model_dump()) == name), None)
        if not same and old is not None:
            lines.append(f"{describe_change(old.model_dump(), new.model_dump())}.")
    return tuple(lines)


def _loaded(entry: Mapping[str, Any]) -> Source | None:
    """Return the loaded plugin with the digest of an entry. If no loaded plugin has this digest,
    return the loaded plugin with the same file name or module. Otherwise, return None."""
    sources, digest = extension.SOURCES.values(), entry.get("sha256")
    same = [source for source in sources if digest is not None and source.sha256 == digest]
    name = _short_name(entry)
    return next(
        iter([*same, *(each for each in sources if _short_name(each.plain()) == name)]), None
    )


def _short_name(entry: Mapping[str, Any]) -> str:
    """Return the module or the file name of an entry, without the folder of the file."""
    return str(entry.get("module") or PurePath(str(entry.get("path"))).name)


def _warn_changed(entry: Mapping[str, Any], source: Source) -> None:
    changed = entry.get("sha256"), source.sha256
    if changed not in _warned:
        _warned.add(changed)
        warnings.warn(describe_change(entry, source.plain()), PluginChangedWarning, stacklevel=2)


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return a sentence with the digests of two versions of a plugin, without the final period."""
    return (
        f"plugin {_short_name(old)}: the run was trained with SHA-256 {old.get('sha256')}, and the"
        f" loaded {_short_name(new)} has SHA-256 {new.get('sha256')}"
    )


_warned: set[tuple[str | None, str | None]] = set()
"""The changes for which a warning was issued, as pairs of digests."""
