"""Models between files, the program and PyTorch."""

import json

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils.parametrizations import spectral_norm, weight_norm  # noqa: E402
from torch.nn.utils.parametrize import register_parametrization  # noqa: E402

import orthornn  # noqa: E402
import orthornn.torch as ot  # noqa: E402

# Logits of a few dozen products of floats near 1, in another order.
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


def orthogonal(kind="cwy", size=8, **named):
    transitions = {"cwy": {"reflections": 5, "form": "factored"},
                   "householder": {"reflections": 0, "rank_one_updates": False},
                   "cayley": {"negative_signs": 2}}
    return {"kind": "orthogonal", "hidden_size": size,
            "transition": {"kind": kind, **transitions.get(kind, {}), "init": "haar"},
            "activation": "modrelu", "input_matrix": "free", "learn_initial_state": False, **named}


def deltaproduct(**named):
    return {"kind": "deltaproduct", "hidden_size": 8, "heads": 2, "key_size": 4, "value_size": 3,
            "householder": 2, "factor": "householder", "beta_limit": 2.0, "beta_offset": 0.0,
            "vector_activation": "silu", "state_decay": False, "learn_initial_state": False,
            "without_values": False, "convolution": 0,
            "readout_norm": "rms", "norm_epsilon": 1e-5, "output_gate": False, **named}


def options(cells, kind=None, answer="every_step"):
    return {"input": kind or {"kind": "dense", "size": 4}, "cells": cells,
            "readout": {"kind": answer, "outputs": 3}, "loss": "softmax_cross_entropy"}


MODELS = {
    **{kind: options([orthogonal(kind)]) for kind in ("cwy", "householder", "cayley", "expm",
                                                        "own", "matrix", "free")},
    "one_hot": options([orthogonal(), orthogonal("expm", activation="tanh")],
                       {"kind": "one_hot", "symbols": 4}),
    "embedding": options([orthogonal(input_matrix="stiefel")], {"kind": "embedding", "tokens": 4, "size": 5}),
    "own inputs": options([orthogonal(input_matrix="own")]),
    "matrix of inputs": options([orthogonal(input_matrix="matrix"), orthogonal("own", input_matrix="own")]),
    "last state": options([orthogonal(learn_initial_state=True)], answer="last_step"),
    "lstm": options([{"kind": "lstm", "hidden_size": 6}, {"kind": "gru", "hidden_size": 5}]),
    "last lstm": options([{"kind": "lstm", "hidden_size": 6}], answer="last_step"),
    "deltaproduct": options([deltaproduct(state_decay=True, convolution=3, output_gate=True)]),
    "rwkv7": options([deltaproduct(factor="rwkv7", state_decay=True, learn_initial_state=True)]),
    "blocks": options([
        {"kind": "linear", "outputs": 8}, {"kind": "positions", "steps": 9},
        {"kind": "residual", "layers": [{"kind": "rms_norm", "epsilon": 1e-5}, deltaproduct(),
                                        {"kind": "dropout", "rate": 0.5}]},
        {"kind": "residual", "layers": [{"kind": "gated_mlp", "mlp_size": 0}]}], answer="last_step"),
    "bidirectional": options([{"kind": "bidirectional",
                               "layers": [orthogonal("own"), orthogonal("cayley")]}]),
}


def save_model(of, path):
    """A file of a model with drawn parameters, which PyTorch does not make."""
    import ctypes

    from orthornn._library import library

    handle = ctypes.c_void_p()
    library().orthornn_model_create(json.dumps(of).encode(), 3, None, 0, ctypes.byref(handle))
    model = orthornn.Model(handle)
    generator = np.random.default_rng(4)
    for name, value in model.parameters.items():
        own = (value + 0.1 * generator.standard_normal(value.shape)).astype(np.float32)
        library().orthornn_model_set_parameter(handle, name.encode(), own.ctypes.data, own.size)
    model.save(path)


def inputs_of(of):
    torch.manual_seed(8)
    x = torch.randn(3, 6, 4) if of["input"]["kind"] == "dense" else torch.randint(4, (3, 6))
    return x, torch.tensor([6, 0, 4])


@pytest.mark.parametrize("name", MODELS)
def test_model_computes_and_returns_as_it_was(name, tmp_path):
    of = MODELS[name]
    save_model(of, tmp_path / "model.h5")
    model = orthornn.load(tmp_path / "model.h5")
    module = ot.to_torch(model).eval()
    x, lengths = inputs_of(of)
    for own in None, lengths:
        wanted = torch.tensor(model.predict(x.numpy(), None if own is None else own.numpy()))
        torch.testing.assert_close(module(x, own), wanted, **CLOSE)
    ot.from_torch(module).save(tmp_path / "again.h5")
    again = orthornn.load(tmp_path / "again.h5")
    assert again.options == model.options
    assert list(again.parameters) == list(model.parameters)
    for key, value in model.parameters.items():
        assert np.array_equal(again.parameters[key], value)


