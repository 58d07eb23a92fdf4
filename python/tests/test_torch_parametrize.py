"""Orthogonal weights by torch.nn.utils.parametrize."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.utils.parametrizations import orthogonal  # noqa: E402
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations  # noqa: E402

import orthornn.torch as ot  # noqa: E402
from orthornn.torch.initial import parameters_of, stiefel_vectors_of  # noqa: E402

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_of_a_matrix_of_half_precision(dtype):
    flips = torch.diag(torch.tensor([-1.0, 1, 1, 1, 1], dtype=dtype))
    vectors = stiefel_vectors_of(flips[:, :2])
    assert vectors.dtype == dtype and vectors.shape == (2, 5)
    torch.testing.assert_close(ot.stiefel(vectors.float()), flips[:, :2].float())
    vectors = parameters_of("cwy", flips, reflections=1)
    assert vectors.dtype == dtype
    torch.testing.assert_close(ot.transition("cwy", vectors.float()), flips.float())


def matrix(weight):
    return weight.detach().flatten(1)


def assert_orthonormal(weight, atol=1e-10):
    m = matrix(weight)
    m = m if m.shape[0] >= m.shape[1] else m.T
    torch.testing.assert_close(m.T @ m, torch.eye(m.shape[1], dtype=m.dtype), rtol=0, atol=atol)


@pytest.mark.parametrize("layer, kind", [
    (nn.Linear(6, 6), ot.Cwy), (nn.Linear(4, 7), ot.TruncatedCwy), (nn.Linear(7, 4), ot.TruncatedCwy),
    (nn.Linear(5, 5), ot.TruncatedCwy), (nn.Conv2d(3, 8, 3), ot.TruncatedCwy),
    (nn.Conv1d(2, 16, 3), ot.TruncatedCwy), (nn.ConvTranspose2d(8, 4, 2), ot.TruncatedCwy),
    (nn.Conv2d(2, 8, 2), ot.Cwy)])
def test_weight_is_orthonormal_and_stays_so(layer, kind):
    layer = layer.double()
    first = matrix(layer.weight)
    register_parametrization(layer, "weight", kind())
    assert_orthonormal(layer.weight)
    # The nearest matrix, where the determinant is free.
    u, _, v = torch.linalg.svd(first, full_matrices=False)
    if kind is ot.Cwy or first.shape[0] != first.shape[1]:
        torch.testing.assert_close(matrix(layer.weight), u @ v, **CLOSE)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    direction = torch.randn_like(layer.weight)
    for _ in range(5):
        optimizer.zero_grad()
        (layer.weight * direction).sum().backward()
        optimizer.step()
    assert_orthonormal(layer.weight)
    assert not torch.allclose(matrix(layer.weight), u @ v)


@pytest.mark.parametrize("size", [2, 5, 6])
@pytest.mark.parametrize("sign", [1, -1])
def test_every_orthogonal_weight_stays_as_it_is(size, sign):
    """For both determinants, as torch's own parametrization with its base."""
    layer, other = nn.Linear(size, size).double(), nn.Linear(size, size).double()
    nn.init.orthogonal_(layer.weight)
    if torch.linalg.det(layer.weight.detach()) * sign < 0:
        layer.weight.data[:, -1] *= -1
    wanted = layer.weight.detach().clone()
    other.load_state_dict(layer.state_dict())
    register_parametrization(layer, "weight", ot.Cwy())
    orthogonal(other)
    torch.testing.assert_close(layer.weight, wanted, **CLOSE)
    torch.testing.assert_close(layer.weight, other.weight, **CLOSE)
    # A new orthogonal weight can be assigned.
    layer.weight = wanted.T.contiguous()
    torch.testing.assert_close(layer.weight, wanted.T, **CLOSE)
    remove_parametrizations(layer, "weight")
    torch.testing.assert_close(layer.weight, wanted.T, **CLOSE)


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (1, 3), (3, 1)])
def test_every_orthonormal_weight_stays_as_it_is(shape):
    layer = nn.Linear(*shape).double()
    nn.init.orthogonal_(layer.weight)
    wanted = layer.weight.detach().clone()
    register_parametrization(layer, "weight", ot.TruncatedCwy())
    torch.testing.assert_close(layer.weight, wanted, **CLOSE)


