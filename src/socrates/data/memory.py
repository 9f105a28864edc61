"""The data folder, and what it remembers of files whose size and time stay."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from socrates.files import replace_text

THREADS = min(8, os.cpu_count() or 1)  # that read files
SETTLED = 2 * 10**9  # nanoseconds after which a change must show in a file's time


def data_root(root: Path | None = None) -> Path:
    """Return the data folder: `root`, or the environment's SOCRATES_DATA, or ~/.cache/socrates.

    >>> data_root(Path("my") / "data").as_posix()
    'my/data'
    """
    return Path(root or os.environ.get("SOCRATES_DATA") or "~/.cache/socrates").expanduser()


def remembered(
    files: Mapping[str, Path],
    folder: Path,
    look: Callable[[Path], str],
    root: Path | None = None,
    what: str = "hashes",
) -> tuple[dict[str, str], int]:
    """Return what `look` says of each file of a folder, and the size of all of them in bytes.

    Only files that changed since they were last looked at are read. What is known of them is in
    the folder `what` of the data folder.
    """
    folder_digest = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()
    memory = data_root(root) / what / f"{folder_digest[:32]}.json"
    known = _recall(memory)
    keys: dict[str, list[int]] = {}
    for name, path in files.items():
        status = os.stat(path)
        keys[name] = [status.st_size, status.st_mtime_ns]
    changed = [name for name in files if known.get(name, [])[:2] != keys[name]]
    with ThreadPoolExecutor(THREADS) as pool:
        words = pool.map(look, (files[name] for name in changed))
        fresh = dict(zip(changed, words, strict=True))
    answers = {name: fresh[name] if name in fresh else known[name][2] for name in files}
    if changed:
        settled = time.time_ns() - SETTLED
        _remember(
            memory,
            {name: [*keys[name], answers[name]] for name in files if keys[name][1] < settled},
        )
    return answers, sum(size for size, _ in keys.values())


def _recall(path: Path) -> dict[str, Any]:
    """Return what was remembered, or nothing if the digest in the first line does not match."""
    with contextlib.suppress(OSError, ValueError):
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
        if digest == hashlib.sha256(text.encode()).hexdigest():
            return json.loads(text)
    return {}


def _remember(path: Path, values: dict[str, Any]) -> None:
    """Write values for the next time, if the folder can be written."""
    text = json.dumps(values)
    digest = hashlib.sha256(text.encode()).hexdigest()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, f"{digest}\n{text}")