def own_modules():
    yield nn.Sequential(ot.CwyRnn(4, 8, 2, reflections=5, dropout=0.5), nn.Linear(8, 3)), {}
    yield nn.ModuleList([ot.ExpRnn(4, 8, 2, bias=False, bidirectional=True, activation="tanh"),
                         nn.Linear(16, 3, bias=False)]), {}
    yield nn.ModuleList([nn.LSTM(4, 5, 2, bidirectional=True), ot.DeltaProduct(10, 8), nn.Linear(8, 3)]), {}
    yield nn.ModuleList([nn.Embedding(4, 6), nn.GRU(6, 5), nn.Linear(5, 3)]), {"answer": "last_step"}
    yield (nn.ModuleList([ot.CayleyRnn(4, 8, negative_signs=3), nn.Linear(8, 3)]),
           {"input": "one_hot", "loss": "mean_squared_error"})
    yield nn.Sequential(ot.OwnRnn(4, 8, 2, dropout=0.5), ot.MatrixRnn(8, 8), nn.Linear(8, 3)), {}


def outputs_of(module, x, answer="every_step"):
    """What the children of a module make of vectors [B, T, K] or symbols [B, T]."""
    y = x.transpose(0, 1)
    for child in list(module.children())[:-1]:
        if isinstance(child, ot.DeltaProduct):
            y = child(y.transpose(0, 1))[0].transpose(0, 1)
        else:
            y = child(y)
            y = y[0] if isinstance(y, tuple) else y
    y = list(module.children())[-1](y)
    return y.transpose(0, 1) if answer == "every_step" else y[-1]


@pytest.mark.parametrize("number", range(6))
def test_module_of_a_users_own_is_a_model(number, tmp_path):
    torch.manual_seed(9)
    module, named = list(own_modules())[number]
    module.eval()
    symbols = torch.randint(4, (2, 6))
    dense = torch.randn(2, 6, 4)
    reads_symbols = isinstance(module[0], nn.Embedding) or named.get("input") == "one_hot"
    ot.from_torch(module, **named).save(tmp_path / "model.h5")
    model = orthornn.load(tmp_path / "model.h5")
    own = dense
    if isinstance(module[0], nn.Embedding):
        own = symbols
    elif reads_symbols:
        own = nn.functional.one_hot(symbols, 4).float()
    found = torch.tensor(model.predict((symbols if reads_symbols else dense).numpy()))
    torch.testing.assert_close(found, outputs_of(module, own, named.get("answer", "every_step")), **CLOSE)


@pytest.mark.parametrize("name", ["lstm", "delta", "cwy", "embedding"])
def test_parametrized_weights_are_what_they_are_now(name, tmp_path):
    torch.manual_seed(10)
    first = {"lstm": lambda: nn.LSTM(4, 8), "delta": lambda: ot.DeltaProduct(4, 8),
             "cwy": lambda: ot.CwyRnn(4, 8), "embedding": lambda: nn.GRU(4, 8)}[name]()
    weight = {"lstm": "weight_ih_l0", "delta": "output_weights", "cwy": "weight_ih_l0",
              "embedding": "weight_hh_l0"}[name]
    layers = [nn.Embedding(5, 4)] * (name == "embedding") + [first, nn.Linear(8, 8)]
    register_parametrization(first, weight, ot.TruncatedCwy())
    register_parametrization(layers[-1], "weight", ot.Cwy())
    if name == "embedding":
        weight_norm(layers[0])
    if name == "cwy":
        spectral_norm(first, "reflection_vectors_l0")
    module = nn.ModuleList(layers).eval()
    before = [own.clone() for own in module.state_dict().values()]
    model = ot.from_torch(module)
    x = torch.randint(5, (2, 6)) if name == "embedding" else torch.randn(2, 6, 4)
    torch.testing.assert_close(torch.tensor(model.predict(x.numpy())), outputs_of(module, x), **CLOSE)
    assert np.array_equal(model.parameters["readout/weight"], layers[-1].weight.detach().numpy())
    # The module is as it was.
    assert all(torch.equal(a, b) for a, b in zip(before, module.state_dict().values(), strict=True))


