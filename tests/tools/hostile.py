"""What `fuzz.py` feeds to the readers: small good files of every format, and ways to spoil them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Pack = Callable[[bytes], bytes]

INTERESTING = [
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    32_767,
    32_768,
    65_535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
]
NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?")
WORDS = [
    b"NaN", b"-1", b"0", b"1e999", b"-Infinity", b"9" * 30, b"9" * 5000, b"0.5", b"null", b"true",
    b'""', b"[]", b"{}", b"[" * 3000, b'{"a":' * 3000, b'"', b"'", b",", b":", b"\n", b"\r\n",
    b"\t", b"\\", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"../../etc/passwd", b"os:system", b"=1+1",
    b"<script>", b"$(id)", b"[bold]", b"\x1b[31m", b"\xf0\x9f\x98\x80", b" " * 70,
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A reader, the file that it is given, and what that file should be.

    `parts` are insides of a good file, such as an array in an archive, with what packs them again:
    checksums are right."""

    name: str
    path: Path
    read: Callable[[Path], Any]
    whole: Sequence[bytes]
    parts: Sequence[tuple[bytes, Pack]] = field(default=())

    def spoiled(self, draw: random.Random) -> bytes:
        """A file that is wrong in one to four places, or rarely a good one."""
        if self.parts and draw.random() < 0.7:
            body, pack = draw.choice(self.parts)
            return pack(spoil(body, draw))
        return spoil(draw.choice(self.whole), draw)


def spoil(body: bytes, draw: random.Random) -> bytes:
    """The bytes changed in one to four places.

    >>> spoil(b"label,p0", random.Random(3)) != b"label,p0"
    True
    """
    for _ in range(draw.choice((1, 1, 2, 4))):
        body = draw.choice(WAYS)(body, draw)
    return body


def flipped(body: bytes, draw: random.Random) -> bytes:
    """One bit is another."""
    if not body:
        return body
    place = draw.randrange(len(body))
    return body[:place] + bytes([body[place] ^ 1 << draw.randrange(8)]) + body[place + 1 :]


def numbered(body: bytes, draw: random.Random) -> bytes:
    """One, two, four or eight bytes are a number at a limit, or near one."""
    width = draw.choice((1, 2, 4, 8))
    value = (draw.choice(INTERESTING) + draw.choice((0, 0, 1, -1))) % 256**width
    place = draw.randrange(max(1, len(body) - width + 1))
    return (
        body[:place] + value.to_bytes(width, draw.choice(("big", "little"))) + body[place + width :]
    )  # pyright: ignore[reportArgumentType]


def reworded(body: bytes, draw: random.Random) -> bytes:
    """A number in a text is another word; without numbers a word stands somewhere."""
    found = list(NUMBER.finditer(body[:20_000]))
    if found:
        one = draw.choice(found)
        return body[: one.start()] + draw.choice(WORDS) + body[one.end() :]
    return inserted(body, draw)


def inserted(body: bytes, draw: random.Random) -> bytes:
    """A word, or bytes drawn by lot, in between."""
    place = draw.randrange(len(body) + 1)
    word = draw.choice(WORDS) if draw.random() < 0.7 else draw.randbytes(draw.randrange(1, 20))
    return body[:place] + word + body[place:]


def removed(body: bytes, draw: random.Random) -> bytes:
    """Some bytes are left out."""
    start = draw.randrange(len(body) + 1)
    return body[:start] + body[start + draw.choice((1, 2, 4, 16, 100)) :]


def repeated(body: bytes, draw: random.Random) -> bytes:
    """Some bytes stand twice, the second time anywhere."""
    start, place = draw.randrange(len(body) + 1), draw.randrange(len(body) + 1)
    return body[:place] + body[start : start + draw.choice((1, 4, 30, 200))] + body[place:]


def cut(body: bytes, draw: random.Random) -> bytes:
    """The end is missing."""
    return body[: draw.randrange(len(body) + 1)]


WAYS = (flipped, flipped, numbered, numbered, reworded, reworded, inserted, removed, repeated, cut)
