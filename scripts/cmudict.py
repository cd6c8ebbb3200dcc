"""Write seqattn/data/shipped/cmudict.tsv.xz from the file cmudict.dict of the CMU Pronouncing
Dictionary; see seqattn/data/shipped/README.md.

    python scripts/cmudict.py cmudict.dict
"""

from __future__ import annotations

import hashlib
import lzma
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "seqattn" / "data" / "shipped" / "cmudict.tsv.xz"


def main() -> None:
    pairs = dict[tuple[str, str], None]()
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        if entry := line.partition("#")[0].strip():
            word, *phones = entry.split()
            plain = " ".join(phone.rstrip("012") for phone in phones)
            pairs[re.sub(r"\(\d+\)$", "", word), plain] = None
    text = "".join(f"{word}\t{phones}\n" for word, phones in pairs)
    packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    TARGET.write_bytes(packed)
    print(f"{len(pairs):,} pairs, {len(packed):,} bytes, SHA-256"
          f" {hashlib.sha256(packed).hexdigest()}")  # fmt: skip


if __name__ == "__main__":
    main()
