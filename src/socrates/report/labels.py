"""Names of settings and methods: what sets resolved experiments apart, in as few words as possible.

Everything here reads the options of experiments that `resolve` has filled in; nothing resolves
them again.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from socrates.experiment import Experiment, Kind, Part, Value

from .vocabulary import SYMBOLS, method_family, method_title, printed_option

# A setting with more methods than this has labels without the options that its variants share.
MOST_SPELLED_OUT = 8
# Fields of an Experiment that no label repeats: the setting or the method's name says them, or
# every label has them.
SAID_ELSEWHERE = ("dataset", "model", "method", "seed", "num_train", "optimization")


def setting_of(experiment: Experiment) -> str:
    """Return the title of the setting in which methods compare: data, model, training length.

    >>> setting_of(Experiment(Part("digits"), Part("cnn", width=16), Part("ce"), num_train=300))
    'digits, cnn (width 16), 300 training images, 300 epochs'
    """
    words = [_part_in_words(experiment, "dataset"), _part_in_words(experiment, "model")]
    if experiment.num_train is not None:
        words.append(f"{experiment.num_train:,} training images")
    words.append(f"{experiment.optimization.epochs} epochs")
    return ", ".join(words)


def labels(experiments: Sequence[Experiment]) -> list[str]:
    """Return a short name for each experiment: its method, and what else sets it apart.

    >>> focal = Experiment(Part("digits"), Part("mlp"), Part("focal", gamma=2.0))
    >>> cross_entropy = dataclasses.replace(focal, method=Part("ce"))
    >>> labels([focal, dataclasses.replace(focal, num_bins=10), cross_entropy])
    ['Focal, num_bins 15', 'Focal, num_bins 10', 'CE']
    """
    shared = shared_options(experiments)
    differing = _differing_keys((item.method.name, item.method.options) for item in experiments)
    names: list[str] = []
    for experiment in experiments:
        said = shared.get(method_family(experiment.method.name), {})
        names.append(method_label(experiment, differing[experiment.method.name], without=said))
    return _with_differing_fields(names, experiments)


def method_label(
    experiment: Experiment, differing: Collection[str] = (), without: Collection[str] = ()
) -> str:
    """Return the name of a method with its options that are differing or not at their defaults.

    Options that are said elsewhere are left out by `without`.

    >>> method = Part("socrates", alpha=0.99, gamma=2.0)
    >>> experiment = Experiment(Part("digits"), Part("mlp"), method)
    >>> method_label(experiment), method_label(experiment, differing=["alpha"])
    ('Socrates γ=2', 'Socrates α=0.99 γ=2')
    """
    method = experiment.method
    shown = {*differing, *experiment.changed("method")}.difference(without)
    options = {key: value for key, value in method.options if key in shown}
    return f"{method_title(method.name)} {_options_in_words(options)}".strip()


def shared_options(experiments: Sequence[Experiment]) -> dict[str, dict[str, Value]]:
    """Return the options that all variants of a method share, which shortens many labels.

    >>> digits, mlp = Part("digits"), Part("mlp")
    >>> many = [Experiment(digits, mlp, Part("focal", gamma=3.0))]
    >>> many += [Experiment(digits, mlp, Part("socrates", gamma=g, alpha=0.9)) for g in range(8)]
    >>> shared_options(many), shared_options(many[:5])
    ({'socrates': {'alpha': 0.9}}, {})
    """
    if len(experiments) <= MOST_SPELLED_OUT:
        return {}
    families: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        families.setdefault(method_family(experiment.method.name), []).append(experiment)
    shared = {
        name: _shared_by(variants) for name, variants in families.items() if len(variants) > 1
    }
    return {name: options for name, options in shared.items() if options}


def shared_in_words(experiments: Sequence[Experiment]) -> list[str]:
    """Return a phrase per method about the options that all its variants share.

    >>> shared_in_words([])
    []
    """
    return [
        f"all {method_title(name)}: {_options_in_words(options)}"
        for name, options in shared_options(experiments).items()
    ]


def varied_options(experiments: Sequence[Experiment]) -> list[dict[str, object]]:
    """Return the options of each experiment in which they differ, that with most values first.

    An option that follows from another one, as a learning rate may from the batch size, is left
    out.

    >>> one = Experiment(Part("digits"), Part("mlp"), Part("focal", gamma=2.0))
    >>> varied_options([one, dataclasses.replace(one, method=Part("focal", gamma=1.0))])
    [{'gamma': 2.0}, {'gamma': 1.0}]
    """
    options = [
        {**dict(item.method.options), **_fields_besides_method(item)} for item in experiments
    ]
    names = dict.fromkeys(name for values in options for name in values)
    columns = {name: [values.get(name) for values in options] for name in names}
    differing = [name for name, column in columns.items() if len({*map(str, column)}) > 1]
    differing.sort(key=lambda name: -len({*map(str, columns[name])}))
    kept: list[str] = []
    for name in differing:
        if not any(_follows(columns[name], columns[other]) for other in kept):
            kept.append(name)
    return [{name: values.get(name) for name in kept} for values in options]


def _follows(values: Sequence[object], others: Sequence[object]) -> bool:
    """Return whether each of the other values always comes with the same value."""
    pairs = {*zip(map(str, others), map(str, values), strict=True)}
    return len(pairs) == len({*map(str, others)})


def _shared_by(variants: Sequence[Experiment]) -> dict[str, Value]:
    """Return the options that are the same in all variants and not at the default in some."""
    changed = {key for variant in variants for key in variant.changed("method")}
    same = set(variants[0].method.options).intersection(
        *(variant.method.options for variant in variants)
    )
    return {key: value for key, value in sorted(same) if key in changed and value is not None}


def _with_differing_fields(names: Sequence[str], experiments: Sequence[Experiment]) -> list[str]:
    """Return the names, followed by the fields in which experiments of the same name differ."""
    fields = [_fields_besides_method(experiment) for experiment in experiments]
    differing = _differing_keys(zip(names, (values.items() for values in fields), strict=True))
    full_names: list[str] = []
    for name, values in zip(names, fields, strict=True):
        shown = [f"{key} {value}" for key, value in values.items() if key in differing[name]]
        full_names.append(", ".join([name, *shown]))
    return full_names


def _differing_keys(
    items_by_name: Iterable[tuple[str, Iterable[tuple[str, object]]]],
) -> dict[str, set[str]]:
    """Return, for each name, the keys whose values differ between the items of that name."""
    union: dict[str, set[tuple[str, object]]] = {}
    common: dict[str, set[tuple[str, object]]] = {}
    for name, pairs in items_by_name:
        items = set(pairs)
        union.setdefault(name, set()).update(items)
        common.setdefault(name, items).intersection_update(items)
    return {name: {key for key, _ in union[name] - common[name]} for name in union}


def _fields_besides_method(experiment: Experiment) -> dict[str, object]:
    """Return what may differ within a setting and is not the method.

    Weights to start from are named by the first letters of their hash.
    """
    names = [item.name for item in dataclasses.fields(experiment)]
    values = {name: getattr(experiment, name) for name in names if name not in SAID_ELSEWHERE}
    start = experiment.start[:8] or "from scratch"
    return {**values, **vars(experiment.optimization), "start": start}


def _options_in_words(options: Mapping[str, Value]) -> str:
    return " ".join(
        f"{SYMBOLS.get(key, key)}={printed_option(value)}" for key, value in options.items()
    )


def _part_in_words(experiment: Experiment, kind: Kind) -> str:
    part: Part = getattr(experiment, kind)
    changed = experiment.changed(kind)
    options = ", ".join(f"{key} {printed_option(value)}" for key, value in changed.items())
    return f"{part.name} ({options})" if options else part.name
