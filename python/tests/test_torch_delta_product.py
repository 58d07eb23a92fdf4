"""The layer DeltaProduct for PyTorch beside tools/numpy_model.py, which computes the formulas in numpy."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("h5py")

import numpy as np  # noqa: E402

import orthornn.torch as ot  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import numpy_model  # noqa: E402

CLOSE = {"rtol": 1e-9, "atol": 1e-10}
CASES = [
    {}, {"householder": 1, "state_decay": True}, {"factor": "rwkv7", "state_decay": True},
    {"factor": "rwkv7"}, {"convolution": 3, "output_gate": True}, {"convolution": 1},
    {"learn_initial_state": True, "without_values": True}, {"readout_norm": "none", "beta_limit": 1.0},
    {"vector_activation": "identity", "beta_offset": 0.5, "convolution": 2, "state_decay": True}]


def make(**named):
    torch.manual_seed(5)
    layer = ot.DeltaProduct(4, 6, heads=2, key_size=3, value_size=5, **named, dtype=torch.float64)
    with torch.no_grad():
        for own in layer.parameters():
            own.add_(0.1 * torch.randn_like(own))
    return layer


def in_numpy(layer, x, lengths, start=None):
    """y [B, T, N] and the last states by the formulas; x [B, T, K]."""
    options = {name: getattr(layer, name) for name in
               ("heads", "key_size", "value_size", "householder", "factor", "beta_limit", "beta_offset",
                "vector_activation", "state_decay", "learn_initial_state", "without_values", "convolution",
                "readout_norm", "norm_epsilon", "output_gate")}
    parameters = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    y, last = numpy_model.deltaproduct(parameters, options, x.numpy().swapaxes(0, 1), lengths.numpy(), start)
    return torch.from_numpy(y).transpose(0, 1), [torch.from_numpy(s) for s in last]


@pytest.mark.parametrize("named", CASES)
def test_layer_is_its_formula(named):
    layer = make(**named)
    x, lengths = torch.randn(3, 5, 4, dtype=torch.float64), torch.tensor([5, 0, 3])
    y, states = layer(x, lengths)
    wanted, last = in_numpy(layer, x, lengths)
    live = torch.arange(5) < lengths[:, None]
    torch.testing.assert_close(y[live], wanted[live], **CLOSE)
    assert (y[~live] == 0).all() and len(states) == len(last)
    for s, t in zip(states, last):
        torch.testing.assert_close(s, t, **CLOSE)
    # Without lengths all steps are live.
    torch.testing.assert_close(layer(x)[0], in_numpy(layer, x, torch.tensor([5, 5, 5]))[0], **CLOSE)


@pytest.mark.parametrize("named", CASES)
def test_pieces_are_the_whole(named):
    layer = make(**named)
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    whole, last = layer(x)
    y, states = layer(x[:, :2])
    z, states = layer(x[:, 2:], states=states)
    torch.testing.assert_close(torch.cat([y, z], 1), whole, **CLOSE)
    for s, t in zip(states, last):
        torch.testing.assert_close(s, t, **CLOSE)


@pytest.mark.parametrize("named", [CASES[4], CASES[2], CASES[8]])
def test_gradients_of_all_parameters(named):
    layer = make(**named)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (x,))[0]

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_of_vectors_of_zeros(dtype):
    layer = make(state_decay=True).float()
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        layer.input_bias.zero_()
    x[:, 1] = 0
    wanted = layer(x)[0]
    with torch.autocast("cpu", dtype):
        y = layer(x)[0]
    # Both types have the rounding of 8 bits or more in each product.
    torch.testing.assert_close(y.float(), wanted, rtol=0.05, atol=0.05)


def test_vectors_of_zeros_have_no_gradient():
    layer = make(vector_activation="identity")
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        layer.input_bias.zero_()
    x[:, 1] = 0
    layer(x)[0].sum().backward()
    # A vector of zeros has no direction; numbers of the others are near 1.
    assert max(p.grad.abs().max() for p in layer.parameters()) < 1e3


def test_layer_compiles_as_one_graph():
    layer = make(convolution=3, output_gate=True, state_decay=True)
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    results = []
    for own in layer, torch.compile(layer, fullgraph=True, backend="aot_eager"):
        y, _ = own(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), list(layer.parameters()))])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, **CLOSE)


def test_parameters_start_as_in_the_library():
    torch.manual_seed(6)
    layer = ot.DeltaProduct(100, heads=8, key_size=16, value_size=16, state_decay=True, convolution=4)
    assert layer.hidden_size == 100
    assert layer.input_weights.std().item() == pytest.approx(0.1, rel=0.05)
    assert layer.output_weights.std().item() == pytest.approx(128 ** -0.5, rel=0.05)
    assert layer.filters.abs().max() <= 0.5 and layer.filters.std() > 0.25
    assert (layer.norm_gain == 1).all()
    assert layer.decay_rates.max() <= torch.log(torch.tensor(16.0))
    # Rows of the projections: queries, keys, values, step sizes, decays.
    assert layer.input_bias.shape == (8 * 16 + 2 * 8 * 16 + 2 * 8 * 16 + 2 * 8 + 8,)
    amounts = torch.nn.functional.softplus(layer.input_bias[-8:])
    assert (layer.input_bias[:-8] == 0).all() and (amounts > 0.9e-3).all() and (amounts < 0.11).all()


def wrong_calls():
    layer = make()
    x = torch.zeros(2, 3, 4, dtype=torch.float64)
    yield "x", lambda: layer(x[..., :3])
    yield "lengths", lambda: layer(x, torch.tensor([1, 2, 3]))
    yield "states\\[0\\]", lambda: layer(x, states=(torch.zeros(1, 2, 3, 5, dtype=torch.float64),))
    convolved = make(convolution=3)
    states = convolved(x)[1]
    for wrong in states[:1], states + states, states[0]:
        yield "states", lambda wrong=wrong: convolved(x, states=wrong)
    yield "states\\[1\\]", lambda: convolved(x, states=(states[0], states[1][:, :1]))


@pytest.mark.parametrize("number", range(7))
def test_wrong_calls_are_named(number):
    name, call = list(wrong_calls())[number]
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()


def test_lengths_beyond_the_steps_are_named():
    with pytest.raises(ValueError, match=r"^lengths\[1\] is 4, expected 0 to 3"):
        make(convolution=3)(torch.zeros(2, 3, 4, dtype=torch.float64), torch.tensor([3, 4]))


@pytest.mark.parametrize("name, value", [
    ("input_size", 0), ("hidden_size", 0), ("heads", 0), ("heads", 2.5), ("heads", 1 << 40), ("key_size", -1),
    ("value_size", 0), ("householder", 65), ("factor", "givens"), ("beta_limit", 3), ("beta_limit", 0),
    ("beta_offset", float("nan")), ("vector_activation", "tanh"), ("state_decay", 1), ("convolution", -1),
    ("convolution", 65), ("readout_norm", "layer"), ("norm_epsilon", -1), ("norm_epsilon", float("inf"))])
def test_arguments_outside_their_limits_are_named(name, value):
    with pytest.raises(ValueError, match=f"^'?{name}'?(:| is)"):
        ot.DeltaProduct(**{"input_size": 4, "hidden_size": 6, name: value})


def test_arguments_of_numpy_are_numbers():
    layer = ot.DeltaProduct(np.int64(4), heads=np.int32(2), beta_limit=np.float32(1))
    assert layer.options()["heads"] == 2 and layer.options()["hidden_size"] == 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("module", [ot.DeltaProduct, ot.CwyRnn, ot.ExpRnn])
def test_parameters_of_few_bits_are_refused(module, dtype):
    x = torch.zeros(2, 3, 4, dtype=dtype)
    message = f"^{module.__name__}: .*torch.float32 or torch.float64, found {dtype}"
    with pytest.raises(TypeError, match=message):
        module(4, 8).to(dtype)(x)
