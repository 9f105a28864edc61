"""Output in any encoding: what a terminal cannot show is spelled in ASCII, never an error."""

import codecs
import sys
import unicodedata

SPELLING = "socrates.spelling"  # the name of our error handler
WORDS = {
    "–": "-",
    "—": "-",
    "−": "-",
    "±": "+-",
    "→": "->",
    "←": "<-",
    "↑": "^",
    "↓": "v",
    "…": "...",
    "×": "x",
    "✕": "x",
    "✓": "ok",
    "•": "*",
    "●": "*",
    "○": "o",
    "▸": ">",
    "†": "+",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "│": "|",
    "┃": "|",
}
BOX_DRAWING = range(0x2500, 0x2580)
BRAILLE = range(0x2800, 0x2900)  # the frames of a spinner


def speak_any_encoding() -> None:
    """Let standard output and standard error spell what their encoding lacks."""
    codecs.register_error(SPELLING, _spell)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a notebook or a test may have put something else there
            reconfigure(errors=SPELLING)


def spelled(text: str) -> str:
    """Return a text in ASCII: Greek letters by name, others without accents, or question marks.

    >>> spelled("α=0.9: 94.9 ± 0.2 %, Müller → …")
    'alpha=0.9: 94.9 +- 0.2 %, Muller -> ...'
    """
    return "".join(map(_spelled_character, text))


def _spelled_character(character: str) -> str:
    if character.isascii():
        return character
    if character in WORDS:
        return WORDS[character]
    if ord(character) in BOX_DRAWING:
        return "-"
    if ord(character) in BRAILLE:
        return "."
    name = unicodedata.name(character, "")
    if name.startswith("GREEK SMALL LETTER ") and name.count(" ") == 3:
        return name.split()[-1].lower()
    bare = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return bare or "?"


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for the characters of an encoding error, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return spelled(error.object[error.start : error.end]), error.end
