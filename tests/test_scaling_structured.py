import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling_cases import confident, mixed, nll, sampled, structured_map, vector_map

from socrates.scaling import TemperatureScaling
from socrates.scaling.affine import STRUCTURED_STRENGTHS
from socrates.scaling.folds import RegularizationPath
from socrates.scaling.held_out import HeldOut
from socrates.scaling.newton import AffineNLL, Blocks

STRUCTURES = ("full", "diagonal")
every_structure = pytest.mark.parametrize("structure", STRUCTURES)


def gradient_of_the_published_objective(scaler, logits, labels, strength):
    """Length of the gradient, by A T and bias, of structured matrix or vector scaling's objective
    as printed."""
    (n, k), full = logits.shape, scaler.weight.ndim == 2
    t = TemperatureScaling().fit(logits, labels).temperature
    a, bias = (t * scaler.weight).requires_grad_(), scaler.bias.clone().requires_grad_()
    w = logits.double() / t
    value = nll(w @ a.T + bias if full else w * a + bias, labels)
    diagonal = a.diagonal() if full else a
    inner = max(min(strength, 1), strength / 10) if full else strength
    value = value + inner * k / n * ((diagonal - 1).square().sum() + bias.square().sum())
    if full:
        value = value + strength * k * (k - 1) / n * (a.square().sum() - diagonal.square().sum())
    return float(torch.cat([g.flatten() for g in torch.autograd.grad(value, [a, bias])]).norm())


@every_structure
@pytest.mark.parametrize("strength", [30.0, 3.0, 1.0, 0.1, 1e-3])
def test_it_is_the_minimum_of_the_published_objective(structure, strength):
    logits, labels = mixed(800, 5)
    scaler = structured_map(strength, structure).fit(logits, labels)
    assert scaler.report.converged
    assert scaler.strength == strength
    assert gradient_of_the_published_objective(scaler, logits, labels, strength) < 1e-5


def test_two_classes_by_hand():
    # Uninformative logits and labels 3 : 1: by symmetry only the bias +-a acts, with k / n = 2 / 8
    # on each.
    logits = torch.tensor([[1.0, -1.0], [-1.0, 1.0]] * 4)
    labels = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])
    for structure in STRUCTURES:
        a = float(structured_map(1.0, structure).fit(logits, labels).bias[0])
        assert 1 / (1 + math.exp(-2 * a)) - 0.75 + 0.5 * a == pytest.approx(0, abs=1e-6)


def test_the_diagonal_of_strength_two_is_vector_scaling():
    logits, labels = mixed(500, 6)
    scaler, vector = (
        structured_map(2.0, "diagonal").fit(logits, labels),
        vector_map().fit(logits, labels),
    )
    assert torch.allclose(scaler.weight, vector.scale, atol=1e-6)
    assert torch.allclose(scaler.bias, vector.bias, atol=1e-6)


@every_structure
def test_infinite_strength_is_temperature_scaling(structure):
    logits, labels = mixed(500, 4)
    scaler, temperature = (
        structured_map(math.inf, structure),
        TemperatureScaling().fit(logits, labels),
    )
    assert torch.allclose(scaler.fit(logits, labels)(logits), temperature(logits), atol=1e-5)
    assert scaler.report == temperature.report
    nearly = structured_map(1e6, structure).fit(logits, labels)
    assert torch.allclose(nearly(logits), temperature(logits), atol=1e-2)


@every_structure
def test_no_strength_is_no_penalty(structure):
    logits, labels = mixed(3000, 4)
    scaler = structured_map(0.0, structure).fit(logits, labels)
    assert scaler.report.converged
    assert (
        scaler.report.nll_after
        < structured_map(1e-3, structure).fit(logits, labels).report.nll_after
    )


def test_strengths_go_from_temperature_scaling_to_almost_free():
    assert STRUCTURED_STRENGTHS[0] == math.inf
    assert list(STRUCTURED_STRENGTHS) == sorted(STRUCTURED_STRENGTHS, reverse=True)
    assert STRUCTURED_STRENGTHS[-1] == 1e-3


@pytest.mark.thorough
@every_structure
@pytest.mark.parametrize(("n", "c"), [(300, 4), (2000, 10), (3000, 100)])
def test_cross_validation_is_no_worse_than_the_best_strength_by_much(structure, n, c):
    logits, labels = mixed(n + 5000, c, strength=0.1)
    fit, rest = slice(0, n), slice(n, None)
    scaler = structured_map(structure=structure).fit(logits[fit], labels[fit])
    found = {
        m: float(
            nll(
                structured_map(m, structure).fit(logits[fit], labels[fit])(logits[rest]),
                labels[rest],
            )
        )
        for m in (math.inf, 100.0, 10.0, 1.0, 0.1, 0.01)
    }
    assert float(nll(scaler(logits[rest]), labels[rest])) <= min(found.values()) + 0.02
    assert scaler.strength in STRUCTURED_STRENGTHS
    assert scaler.report.converged


