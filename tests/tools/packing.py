"""Archives of spoiled parts, with checksums made right again, so that readers see what is
inside."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from hostile import Pack


def written(save: Callable[..., Any], *args: Any, **options: Any) -> bytes:
    """What a function writes into a file."""
    stream = io.BytesIO()
    save(stream, *args, **options)
    return stream.getvalue()


def zipped(entries: Mapping[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as archive:
        for name, body in entries.items():
            archive.writestr(zipfile.ZipInfo(name), body, kind)
    return stream.getvalue()


def entries_of(body: bytes) -> dict[str, bytes]:
    """What a zip archive holds."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def of_zip(body: bytes, kind: int = zipfile.ZIP_STORED) -> list[tuple[bytes, Pack]]:
    """Every entry of an archive, with what packs it among the others."""
    entries = entries_of(body)

    def pack(name: str) -> Pack:
        return lambda part: zipped({**entries, name: part}, kind)

    return [(part, pack(name)) for name, part in entries.items()]


def tarred(stream: io.BytesIO, files: Mapping[str, bytes]) -> None:
    """Write a tar archive, with a note before every member."""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(body), {"comment": "good"}
            archive.addfile(member, io.BytesIO(body))


def sealed_tar(body: bytes) -> bytes:
    """With the right checksum in every header."""
    blocks = [body[start : start + 512] for start in range(0, len(body), 512)]
    for place, block in enumerate(blocks):
        if block[257:262] == b"ustar" and len(block) == 512:
            total = sum(block) - sum(block[148:156]) + 8 * 32
            blocks[place] = block[:148] + b"%06o\0 " % total + block[156:]
    return gzip.compress(b"".join(blocks))


def sealed_png(body: bytes) -> bytes:
    """With the right checksum of every chunk."""
    sealed, rest = body[:8], body[8:]
    while len(rest) >= 12:
        (size,) = struct.unpack(">I", rest[:4])
        chunk, rest = rest[4 : 8 + size], rest[12 + size :]
        sealed += struct.pack(">I", size) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return sealed + rest


def dense_mat(body: bytes) -> bytes:
    """The two variables of a MATLAB file, each compressed."""
    rest, dense = body[128:], body[:128]
    while len(rest) >= 8:
        size = 8 + struct.unpack("<I", rest[4:8])[0]
        packed = zlib.compress(rest[:size])
        dense, rest = dense + struct.pack("<2I", 15, len(packed)) + packed, rest[size:]
    return dense
