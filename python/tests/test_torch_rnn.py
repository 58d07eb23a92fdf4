"""Orthogonal layers for PyTorch beside torch.nn.RNN with Q as its matrix."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence  # noqa: E402

import orthornn.torch as ot  # noqa: E402
import torch_references as reference  # noqa: E402
from orthornn.torch.rnn import UnconstrainedRnn  # noqa: E402

LAYERS = [ot.CwyRnn, ot.HouseholderRnn, ot.CayleyRnn, ot.ExpRnn, ot.OwnRnn, ot.MatrixRnn, UnconstrainedRnn]
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def twin(layer):
    """A torch.nn.RNN of the same function; its gradients do not reach the parameter of Q."""
    other = nn.RNN(layer.input_size, layer.hidden_size, layer.num_layers, layer.activation, layer.bias,
                   layer.batch_first, layer.dropout, layer.bidirectional, dtype=torch.float64)
    with torch.no_grad():
        for k in range(layer.num_layers):
            for reverse in range(layer.directions):
                own, end = layer.layer_parameters(k, reverse), f"_l{k}" + "_reverse" * reverse
                getattr(other, "weight_ih" + end).copy_(own["weight_ih"])
                getattr(other, "weight_hh" + end).copy_(layer.transition_matrix(k, reverse))
                if layer.bias:
                    getattr(other, "bias_ih" + end).copy_(own["bias"].normal_())
                    getattr(other, "bias_hh" + end).zero_()
    return other


def make(kind=ot.CwyRnn, *arguments, **named):
    torch.manual_seed(1)
    return kind(*(arguments or (3, 6)), **{"dtype": torch.float64, "activation": "tanh", **named})


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_layer_is_nn_rnn_with_its_matrix(kind, activation):
    layer = make(kind, activation=activation)
    other = twin(layer)
    x, h_0 = torch.randn(5, 4, 3, dtype=torch.float64), torch.randn(1, 4, 6, dtype=torch.float64)
    for y, z in zip(layer(x, h_0), other(x, h_0)):
        torch.testing.assert_close(y, z, **CLOSE)


@pytest.mark.parametrize("named", [
    {"num_layers": 2}, {"bias": False}, {"batch_first": True}, {"bidirectional": True},
    {"num_layers": 3, "bidirectional": True, "batch_first": True}])
def test_arguments_are_those_of_nn_rnn(named):
    layer = make(**named)
    other = twin(layer)
    x = torch.randn(5, 4, 3, dtype=torch.float64, requires_grad=True)
    for y, z in zip(layer(x), other(x)):
        torch.testing.assert_close(y, z, **CLOSE)
    one = x[:, 0] if not named.get("batch_first") else x[0]
    for y, z in zip(layer(one), other(one)):
        torch.testing.assert_close(y, z, **CLOSE)
    weights = torch.randn_like(layer(x)[0])
    gradients = []
    for own in layer, other:
        own.zero_grad()
        x.grad = None
        outputs, last = own(x)
        ((outputs * weights).sum() + last.square().sum()).backward()
        gradients.append([x.grad, *(p.grad for name, p in own.named_parameters() if "weight_ih" in name)])
    for y, z in zip(*gradients):
        torch.testing.assert_close(y, z, **CLOSE)


def test_arguments_have_the_places_of_nn_rnn():
    arguments = 3, 4, 2, "relu", False, True, 0.0, True
    layer, other = ot.CwyRnn(*arguments), nn.RNN(*arguments)
    assert layer.activation == other.nonlinearity == "relu"
    for name in "num_layers", "bias", "batch_first", "bidirectional":
        assert getattr(layer, name) == getattr(other, name)
    assert not hasattr(layer, "bias_l0")
    with pytest.raises(TypeError, match="^bias: "):
        ot.CwyRnn(3, 4, 1, "relu", "zeros")


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("with_start", [True, False])
def test_packed_sequences(enforce_sorted, with_start):
    layer = make(num_layers=2, bidirectional=True)
    other = twin(layer)
    lengths = [5, 4, 2, 1] if enforce_sorted else [2, 5, 1, 4]
    x = pack_sequence([torch.randn(n, 3, dtype=torch.float64)
                      for n in lengths], enforce_sorted=enforce_sorted)
    h_0 = torch.randn(4, 4, 6, dtype=torch.float64) if with_start else None
    (y, last), (z, other_last) = layer(x, h_0), other(x, h_0)
    torch.testing.assert_close(y.data, z.data, **CLOSE)
    assert torch.equal(y.batch_sizes, z.batch_sizes)
    for a, b in (y.sorted_indices, z.sorted_indices), (y.unsorted_indices, z.unsorted_indices):
        assert (a is None and b is None) or torch.equal(a, b)
    torch.testing.assert_close(last, other_last, **CLOSE)
    assert pad_packed_sequence(y)[1].tolist() == lengths


@pytest.mark.parametrize("kind", LAYERS[:5])
def test_gradients_reach_the_parameter_of_q(kind):
    """Those of the layer are those of the formulas in torch operations."""
    layer = make(kind, activation="modrelu")
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    own = layer.layer_parameters()
    name = layer.transition_name
    q = reference.TRANSITIONS[layer.kind](own[name])
    torch.testing.assert_close(layer.transition_matrix(), q, **CLOSE)
    a = x @ own["weight_ih"].T + own["bias"]
    outputs, _ = reference.rollout(q, a, torch.zeros(2, 6, dtype=torch.float64), None, "modrelu",
                                   own["modrelu_bias"])
    weights = torch.randn_like(outputs)
    wanted = torch.autograd.grad((outputs * weights).sum(), list(own.values()))
    found = torch.autograd.grad((layer(x)[0] * weights).sum(), list(own.values()))
    for y, z in zip(found, wanted):
        torch.testing.assert_close(y, z, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", ["stiefel", "own", "matrix"])
def test_orthonormal_input_matrix_and_learned_initial_state(kind):
    layer = make(input_matrix=kind, learn_initial_state=True)
    own = layer.layer_parameters()
    made = {"stiefel": lambda: ot.stiefel(own["input_reflection_vectors"]),
            "own": lambda: ot.stiefel(own["input_proxy_matrix"], "own"),
            "matrix": lambda: own["input_stiefel_matrix"]}
    w = made[kind]()
    torch.testing.assert_close(w.T @ w, torch.eye(3, dtype=torch.float64), **CLOSE)
    assert torch.equal(layer.input_weights(), w)
    with torch.no_grad():
        own["initial_state"].normal_()
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    wanted = reference.rollout(layer.transition_matrix(), x @ w.T + own["bias"],
                               own["initial_state"].expand(2, -1), None, "tanh")
    torch.testing.assert_close(layer(x)[0], wanted[0], **CLOSE)
    layer(x)[0].sum().backward()
    assert layer.initial_state_l0.grad.abs().min() > 0


def test_parameters_start_as_in_the_library():
    torch.manual_seed(2)
    layer = ot.CwyRnn(400, 300)
    assert layer.weight_ih_l0.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert (layer.bias_l0 == 0).all()
    assert layer.modrelu_bias_l0.abs().max() < 0.01 and layer.modrelu_bias_l0.std() > 0.005
    # Rotations of pairs by any angle: 2 x 2 blocks on the diagonal, and zeros elsewhere.
    q = layer.transition_matrix()
    blocks = torch.block_diag(*[torch.ones(2, 2)] * 150)
    torch.testing.assert_close(q * (1 - blocks), torch.zeros(300, 300), rtol=0, atol=1e-5)
    angles = torch.atan2(q[1::2, ::2].diagonal(), q[::2, ::2].diagonal())
    assert angles.min() < -2.5 and angles.max() > 2.5
    # The default of Cayley has slow rotations only.
    assert ot.CayleyRnn(3, 300).transition_matrix().diagonal().min() > -1e-5


@pytest.mark.parametrize("init", ["henaff", "cayley", "haar", "normal"])
@pytest.mark.parametrize("kind", [ot.OwnRnn, ot.MatrixRnn, UnconstrainedRnn])
def test_a_matrix_starts_orthogonal(kind, init):
    layer = make(kind, 3, 40, init=init, dtype=torch.float32)
    q = layer.get_parameter(layer.transition_name + "_l0").double()
    # Each entry is rounded once.
    torch.testing.assert_close(q.T @ q, torch.eye(40, dtype=torch.float64), rtol=0, atol=1e-6)


def test_seed_of_torch_decides_the_parameters():
    states = []
    for seed in 3, 3, 4:
        torch.manual_seed(seed)
        states.append(ot.CwyRnn(2, 8, 2, init="haar").state_dict())
    assert all(torch.equal(x, states[1][name]) for name, x in states[0].items())
    assert not torch.equal(states[0]["reflection_vectors_l0"], states[2]["reflection_vectors_l0"])
    assert not torch.equal(states[0]["reflection_vectors_l0"], states[0]["reflection_vectors_l1"])


def test_few_reflections_and_moves():
    layer = ot.CwyRnn(3, 16, reflections=4)
    assert layer.reflection_vectors_l0.shape == (4, 16)
    layer.double()
    assert layer(torch.zeros(2, 1, 3, dtype=torch.float64))[0].dtype == torch.float64
    meta = ot.CwyRnn(3, 16, device="meta")
    assert meta(torch.zeros(2, 1, 3, device="meta"))[0].shape == (2, 1, 16)
    assert repr(layer) == "CwyRnn(3, 16, reflections=4)"


def test_dropout_is_between_layers_in_training_alone():
    layer = make(num_layers=2, dropout=1.0, bias=False)
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    assert (layer(x)[0] == 0).all()
    assert (layer.eval()(x)[0] != 0).all()


def test_whole_layer_compiles_as_one_graph():
    layer = make(num_layers=2, bidirectional=True, activation="modrelu")
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    results = []
    for own in layer, torch.compile(layer, fullgraph=True, backend="aot_eager"):
        outputs, last = own(x)
        results.append([outputs, last, *torch.autograd.grad(outputs.sum(), [x, *layer.parameters()])])
    for y, z in zip(*results):
        torch.testing.assert_close(y, z, **CLOSE)


def wrong_calls():
    layer = make()
    x = torch.zeros(4, 2, 3, dtype=torch.float64)
    yield "input", lambda: layer(torch.zeros(4, 2, 5, dtype=torch.float64))
    yield "input", lambda: layer(torch.zeros(4, dtype=torch.float64))
    yield "h_0", lambda: layer(x, torch.zeros(1, 3, 6, dtype=torch.float64))
    yield "h_0", lambda: layer(x[:, 0], torch.zeros(1, 1, 6, dtype=torch.float64))
    yield "hidden_size", lambda: ot.CwyRnn(3, 0)
    yield "reflections", lambda: ot.CwyRnn(3, 4, reflections=5)
    yield "reflections", lambda: ot.ExpRnn(3, 4, reflections=2)
    yield "negative_signs", lambda: ot.CwyRnn(3, 4, negative_signs=2)
    yield "activation", lambda: ot.CwyRnn(3, 4, activation="gelu")
    yield "init", lambda: ot.CwyRnn(3, 4, init="zeros")
    yield "input_matrix", lambda: ot.CwyRnn(5, 4, input_matrix="stiefel")
    yield "input_matrix", lambda: ot.CwyRnn(5, 4, input_matrix="own")
    yield "input_matrix", lambda: ot.CwyRnn(3, 4, input_matrix="orthogonal")
    yield "dropout", lambda: ot.CwyRnn(3, 4, dropout=2)


@pytest.mark.parametrize("number", range(14))
def test_wrong_arguments_are_named(number):
    name, call = list(wrong_calls())[number]
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