@pytest.mark.parametrize("true_t", [0.5, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_where_temperature_is_the_truth_little_is_lost(true_t, seed):
    logits, labels = sampled(8000, 20, true_t, seed)
    fit, rest = slice(0, 2000), slice(2000, None)
    scaler, temperature = (
        s.fit(logits[fit], labels[fit]) for s in (structured_map(), TemperatureScaling())
    )
    assert (
        nll(scaler(logits[rest]), labels[rest])
        <= nll(temperature(logits[rest]), labels[rest]) + 0.003
    )


@every_structure
def test_probabilities_may_be_given_by_their_logarithms(structure):
    logits, labels = mixed(6000, 5)
    fit, rest = slice(0, 2000), slice(2000, None)
    temperature = TemperatureScaling().fit(logits[fit], labels[fit])
    for z in (logits, logits.log_softmax(dim=1)):
        scaler = structured_map(structure=structure).fit(z[fit], labels[fit])
        assert (
            nll(scaler(z[rest]), labels[rest]) < nll(temperature(logits[rest]), labels[rest]) - 0.05
        )


@pytest.mark.thorough
def test_a_fit_needs_no_luck_and_its_precision_little():
    logits, labels = mixed(4000, 100)
    first, second = (structured_map().fit(logits, labels) for _ in range(2))
    assert torch.equal(first.weight, second.weight)
    # the folds of so many logits are in single precision
    wide = structured_map().fit(logits.double(), labels)
    assert wide.strength == first.strength
    assert torch.allclose(wide.weight, first.weight, atol=1e-4)
    assert structured_map().fit(logits.half(), labels).strength == first.strength


@every_structure
def test_fewer_than_ten_rows_are_temperature_scaling(structure):
    # Sure of class 0, and surer where that is right: a bias undoes it, a temperature cannot.
    logits, labels = torch.tensor([[5.0, 0.0], [3.0, 0.0]] * 5), torch.tensor([0, 1] * 5)
    assert structured_map(structure=structure).fit(logits[:9], labels[:9]).strength == math.inf
    assert structured_map(structure=structure).fit(logits, labels).strength < 100


@every_structure
@pytest.mark.parametrize(("rows", "classes"), [(2, 2), (3, 10), (10, 10), (25, 100), (60, 100)])
def test_few_rows_end_finite(structure, rows, classes):
    logits, labels = confident(rows + 2, classes)
    labels[:2] = torch.tensor([0, 1])
    for strength in ("cv", 1.0, 1e-3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few may be separable, which is said
            scaler = structured_map(strength, structure).fit(logits, labels)
        assert torch.isfinite(scaler(logits)).all()
        assert scaler.report.nll_after <= scaler.report.nll_before


@every_structure
@pytest.mark.parametrize("strength", ["cv", 1.0])
def test_an_absent_class_keeps_temperature_scaling(structure, strength):
    logits, labels = mixed(2000, 5)
    labels = labels.clamp(max=3)
    t = TemperatureScaling().fit(logits, labels).temperature
    scaler = structured_map(strength, structure).fit(logits, labels)
    row = t * scaler.weight[-1]
    assert torch.allclose(
        row, torch.eye(5).double()[-1] if structure == "full" else row.new_ones(())
    )
    assert float(scaler.bias[-1]) == 0
    assert scaler.report.converged


@every_structure
@pytest.mark.parametrize("strength", ["cv", 1.0, 0.0])
def test_an_unknown_column_is_ruled_out(structure, strength):
    known, labels = sampled(1500, 6, 1.5)
    logits = torch.cat(
        [known, 3 * torch.randn(1500, 1, generator=torch.Generator().manual_seed(1))], dim=1
    )
    scaler = structured_map(strength, structure).fit(logits, labels, unknown_class=True)
    assert float(scaler(logits).double().softmax(dim=1)[:, -1].mean()) < 1e-7
    alone = structured_map(strength, structure).fit(known, labels)
    assert torch.equal(scaler.weight[(slice(None, -1),) * scaler.weight.ndim], alone.weight)
    assert torch.equal(scaler.bias[:-1], alone.bias)


@every_structure
def test_constant_logits_learn_the_frequencies(structure):
    labels = torch.arange(1000) % 10 // 7  # 7 : 3
    scaler = structured_map(structure=structure).fit(torch.zeros(1000, 2), labels)
    p = scaler(torch.zeros(1, 2)).softmax(dim=1)
    assert float(p[0, 0]) == pytest.approx(0.7, abs=0.01)


@every_structure
@pytest.mark.parametrize("strength", ["cv", 1.0])
def test_separable_labels_are_said(structure, strength):
    logits, _ = sampled(300, 4, 1.0)
    with pytest.warns(UserWarning, match=r"StructuredScaling: .*largest"):
        scaler = structured_map(strength, structure).fit(logits, logits.argmax(dim=1))
    assert torch.isfinite(scaler(logits)).all()
    assert scaler.report.nll_after < 1e-3


@every_structure
@pytest.mark.parametrize("mask", [-1e4, -1e30, -3.4e38])
def test_masked_logits_fit(structure, mask):
    logits, labels = sampled(2000, 6, 1.5)
    logits[torch.arange(2000), (labels + 1 + torch.arange(2000) % 5) % 6] = mask
    scaler = structured_map(structure=structure).fit(logits, labels)
    assert (
        scaler.report.nll_after <= TemperatureScaling().fit(logits, labels).report.nll_after + 1e-6
    )
    assert not torch.isnan(scaler(logits)).any()


@every_structure
@pytest.mark.parametrize("make", [lambda z: z + 1000, lambda z: 1e6 * z, lambda z: 1e-6 * z])
def test_offsets_and_scales_fit(structure, make):
    logits, labels = mixed(1000, 4)
    scaler = structured_map(structure=structure).fit(make(logits.double()), labels)
    assert (
        scaler.report.nll_after
        <= TemperatureScaling().fit(logits.double(), labels).report.nll_after + 1e-6
    )


def test_one_class_and_wrong_words_are_refused():
    with pytest.raises(ValueError, match="use TemperatureScaling"):
        structured_map().fit(torch.randn(5, 3), torch.ones(5, dtype=torch.long))
    for bad in ("CV", -1.0, math.nan):
        with pytest.raises(ValueError, match=f"strength .*{bad!r}$"):
            structured_map(bad)
    with pytest.raises(ValueError, match=r"structure .*'vector'"):
        structured_map(structure="vector")


def test_none_is_no_penalty():
    logits, labels = mixed(300, 3)
    free = structured_map(strength=None).fit(logits, labels)
    assert free.strength == 0
    assert torch.equal(free.weight, structured_map(strength=0).fit(logits, labels).weight)


def test_a_diagonal_moves_into_a_fresh_default():
    logits, labels = mixed(200, 4)
    diagonal, fresh = structured_map(1.0, "diagonal").fit(logits, labels), structured_map()
    fresh.load_state_dict(diagonal.state_dict())
    assert torch.equal(fresh(logits), diagonal(logits))


def test_the_path_goes_from_strong_to_weak_until_it_turns():
    logits, labels = mixed(400, 6)
    objective = AffineNLL(HeldOut(logits, labels), 0.6, full=True)
    tried = []

    def penalty(strength, num_rows, num_classes):
        tried.append((strength, num_rows, num_classes))
        return strength

    path = RegularizationPath(objective, STRUCTURED_STRENGTHS, penalty)
    assert [strength for strength, _, _ in tried] == list(STRUCTURED_STRENGTHS[1 : len(tried) + 1])
    assert {tuple(sizes) for _, *sizes in tried} == {(320, 6)}
    assert [len(rows) for rows in path.held_out] == [400] * (len(tried) + 1)
    means = [float(rows.mean()) for rows in path.held_out]
    assert path.best == means.index(min(means)) < len(means) - 1


@pytest.mark.thorough
@pytest.mark.parametrize(("classes", "blocks"), [(256, 256), (257, 1)])
def test_very_many_classes_share_one_block(classes, blocks):
    logits, labels = sampled(600, classes, 1.5)
    objective = AffineNLL(HeldOut(logits, labels), 0.6, full=True)
    assert objective.blocks.blocks.shape == (blocks, classes + 1, classes + 1)
    residual = torch.randn(
        objective.centre.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    objective.penalty = torch.full_like(objective.centre, 0.1)
    solved = objective.blocks.solve(objective.penalty, residual)
    assert solved.dtype == torch.float64
    assert float((solved * residual).sum()) > 0
    assert structured_map(1.0).fit(logits, labels).report.converged


def test_blocks_are_inverted_again_only_for_another_penalty():
    blocks = Blocks(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), 1.0, full=True)
    residual = torch.ones(3, 4, dtype=torch.float64)
    blocks.solve(0.5, residual)
    first = blocks.inverse
    assert blocks.solve(blocks.penalty, residual) is not None
    assert blocks.inverse is first
    blocks.solve(0.6, residual)
    assert blocks.inverse is not first


@settings(max_examples=25, deadline=None)
@given(st.integers(8, 40), st.integers(2, 5), st.floats(-2, 2), st.integers(0, 10_000))
def test_never_worse_on_its_own_rows(n, c, log_scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 10**log_scale * torch.randn(n, c, generator=generator)
    labels = torch.randint(0, c, (n,), generator=generator)
    labels[:2] = torch.tensor([0, 1])
    for structure in STRUCTURES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler = structured_map(structure=structure).fit(logits, labels)
        assert scaler.report.nll_after <= scaler.report.nll_before
        assert float(nll(scaler(logits.double()), labels)) <= float(nll(logits, labels)) + 1e-9
