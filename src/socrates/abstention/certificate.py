"""The schema of a certificate: what is promised, of which model, in which world, and by how many.

`Certificate.to_json` and `Certificate.from_json` are its one written form: in model.safetensors, in
the metadata of exported programs, and in the JSON of an audit.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

VERSION = 1  # of the written form
Kind = Literal["overall", "class", "group"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Threshold:
    """One row of a certificate's table: a lowest score that is answered, and the samples behind it.

    Args:
        value: lowest score that is answered; None if nothing is answered there.
        num_samples: number of labeled samples that certified it.
        num_accepted: number of them that are answered.
        num_errors: number of wrong answers among these.
        name: the class that was predicted, or the group; "" in an overall certificate.
        num_strangers: number of strangers among those that certified it, beside `num_samples`.
        num_strangers_accepted: number of strangers that are answered; each such answer is wrong.
        novelty: highest novelty that is answered; None where the score alone decides.

    >>> Threshold(0.9, num_samples=200, num_accepted=150, num_errors=3, name="cat").coverage
    0.75
    """

    value: float | None
    num_samples: int
    num_accepted: int
    num_errors: int
    name: str = ""
    num_strangers: int = 0
    num_strangers_accepted: int = 0
    novelty: float | None = None

    @property
    def coverage(self) -> float:
        """Return the share of the labeled samples that are answered."""
        return self.num_accepted / self.num_samples if self.num_samples else 0.0

    def problem(self) -> str:
        """Return what is wrong with its values, or "" if nothing is."""
        counts = (
            (self.num_errors, self.num_accepted, self.num_samples),
            (self.num_strangers_accepted, self.num_strangers),
        )
        if not _is_text(self.name):
            return f"a threshold has the name {self.name!r}"
        if self.value is not None and not _is_number(self.value):
            return f"a threshold is {self.value!r}"
        if self.novelty is not None and not _is_number(self.novelty):
            return f"a threshold has the novelty {self.novelty!r}"
        for row in counts:
            if any(type(count) is not int or count < 0 for count in row) or [*row] != sorted(row):
                return f"a threshold has the counts {row}, expected whole numbers in rising order"
        if self.value is None and self.num_accepted + self.num_strangers_accepted:
            return "a threshold that answers nothing counts answers"
        return ""


@dataclass(frozen=True)
class Scope:
    """The world of a promise: inputs of which classes, and how many strangers among them.

    Args:
        inputs: what is classified, in the plural: "images", "samples".
        classes: names of the known classes; empty if they have none.
        share: largest share of strangers, inputs of none of the classes, that the promise allows.
        strangers: where the certifying strangers came from, such as a folder.

    >>> print(Scope("images", ("car", "cat")))
    among images of these classes
    >>> print(Scope("images", ("car", "cat"), 0.3, "other-things"))
    with up to 30% strangers like those of other-things
    """

    inputs: str = "samples"
    classes: tuple[str, ...] = ()
    share: float = 0.0
    strangers: str = ""

    def __str__(self) -> str:
        if not self.share:
            return f"among {self.inputs} of these classes"
        source = f"those of {self.strangers}" if self.strangers else "those that certified it"
        return f"with up to {100 * self.share:g}% strangers like {source}"

    def problem(self) -> str:
        """Return what is wrong with its values, or "" if nothing is."""
        names = (self.inputs, self.strangers, *self.classes)
        if not all(map(_is_text, names)):
            return f"its scope has names that are no texts: {names}"
        if not _is_number(self.share) or not 0 <= self.share < 1:
            return f"its share of strangers is {self.share!r}, expected 0 or more, and below 1"
        return ""


@dataclass(frozen=True)
class Certificate:
    """Thresholds with a guarantee: samples with score >= threshold are answered.

    With probability 1 - delta over the certifying samples, at most a share `risk` of the answers is
    wrong: of all answers, or of those of each class or group that has a threshold. It holds in its
    scope, and for the model with its identity.

    Args:
        risk: share of answers that may be wrong.
        delta: probability that the guarantee does not hold.
        thresholds: one row, or one for each class or group.
        kind: whether the promise is about all answers, or about those of each class or group.
        scope: the world in which it holds.
        model: identity of the model that it belongs to (weights, scaler, reading, ...); "" if the
            scores came without a model.
        version: of this schema.

    >>> certificate = Certificate(0.05, 0.1, (Threshold(0.905, 2000, 700, 21),))
    >>> print(certificate)
    answers where the score is at least 0.9050 (35.0% of the samples): with probability 0.9 at most
    5% of its answers are wrong, among samples of these classes (21 of 700 were)
    >>> Certificate.from_json(certificate.to_json()) == certificate
    True
    """

    risk: float
    delta: float
    thresholds: tuple[Threshold, ...]
    kind: Kind = "overall"
    scope: Scope = field(default_factory=Scope)
    model: str = ""
    version: int = VERSION

    @property
    def threshold(self) -> float:
        """Return the one threshold of an overall certificate."""
        value = self._only.value
        assert value is not None  # an overall certificate that answers nothing is refused
        return value

    @property
    def coverage(self) -> float:
        """Return the share of the labeled samples that are answered, strangers left out."""
        num_samples = sum(row.num_samples for row in self.thresholds)
        return self.num_accepted / num_samples

    @property
    def num_accepted(self) -> int:
        """Return the number of labeled samples that are answered, strangers left out."""
        return sum(row.num_accepted for row in self.thresholds)

    @property
    def num_errors(self) -> int:
        """Return the number of wrong answers among them."""
        return sum(row.num_errors for row in self.thresholds)

    @property
    def _only(self) -> Threshold:
        if self.kind != "overall":
            raise ValueError(
                f"this certificate has a threshold for each {self.kind}: read its thresholds"
            )
        return self.thresholds[0]

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as a JSON object, from which `from_json` makes it again."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, plain: Any) -> Certificate:
        """Return the certificate of a JSON object; anything that is not understood is refused."""
        fields = _fields(cls, plain, "its certificate")
        if fields["version"] != VERSION:
            raise ValueError(
                f"its certificate has the version {fields['version']!r}, this version of socrates "
                f"reads {VERSION}: certify again"
            )
        rows = _list(fields, "thresholds")
        fields["thresholds"] = tuple(
            Threshold(**_fields(Threshold, row, "a threshold")) for row in rows
        )
        scope = _fields(Scope, fields["scope"], "the scope of its certificate")
        scope["classes"] = tuple(_list(scope, "classes"))
        fields["scope"] = Scope(**scope)
        certificate = cls(**fields)
        if problem := certificate.problem():
            raise ValueError(f"its certificate is not one: {problem}")
        return certificate

    def problem(self) -> str:
        """Return what is wrong with its values, or "" if nothing is."""
        for name in ("risk", "delta"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value < 1:
                return f"{name} is {value!r}, expected a share between 0 and 1"
        if self.kind not in KINDS or not _is_text(self.model):
            return f"kind {self.kind!r} of model {self.model!r}"
        problems = [self.scope.problem(), *(row.problem() for row in self.thresholds)]
        if any(problems):
            return next(filter(None, problems))
        return self._problem_of_table()

    def _problem_of_table(self) -> str:
        """Return which rows do not fit the kind and the scope, or "" if all do."""
        rows = self.thresholds
        names = [row.name for row in rows]
        if len(set(names)) < len(names) or not any(row.value is not None for row in rows):
            return f"it needs a threshold for each of {names}, each of which once"
        if self.kind == "overall" and names != [""]:
            return f"an overall threshold has the names {names}"
        if self.kind == "class" and set(names) - set(self.scope.classes):
            return f"it has thresholds of {names}, and its classes are {self.scope.classes}"
        if bool(self.scope.share) != any(row.num_strangers for row in rows):
            return "a share of strangers takes strangers that certified it"
        return ""

    def __str__(self) -> str:
        answers, who = self._answers_in_words()
        return (
            f"{answers}: with probability {1 - self.delta:g} at most {100 * self.risk:g}% of "
            f"{who} are wrong, {self.scope} ({self._counts_in_words()})"
        )

    def _answers_in_words(self) -> tuple[str, str]:
        """Return when it answers and how often, and which answers the promise is about."""
        share = f"{100 * self.coverage:.1f}% of the {self.scope.inputs}"
        if self.scope.share:
            share += " of its classes"
        if self.kind == "overall":
            limit = self.thresholds[0].novelty
            strange = "" if limit is None else f" and the novelty at most {limit:.4f}"
            return (
                f"answers where the score is at least {self.threshold:.4f}{strange} ({share})",
                "its answers",
            )
        answered = [row for row in self.thresholds if row.value is not None]
        return (
            f"answers above thresholds for {len(answered)} of {len(self.thresholds)} "
            f"{'classes' if self.kind == 'class' else 'groups'} ({share})",
            f"the answers of each {self.kind}",
        )

    def _counts_in_words(self) -> str:
        words = f"{self.num_errors} of {self.num_accepted} were"
        strangers = sum(row.num_strangers for row in self.thresholds)
        if not strangers:
            return words
        accepted = sum(row.num_strangers_accepted for row in self.thresholds)
        return f"{words}, and {accepted} of {strangers} strangers were answered"


def _fields(kind: type, plain: Any, what: str) -> dict[str, Any]:
    """Return the fields of a dataclass from a JSON object that has all of them and no other."""
    names = {item.name for item in dataclasses.fields(kind)}
    given = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {}
    if set(given) != names:
        expected = ", ".join(sorted(names))
        raise ValueError(f"{what} must have the fields {expected}, got {list(given) or plain!r}")
    return dict(given)


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    """Return a field that must be a list."""
    values: Any = fields[name]
    if not isinstance(values, list | tuple):
        raise ValueError(f"its certificate has the {name} {values!r}, expected a list")
    items: list[Any] = [*values]
    return items


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
