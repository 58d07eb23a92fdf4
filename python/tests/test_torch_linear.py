"""Linear maps and convolutions with orthonormal weights."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import orthornn.torch as ot  # noqa: E402

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
DOUBLE = {"dtype": torch.float64}

LAYERS = {"square": lambda **k: ot.OrthogonalLinear(5, 5, **k),
          "wide": lambda **k: ot.OrthogonalLinear(7, 4, **k),
          "tall": lambda **k: ot.OrthogonalLinear(4, 7, **k),
          "no bias": lambda **k: ot.OrthogonalLinear(3, 3, bias=False, **k),
          "pixels": lambda **k: ot.OrthogonalConv2d(4, 4, 1, **k),
          "3 x 3": lambda **k: ot.OrthogonalConv2d(3, 5, 3, **k),
          "many outputs": lambda **k: ot.OrthogonalConv2d(1, 12, 3, bias=False, **k),
          "square kernel": lambda **k: ot.OrthogonalConv2d(2, 6, (3, 1), **k),
          "5 x 3": lambda **k: ot.OrthogonalConv2d(4, 2, (5, 3), **k)}
SQUARE = "square", "no bias", "pixels"


def make(name, **named):
    torch.manual_seed(2)
    return LAYERS[name](**{**DOUBLE, **named})


def inputs_of(layer, batch=3, **named):
    one = (layer.in_features,) if isinstance(layer, nn.Linear) else (layer.in_channels, 6, 7)
    return torch.randn(batch, *one, **{**DOUBLE, **named})


def train(layer, steps=5):
    """Steps of an optimizer that move the weight far."""
    optimizer = torch.optim.SGD(layer.parameters(), 0.5)
    x = inputs_of(layer)
    target = torch.randn_like(layer(x))
    for _ in range(steps):
        optimizer.zero_grad()
        (layer(x) * target).sum().backward()
        optimizer.step()


def matrix_of(layer):
    """The linear part of the map of one input [M, K], column by column."""
    zero = torch.zeros_like(inputs_of(layer, 1))
    one = torch.eye(zero.numel(), **DOUBLE).reshape(-1, *zero.shape[1:])
    return (layer(one) - layer(zero)).flatten(1).T.detach()


@pytest.mark.parametrize("name", LAYERS)
def test_the_map_enlarges_no_difference_after_training(name):
    layer = make(name)
    for _ in range(2):
        norm = torch.linalg.matrix_norm(matrix_of(layer), 2).item()
        assert norm <= 1 + 1e-12
        x, y = inputs_of(layer, 50), inputs_of(layer, 50)
        moved = (layer(x) - layer(y)).flatten(1).norm(dim=1) / (x - y).flatten(1).norm(dim=1)
        assert moved.max() <= 1 + 1e-12
        if name in ("tall", *SQUARE):
            torch.testing.assert_close(moved, torch.ones_like(moved), **CLOSE)
        before = layer.weight.detach().clone()
        train(layer)
        assert (layer.weight - before).norm() > 0.1


@pytest.mark.parametrize("name", LAYERS)
def test_weight_is_a_stiefel_point(name):
    layer = make(name)
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    train(layer)
    w = layer.weight.detach().flatten(1)
    w = w if w.shape[0] >= w.shape[1] else w.T
    scale = 1.0 if isinstance(layer, nn.Linear) else layer.weight[0, 0].numel()
    torch.testing.assert_close(scale * w.T @ w, torch.eye(w.shape[1], **DOUBLE), **CLOSE)


@pytest.mark.parametrize("name", SQUARE)
def test_square_maps_have_an_inverse(name):
    layer = make(name)
    train(layer)
    x = inputs_of(layer)
    torch.testing.assert_close(layer.inverse(layer(x)), x, **CLOSE)
    torch.testing.assert_close(layer(layer.inverse(x)), x, **CLOSE)
    torch.testing.assert_close(layer.inverse(layer(x[0])), x[0], **CLOSE)
    found = layer.log_determinant()
    assert found.shape == () and found.dtype == torch.float64 and not found.requires_grad
    torch.testing.assert_close(torch.linalg.slogdet(matrix_of(layer))[1], found, **CLOSE)


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in SQUARE])
def test_other_maps_say_that_they_have_none(name):
    layer = make(name)
    for call in lambda: layer.inverse(layer(inputs_of(layer))), layer.log_determinant:
        with pytest.raises(ValueError, match="have no inverse"):
            call()


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_finite_differences(name):
    layer = make(name)
    names = [own for own, _ in layer.named_parameters()]
    leaves = [p.detach().clone().requires_grad_() for p in layer.parameters()]

    def function(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters)), x)

    x = inputs_of(layer, 1).requires_grad_() if isinstance(layer, nn.Linear) else torch.randn(
        1, layer.in_channels, 3, 3, **DOUBLE, requires_grad=True)
    assert torch.autograd.gradcheck(function, [x, *leaves])


@pytest.mark.parametrize("name", LAYERS)
def test_state_dict_gives_the_map_back(name):
    layer, other = make(name), LAYERS[name](**DOUBLE)
    train(layer)
    x = inputs_of(layer)
    assert not torch.equal(layer(x), other(x))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x), other(x))
    assert torch.equal(layer(x), copy.deepcopy(layer)(x))


@pytest.mark.parametrize("name", LAYERS)
def test_a_map_compiles_as_one_graph(name):
    torch.compiler.reset()  # a process may compile a function for so many layers only
    layer = make(name)
    x = inputs_of(layer).requires_grad_()
    results = []
    for own in layer, torch.compile(layer, fullgraph=True, backend="aot_eager"):
        y = own(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])])
    for y, z in zip(*results):
        torch.testing.assert_close(y, z, **CLOSE)


def test_an_inverse_compiles_as_one_graph():
    layer = make("pixels")
    both = torch.compile(lambda x: layer.inverse(layer(x)) + layer.log_determinant(), fullgraph=True,
                         backend="aot_eager")
    x = inputs_of(layer)
    torch.testing.assert_close(both(x), x, **CLOSE)


@pytest.mark.parametrize("name", LAYERS)
def test_a_given_weight_is_taken_and_others_are_drawn(name):
    layer, other = make(name), make(name)
    assert torch.equal(layer.weight, other.weight)
    other.reset_parameters()
    drawn = other.weight.detach().clone()
    assert not torch.allclose(drawn, layer.weight)
    layer.weight = drawn
    torch.testing.assert_close(layer.weight, drawn, **CLOSE)


def test_drawn_weights_have_both_determinants():
    torch.manual_seed(3)
    signs = {round(torch.linalg.det(ot.OrthogonalLinear(3, 3, **DOUBLE).weight).item()) for _ in range(20)}
    assert signs == {1, -1}


def test_floats_and_the_arguments_of_the_neighbours():
    layer = ot.OrthogonalLinear(64, 64)
    x = torch.randn(9, 64)
    torch.testing.assert_close(layer.inverse(layer(x)), x, rtol=0, atol=1e-5)
    assert layer.weight.dtype == layer.log_determinant().dtype == torch.float32
    assert ot.OrthogonalLinear(2, 3, False, "cpu", torch.float64).bias is None
    assert ot.OrthogonalConv2d(3, 8, 3)(torch.randn(3, 9, 10)).shape == (8, 9, 10)
    layer.double()
    assert layer(x.double()).dtype == torch.float64


@pytest.mark.parametrize("name, call", [
    ("in_features", lambda: ot.OrthogonalLinear(0, 3)), ("out_features", lambda: ot.OrthogonalLinear(3, -1)),
    ("in_channels", lambda: ot.OrthogonalConv2d(0, 3, 3)),
    ("out_channels", lambda: ot.OrthogonalConv2d(3, 0, 3)),
    ("kernel_size", lambda: ot.OrthogonalConv2d(3, 3, 0)),
    ("kernel_size", lambda: ot.OrthogonalConv2d(3, 3, (3, 3, 3)))])
def test_wrong_arguments_are_named(name, call):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()


def test_other_types_of_numbers_are_refused():
    with pytest.raises(TypeError, match="expected torch.float32 or torch.float64, found torch.bfloat16"):
        ot.OrthogonalLinear(3, 3, dtype=torch.bfloat16)