@pytest.mark.parametrize("sizes, kind", [((6, 6), ot.Cwy), ((4, 9), ot.TruncatedCwy)])
def test_training_is_that_of_torchs_householder_map(sizes, kind):
    """Both reach the nearest orthogonal matrix to a given one by gradient descent."""
    torch.manual_seed(3)
    target = torch.linalg.qr(torch.randn(sizes[1], sizes[0], dtype=torch.float64))[0]
    layers = [nn.Linear(*sizes).double() for _ in range(2)]
    start = target + 0.1 * torch.randn(sizes[1], sizes[0], dtype=torch.float64)
    for layer in layers:
        layer.weight.data.copy_(start)
    register_parametrization(layers[0], "weight", kind())
    orthogonal(layers[1], orthogonal_map="householder" if kind is ot.TruncatedCwy else "matrix_exp")
    for layer in layers:
        optimizer = torch.optim.Adam(layer.parameters(), 0.02)
        for step in range(600):
            optimizer.param_groups[0]["lr"] = 0.02 * 0.99 ** step
            optimizer.zero_grad()
            (layer.weight - target).square().sum().backward()
            optimizer.step()
        torch.testing.assert_close(layer.weight.detach(), target, rtol=0, atol=1e-3)


def test_fewer_reflections():
    torch.manual_seed(4)
    layer = nn.Linear(8, 8).double()
    register_parametrization(layer, "weight", ot.Cwy(3))
    assert layer.parametrizations.weight.original.shape == (3, 8)
    assert_orthonormal(layer.weight)
    # rank(I - Q) is 3 at most.
    singular = torch.linalg.svdvals(torch.eye(8, dtype=torch.float64) - layer.weight.detach())
    assert (singular > 1e-8).sum() == 3
    again = nn.Linear(8, 8).double()
    again.weight.data.copy_(layer.weight.detach())
    register_parametrization(again, "weight", ot.Cwy(3))
    torch.testing.assert_close(again.weight, layer.weight, **CLOSE)


def test_float_weights_and_state_dict():
    layer, other = nn.Conv2d(3, 8, 3), nn.Conv2d(3, 8, 3)
    for own in layer, other:
        register_parametrization(own, "weight", ot.TruncatedCwy())
    assert_orthonormal(layer.weight, 1e-5)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer.weight, other.weight)


@pytest.mark.parametrize("reflections", [-1, 0, 6])
def test_numbers_of_reflections_that_are_refused(reflections):
    with pytest.raises(ValueError, match="^reflections: "):
        register_parametrization(nn.Linear(5, 5), "weight", ot.Cwy(reflections))


@pytest.mark.parametrize("number", [0.5, 1, -2])
def test_weight_of_one_number(number):
    layer = nn.Linear(1, 1).double()
    layer.weight.data.fill_(number)
    register_parametrization(layer, "weight", ot.Cwy())
    assert layer.weight.item() == (1 if number > 0 else -1)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_checkpoint_fits_whatever_the_determinants_are(sign):
    layer, other = nn.Linear(6, 6), nn.Linear(6, 6)
    for own, wanted in (layer, sign), (other, 1):
        nn.init.orthogonal_(own.weight)
        if torch.linalg.det(own.weight.detach()) * wanted < 0:
            own.weight.data[0] *= -1
        start = own.weight.detach().clone()
        register_parametrization(own, "weight", ot.Cwy())
        # Orthogonal up to the rounding of floats, so it stays up to that.
        torch.testing.assert_close(own.weight, start, rtol=0, atol=2e-6)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer.weight, other.weight)


def test_a_refused_weight_changes_nothing():
    layer = nn.Linear(6, 6)
    cwy = ot.Cwy()
    register_parametrization(layer, "weight", cwy)
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match="^weight: expected the shape of the first one"):
        layer.weight = torch.eye(5)
    with pytest.raises(ValueError, match="^weight: expected the shape of the first one"):
        register_parametrization(nn.Linear(4, 4), "weight", cwy)
    assert torch.equal(layer.weight, before)


def test_wrong_weights_are_refused():
    with pytest.raises(ValueError, match="square"):
        register_parametrization(nn.Linear(3, 4), "weight", ot.Cwy())
    with pytest.raises(ValueError, match="dimensions"):
        register_parametrization(nn.Linear(3, 4), "bias", ot.TruncatedCwy())
    layer = nn.Linear(5, 5).double()
    with torch.no_grad():
        layer.weight.copy_(torch.eye(5))
    with pytest.raises(ValueError, match="determinant"):
        register_parametrization(layer, "weight", ot.TruncatedCwy())