@pytest.mark.parametrize("layer", [lambda: nn.LSTM(4, 6, bias=False), lambda: ot.CwyRnn(4, 6, bias=False)])
def test_frozen_weights_that_are_buffers_are_taken(layer):
    layer = layer()
    wanted = ot.from_torch(nn.Sequential(layer, nn.Linear(6, 3))).parameters
    for name, value in list(layer.named_parameters()):
        delattr(layer, name)
        layer.register_buffer(name, value.detach())
    module = nn.Sequential(layer, nn.Linear(6, 3))
    found = ot.from_torch(module).parameters
    for name, value in wanted.items():
        if name.startswith("cell"):
            assert np.array_equal(found[name], value)


def test_frozen_weights_that_are_not_found_are_named():
    delta = ot.DeltaProduct(4, 8)
    weights = delta.output_weights.detach()
    del delta.output_weights
    delta.register_buffer("output_weights", weights)
    with pytest.raises(TypeError, match="cell/output_weights"):
        ot.from_torch(nn.Sequential(delta, nn.Linear(8, 3)))


def test_a_parametrized_module_of_a_model_goes_back(tmp_path):
    save_model(MODELS["lstm"], tmp_path / "model.h5")
    module = ot.to_torch(orthornn.load(tmp_path / "model.h5"))
    register_parametrization(module.readout, "weight", ot.TruncatedCwy())
    found = ot.from_torch(module).parameters["readout/weight"]
    assert np.array_equal(found, module.readout.weight.detach().numpy())


def test_a_module_can_be_trained_on(tmp_path):
    save_model(MODELS["cwy"], tmp_path / "model.h5")
    module = ot.to_torch(orthornn.load(tmp_path / "model.h5"))
    x, lengths = inputs_of(MODELS["cwy"])
    optimizer = torch.optim.SGD(module.parameters(), 1e-3)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = module(x, lengths).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    ot.from_torch(module).save(tmp_path / "trained.h5")
    found = orthornn.load(tmp_path / "trained.h5").predict(x.numpy(), lengths.numpy())
    torch.testing.assert_close(torch.tensor(found), module(x, lengths).detach(), **CLOSE)


@pytest.mark.parametrize("name, error", [("one_hot", RuntimeError), ("embedding", IndexError)])
def test_symbols_that_a_model_does_not_know(name, error):
    module = ot.SequenceModel(MODELS[name])
    for symbol in -1, 4:
        with pytest.raises(error):
            module(torch.tensor([[0, symbol]]))
    with pytest.raises(ValueError, match="^x: "):
        module(torch.tensor([0, 1]))


@pytest.mark.parametrize("kind", ["orthogonal_linear", "orthogonal_conv"])
def test_orthogonal_maps_have_no_module(kind):
    options = {"input": {"kind": "dense", "size": 64}, "cells": [{"kind": kind}],
               "readout": {"kind": "every_step", "outputs": 3}, "loss": "mean_squared_error"}
    with pytest.raises(ValueError, match=f"found '{kind}'"):
        ot.SequenceModel(options)


def test_models_of_frames_have_no_module():
    options = {"input": {"kind": "dense", "size": 64},
               "cells": [{"kind": "convneru", "hidden_size": 2, "height": 8, "width": 8}],
               "readout": {"kind": "every_pixel", "outputs": 64}, "loss": "absolute_and_squared_error"}
    with pytest.raises(ValueError, match="every_pixel, which has no module"):
        ot.SequenceModel(options)
    with pytest.raises(ValueError, match="found 'convneru'"):
        ot.SequenceModel(options | {"readout": {"kind": "every_step", "outputs": 64}})


def test_modules_that_are_no_model_are_refused():
    for module, error, message in [
            (nn.Sequential(nn.Linear(4, 3)), TypeError, "module"),
            (nn.Sequential(nn.Conv1d(4, 3, 2), nn.Linear(3, 3)), TypeError, "DeltaProduct.*Conv1d.*no other"),
            (nn.Sequential(nn.Linear(3, 3), nn.GRU(3, 3)), TypeError, "Linear, GRU; the order"),
            ("model.h5", TypeError, "torch.nn.Module, found str"),
            (nn.Sequential(ot.CwyRnn(4, 8), nn.Linear(8, 3)).double(), TypeError, "float32")]:
        with pytest.raises(error, match=message):
            ot.from_torch(module)
    with pytest.raises(TypeError, match="orthornn.Model, as orthornn.load returns it, found str"):
        ot.to_torch("model.h5")
    with pytest.raises(ValueError, match="input"):
        ot.from_torch(nn.Sequential(ot.CwyRnn(4, 8), nn.Linear(8, 3)), input="text")
