"""Linear maps and convolutions with orthonormal weights."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.utils import skip_init  # noqa: E402
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations  # noqa: E402

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
          "5 x 3": lambda **k: ot.OrthogonalConv2d(4, 2, (5, 3), **k),
          "even": lambda **k: ot.OrthogonalConv2d(2, 3, (2, 4), **k)}
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
        assert (layer.weight - before).norm() > 0.1 * before.norm()


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


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_without_numbers_is_drawn_later(name):
    """Parameters are zeros before, of which there is no weight."""
    torch.manual_seed(2)
    before = torch.get_rng_state()
    layer = make(name, device="meta")
    assert torch.equal(torch.get_rng_state(), before)
    assert all(x.is_meta for x in layer.state_dict().values())
    assert layer(inputs_of(layer, device="meta")).shape == make(name)(inputs_of(layer)).shape
    layer.to_empty(device="cpu")
    for x in layer.state_dict().values():
        x.zero_()
    torch.manual_seed(2)
    layer.reset_parameters()
    wanted = make(name)
    torch.testing.assert_close(layer.weight, wanted.weight, **CLOSE)
    assert layer.bias is None or torch.equal(layer.bias, wanted.bias)


def test_skipped_initial_numbers_come_from_a_state_dict():
    wanted = make("square")
    layer = skip_init(ot.OrthogonalLinear, 5, 5, **DOUBLE)
    layer.load_state_dict(wanted.state_dict())
    assert torch.equal(layer.weight, wanted.weight)


def test_the_default_device_draws_nothing():
    for make_layer in (lambda: make("square", device="cpu"), lambda: make("wide", device="cpu"),
                       lambda: ot.CwyRnn(2, 3, device="cpu")):
        torch.manual_seed(2)
        wanted = make_layer()
        torch.manual_seed(2)
        with torch.device("meta"):
            found = make_layer()
        for x, y in zip(found.parameters(), wanted.parameters()):
            assert torch.equal(x, y)


@pytest.mark.parametrize("name", LAYERS)
def test_biases_are_drawn_as_those_of_torch(name):
    """From U(-a, a), a one over the root of the inputs of an output."""
    layer = make(name)
    if layer.bias is None:
        return
    limit = layer.weight[0].numel() ** -0.5
    drawn = []
    for _ in range(300):
        layer.reset_parameters()
        drawn.append(layer.bias.detach().clone())
    drawn = torch.cat(drawn)
    # Of 600 or more numbers, some are in the last fiftieth, but for odds of 1 in 100 000.
    assert drawn.abs().max() <= limit and drawn.max() > 0.98 * limit and drawn.min() < -0.96 * limit


class _Negated(nn.Module):
    """A parametrization of a user."""

    def forward(self, weight):
        return -weight

    def right_inverse(self, weight):
        return -weight


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_drawn_again_whatever_its_parametrizations_are(name):
    layer = make(name)
    torch.manual_seed(5)
    layer.reset_parameters()
    wanted = layer.weight.detach().clone()
    register_parametrization(layer, "weight", _Negated())
    torch.manual_seed(5)
    layer.reset_parameters()
    torch.testing.assert_close(layer.weight, wanted, **CLOSE)
    remove_parametrizations(layer, "weight")
    torch.manual_seed(5)
    layer.reset_parameters()
    torch.testing.assert_close(layer.weight, wanted, **CLOSE)


@pytest.mark.parametrize("name", SQUARE)
def test_a_map_without_parametrizations_keeps_its_inverse(name):
    layer = make(name)
    remove_parametrizations(layer, "weight")
    x = inputs_of(layer)
    torch.testing.assert_close(layer.inverse(layer(x)), x, **CLOSE)
    assert layer.log_determinant() == 0


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
    ("kernel_size", lambda: ot.OrthogonalConv2d(3, 3, (3, -1))),
    ("kernel_size", lambda: ot.OrthogonalConv2d(3, 3, (3, 3, 3)))])
def test_wrong_arguments_are_named(name, call):
    with pytest.raises(ValueError, match=f"^{name}: expected .*, found "):
        call()


@pytest.mark.parametrize("kernel_size", [3.0, "3", None, (3, 1.5), [None, 3]])
def test_a_kernel_size_that_is_not_whole_is_named(kernel_size):
    with pytest.raises(TypeError, match="^kernel_size: expected a whole number or two, found "):
        ot.OrthogonalConv2d(3, 3, kernel_size)


def test_a_kernel_size_is_whatever_stands_for_whole_numbers():
    for kernel_size in torch.tensor(3), [torch.tensor(3), 3], torch.Size([3, 3]):
        assert ot.OrthogonalConv2d(2, 2, kernel_size).kernel_size == (3, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.int64])
def test_other_types_of_numbers_are_refused(dtype):
    for name in "square", "3 x 3":
        with pytest.raises(TypeError, match=f"^dtype: expected torch.float32 or .*64, found {dtype}"):
            make(name, dtype=dtype)


def test_another_default_type_is_refused():
    torch.set_default_dtype(torch.bfloat16)
    try:
        with pytest.raises(TypeError, match="^dtype: .* found torch.bfloat16"):
            ot.OrthogonalLinear(3, 3)
    finally:
        torch.set_default_dtype(torch.float32)
