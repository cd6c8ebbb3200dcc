"""Detection of the encoding of a text file."""

from __future__ import annotations

import codecs
import re

from seqattn.data.files.options import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.errors import DataError


def detect_encoding(
    head: bytes, name: str, options: ReadOptions, *, is_cut: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the Python name of the encoding of a text file, and notes for the user.

    Args:
        head: the first bytes of the file.
        name: name of the file, for messages.
        options: the options for reading the file.
        is_cut: whether the file has more bytes.

    Raises:
        DataError: if the file is not text, or if the encoding in the options is unknown.
    """
    if head.startswith(b"PK\x03\x04"):
        raise DataError(
            f"{name}: is a ZIP archive or an Excel workbook, not text. Save the sheet as CSV."
        )
    if re.match(rb"\s*<(!doctype|html|\?xml)", head, re.IGNORECASE):
        raise DataError(f"{name}: is a web page (HTML or XML), not a table.")
    if options.encoding is not None:
        return _requested_encoding(head, name, options.encoding), ()
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _requested_encoding(head, name, "utf-16"), ("read as UTF-16",)
    if b"\0" in head:
        raise DataError(f"{name}: contains zero bytes, so it is not text.")
    try:
        head[:-4].decode() if is_cut else head.decode()
    except UnicodeDecodeError as error:
        if any(byte < 9 or 13 < byte < 32 for byte in head[:4096]):
            raise DataError(
                f"{name}: byte {head[error.start]:#04x} is not UTF-8, and others are no text."
            ) from None
        windows = any(0x80 <= byte < 0xA0 for byte in head)
        encoding, label = ("cp1252", "Windows-1252") if windows else ("latin-1", "Latin-1")
        return encoding, (
            f"not UTF-8, so read as {label}; another encoding is set with {setting('encoding')}",
        )
    return "utf-8", ()


def _requested_encoding(head: bytes, name: str, encoding: str) -> str:
    """Return the encoding that the user set, with the byte order of the file if the encoding is
    UTF-16.

    Raises:
        DataError: if there is no such encoding.
    """
    try:
        codec = codecs.lookup(encoding)
        if codec._is_text_encoding:
            is_reversed = codec.name == "utf-16" and head.startswith(codecs.BOM_UTF16_BE)
            return "utf-16be" if is_reversed else encoding
    except (LookupError, ValueError):
        pass
    raise DataError(
        f"{name}: {encoding!r} is not a known encoding. Set data.encoding (in data"
        " check: --encoding) to utf-8, latin-1, cp1252, utf-16 or another."
    )
