"""Operations for PyTorch: values, gradients, torch's own checks of operations, compilation, autocast,
errors."""

import pytest

torch = pytest.importorskip("torch")

import torch._dynamo  # noqa: E402

import orthornn.torch as ot  # noqa: E402
import torch_references as reference  # noqa: E402
from orthornn import _abi  # noqa: E402
from orthornn.torch import _calls  # noqa: E402
from orthornn.torch import _recurrence as recurrence_module  # noqa: E402
from orthornn.torch import _rollout as rollout_module  # noqa: E402

OPERATIONS = torch.ops.orthornn
# Sums of a few hundred products of numbers near 1.
CLOSE = {"rtol": 1e-10, "atol": 1e-11}


def normal(*shape, seed=0, grad=False, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed + 31 * sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(grad)


def unit(*shape, seed=0):
    return torch.nn.functional.normalize(normal(*shape, seed=seed), dim=-1)


def parameter(kind, size=5, reflections=3, **named):
    return normal(*((reflections, size) if kind in ("cwy", "householder") else (size, size)), **named)


def rollout_inputs(activation, steps=4, batch=3, size=5, grad=False):
    q = reference.product_of_reflections(normal(3, size)).requires_grad_(grad)
    bias = normal(size, seed=4).mul_(0.1).requires_grad_(grad) if activation == "modrelu" else None
    return q, normal(steps, batch, size, seed=1, grad=grad), normal(batch, size, seed=2, grad=grad), bias


def recurrence_inputs(activation, has_bias=True, steps=4, batch=3, size=5, inputs=2, grad=False):
    """Arguments of a recurrence by name, without lengths."""
    q, _, h_0, modrelu_bias = rollout_inputs(activation, steps, batch, size, grad)
    return {"q": q, "weight": normal(size, inputs, seed=6, grad=grad),
            "bias": normal(size, seed=7, grad=grad) if has_bias else None,
            "input": normal(steps, batch, inputs, seed=8, grad=grad), "h_0": h_0,
            "modrelu_bias": modrelu_bias}


def recurrence_of(names, **named):
    """The operation as a function of the tensors of these names."""
    usual = {"bias": None, "lengths": None, "modrelu_bias": None}
    return lambda *x: recurrence_module.recurrence(**{**usual, **named, **dict(zip(names, x))})


def delta_inputs(places, decay="head", removals=False, factors=2,
                 heads=2, key=3, value=4, batch=2, grad=False):
    """Arguments of a delta product by name; places are [B, T] or [R]."""
    tensors = {"queries": unit(*places, heads, key, seed=1),
               "keys": unit(*places, factors, heads, key, seed=2),
               "values": normal(*places, factors, heads, value, seed=3),
               "betas": 2 * torch.sigmoid(normal(*places, factors, heads, seed=4)),
               "log_decays": None, "removals": None,
               "initial_states": normal(batch, heads, key, value, seed=6)}
    if decay is not None:
        shape = (*places, heads, key) if decay == "row" else (*places, heads)
        tensors["log_decays"] = -torch.sigmoid(normal(*shape, seed=5))
    if removals:
        tensors["removals"] = torch.sigmoid(normal(*places, factors, heads, key, seed=7))
    return {name: None if x is None else x.requires_grad_(grad) for name, x in tensors.items()}


DELTA_CASES = [(None, False, "chunked"), ("head", False, "chunked"), ("head", False, "recurrent"),
               ("row", True, "recurrent")]


def delta_reference(inputs, sequences, scale=1.0):
    """Outputs by sequence and final states; sequences are pairs of a place of tokens and a number of
    state."""
    results = []
    for place, b in sequences:
        own = {name: None if x is None else x[b] if name == "initial_states" else x[place]
               for name, x in inputs.items()}
        results.append(reference.delta_product(**own, scale=scale))
    return results


# Values

@pytest.mark.parametrize("kind", list(reference.TRANSITIONS))
def test_transition_is_its_formula(kind):
    x = parameter(kind)
    torch.testing.assert_close(ot.transition(kind, x), reference.TRANSITIONS[kind](x), **CLOSE)


def test_negative_signs_of_cayley():
    x = parameter("cayley")
    torch.testing.assert_close(ot.transition("cayley", x, negative_signs=2), reference.cayley(x, 2), **CLOSE)


def test_stiefel_is_the_first_columns_of_cwy():
    v = normal(3, 7)
    torch.testing.assert_close(ot.stiefel(v), reference.product_of_reflections(v)[:, :3], **CLOSE)


def test_stiefel_of_own_is_the_polar_factor():
    v = normal(7, 3)
    u, _, vh = torch.linalg.svd(v, full_matrices=False)
    torch.testing.assert_close(ot.stiefel(v, "own"), u @ vh, **CLOSE)


@pytest.mark.parametrize("activation", ["tanh", "relu", "abs", "modrelu", "identity"])
@pytest.mark.parametrize("lengths", [None, [4, 0, 2]])
def test_rollout_is_the_recurrence(activation, lengths):
    q, a, h_0, bias = rollout_inputs(activation, grad=True)
    lengths = None if lengths is None else torch.tensor(lengths)
    mine = ot.rollout(q, a, h_0, lengths, activation, bias)
    theirs = reference.rollout(q, a, h_0, lengths, activation, bias)
    wanted = [x for x in (q, a, h_0, bias) if x is not None]
    weights = [normal(4, 3, 5, seed=8), normal(3, 5, seed=9)]
    for x, y in zip(mine, theirs):
        torch.testing.assert_close(x, y, **CLOSE)
    gradients = [torch.autograd.grad(sum((w * y).sum() for w, y in zip(weights, results)), wanted)
                 for results in (mine, theirs)]
    for x, y in zip(*gradients):
        torch.testing.assert_close(x, y, **CLOSE)


@pytest.mark.parametrize("activation", ["tanh", "relu", "abs", "modrelu", "identity"])
@pytest.mark.parametrize("has_bias, lengths", [(True, None), (False, [4, 0, 2])])
def test_recurrence_is_the_rollout_of_a_map(activation, has_bias, lengths):
    tensors = {name: x for name, x in recurrence_inputs(activation, has_bias, grad=True).items()
               if x is not None}
    lengths = None if lengths is None else torch.tensor(lengths)
    mine = recurrence_of(tensors, activation=activation, lengths=lengths)(*tensors.values())
    inputs = torch.nn.functional.linear(tensors["input"], tensors["weight"], tensors.get("bias"))
    theirs = reference.rollout(tensors["q"], inputs, tensors["h_0"], lengths, activation,
                               tensors.get("modrelu_bias"))
    weights = [normal(4, 3, 5, seed=8), normal(3, 5, seed=9)]
    for x, y in zip(mine, theirs):
        torch.testing.assert_close(x, y, **CLOSE)
    for x, y in zip(*(torch.autograd.grad(sum((w * y).sum() for w, y in zip(weights, results)),
                                          list(tensors.values())) for results in (mine, theirs))):
        torch.testing.assert_close(x, y, **CLOSE)


def test_recurrence_from_no_state_starts_from_zeros():
    named = recurrence_inputs("modrelu", grad=True)
    zeros = {**named, "h_0": torch.zeros_like(named["h_0"])}
    del named["h_0"]
    results = [recurrence_of(x, activation="modrelu", **more)(*x.values())
               for x, more in ((named, {"h_0": None}), (zeros, {}))]
    for x, y in zip(*results):
        assert torch.equal(x, y)
    for x, y in zip(*(torch.autograd.grad((a * normal(4, 3, 5)).sum() + b.sum(), list(named.values()))
                      for a, b in results)):
        torch.testing.assert_close(x, y, **CLOSE)


@pytest.mark.parametrize("decay, removals, form", DELTA_CASES)
def test_delta_product_is_the_recurrence(decay, removals, form):
    inputs = delta_inputs((2, 5), decay, removals)
    outputs, states = ot.delta_product(**inputs, form=form, scale=0.5, lengths=torch.tensor([5, 3]))
    places = [((0, slice(0, 5)), 0), ((1, slice(0, 3)), 1)]
    for (place, b), (o, s) in zip(places, delta_reference(inputs, places, 0.5)):
        torch.testing.assert_close(outputs[place], o, **CLOSE)
        torch.testing.assert_close(states[b], s, **CLOSE)
    assert (outputs[1, 3:] == 0).all()


def test_delta_product_of_packed_rows_is_that_of_each_sequence():
    inputs = delta_inputs((9,), batch=3)
    outputs, states = ot.delta_product(**inputs, cu_seqlens=torch.tensor([0, 4, 4, 9]))
    places = [(slice(0, 4), 0), (slice(4, 4), 1), (slice(4, 9), 2)]
    for (place, b), (o, s) in zip(places, delta_reference(inputs, places)):
        torch.testing.assert_close(outputs[place], o, **CLOSE)
        torch.testing.assert_close(states[b], s, **CLOSE)


@pytest.mark.parametrize("steps, form", [(1, "recurrent"), (15, "recurrent"), (16, "chunked")])
def test_delta_product_takes_the_form_of_the_layer(steps, form):
    inputs = delta_inputs((2, steps))  # two factors a step, and 32 a chunk
    bits = {own: ot.delta_product(**inputs, form=own)[0] for own in (None, "recurrent", "chunked")}
    assert torch.equal(bits[None], bits[form])
    assert steps == 1 or not torch.equal(bits["recurrent"], bits["chunked"])


@pytest.mark.parametrize("decay, removals, form", DELTA_CASES)
def test_delta_product_step_goes_on_like_the_whole_sequence(decay, removals, form):
    inputs = delta_inputs((2, 4), decay, removals)
    outputs, last = ot.delta_product(**inputs, form=form, scale=0.5)
    states = inputs.pop("initial_states").clone()
    for t in range(4):
        step = {name: None if x is None else x[:, t] for name, x in inputs.items()}
        torch.testing.assert_close(ot.delta_product_step(
            **step, states=states, scale=0.5), outputs[:, t], **CLOSE)
    torch.testing.assert_close(states, last, **CLOSE)


@pytest.mark.parametrize("contiguous", [True, False])
def test_gradients_notice_that_a_step_overwrote_the_states(contiguous):
    inputs = delta_inputs((2,))
    states = inputs.pop("initial_states")
    states = states if contiguous else states.transpose(0, 1).contiguous().transpose(0, 1)
    loss = (states * normal(1, grad=True)).sum()
    ot.delta_product_step(**inputs, states=states)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_step_in_inference_mode():
    with torch.inference_mode():
        inputs = delta_inputs((2,))
        states = inputs.pop("initial_states")
        before = states.clone()
        ot.delta_product_step(**inputs, states=states)
        assert not torch.equal(states, before)


def test_rank_one_chain_is_its_product():
    left, right = normal(2, 6, 2, 3, seed=1), normal(2, 6, 2, 3, seed=2)
    scales = torch.sigmoid(normal(2, 6, 2, seed=3)), torch.sigmoid(normal(2, 6, 2, seed=4))
    s = normal(2, 2, 3, 4, seed=5)
    outputs, last = ot.rank_one_chain(left, right, s, left_scales=scales[0], right_scales=scales[1])
    for b in range(2):
        scaled = left[b] * scales[0][b, ..., None], right[b] * scales[1][b, ..., None]
        o, final = reference.rank_one_chain(*scaled, s[b])
        torch.testing.assert_close(outputs[b], o, **CLOSE)
        torch.testing.assert_close(last[b], final, **CLOSE)


def test_unit_keys_are_keys_divided_by_their_norms():
    inputs = delta_inputs((1, 4), batch=1)
    long = {**inputs, "keys": 3 * inputs["keys"]}
    torch.testing.assert_close(ot.delta_product(**long, unit_keys=True), ot.delta_product(**inputs), **CLOSE)


def test_tensors_that_are_not_contiguous_and_empty_ones():
    q, a, h_0, bias = rollout_inputs("modrelu")
    wanted = ot.rollout(q, a, h_0, None, "modrelu", bias)
    strided = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (q, a, h_0)]
    assert not any(x.is_contiguous() for x in strided)
    for x, y in zip(ot.rollout(*strided, None, "modrelu", torch.stack([bias, bias], 1)[:, 0]), wanted):
        assert torch.equal(x, y)
    a = torch.zeros(0, 3, 5, dtype=torch.float64, requires_grad=True)
    outputs, last = ot.rollout(q, a, h_0, None, "tanh")
    assert outputs.shape == (0, 3, 5) and torch.equal(last, h_0)
    outputs.sum().backward()
    inputs = delta_inputs((2, 0), grad=True)
    outputs, states = ot.delta_product(**inputs)
    assert outputs.shape == (2, 0, 2, 4) and torch.equal(states, inputs["initial_states"])
    inputs = delta_inputs((0, 3), batch=0)
    assert ot.delta_product(**inputs)[0].shape == (0, 3, 2, 4)


# Gradients

@pytest.mark.parametrize("kind", list(reference.TRANSITIONS))
def test_gradient_of_transition(kind):
    assert torch.autograd.gradcheck(lambda x: ot.transition(kind, x), parameter(kind, grad=True))


@pytest.mark.parametrize("kind, shape", [("stiefel", (3, 6)), ("own", (6, 3)), ("own", (4, 4))])
def test_gradient_of_stiefel(kind, shape):
    assert torch.autograd.gradcheck(lambda v: ot.stiefel(v, kind), normal(*shape, grad=True))


@pytest.mark.parametrize("activation", ["tanh", "relu", "abs", "modrelu", "identity"])
def test_gradient_of_rollout(activation):
    *tensors, bias = rollout_inputs(activation, grad=True)
    lengths = torch.tensor([4, 0, 2], dtype=torch.int32)
    if bias is None:
        assert torch.autograd.gradcheck(lambda *x: ot.rollout(*x, lengths, activation), tensors)
    else:
        assert torch.autograd.gradcheck(
            lambda *x: ot.rollout(*x[:3], lengths, activation, x[3]), [*tensors, bias])


@pytest.mark.parametrize("frozen, place", [("q", 0), ("input", 3)])
def test_recurrence_forms_no_gradient_that_is_not_wanted(frozen, place, monkeypatch):
    tensors = recurrence_inputs("modrelu", grad=True)
    tensors[frozen].requires_grad_(False)
    results = []
    backward = recurrence_module.BACKWARD
    monkeypatch.setattr(recurrence_module, "BACKWARD",
                        lambda *x: results.append(backward(*x)) or results[-1])
    recurrence_of(tensors, activation="modrelu")(*tensors.values())[0].sum().backward()
    assert results[0][place] is None and tensors[frozen].grad is None
    assert sum(x.grad is not None for x in tensors.values()) == 5


@pytest.mark.parametrize("frozen", [0, 3])
def test_rollout_forms_no_gradient_that_is_not_wanted(frozen, monkeypatch):
    tensors = rollout_inputs("modrelu", grad=True)
    tensors[frozen].requires_grad_(False)
    wanted = [x for x in tensors if x.requires_grad]
    results = []
    backward = rollout_module.BACKWARD
    monkeypatch.setattr(rollout_module, "BACKWARD", lambda *x: results.append(backward(*x)) or results[-1])
    found = torch.autograd.grad(ot.rollout(*tensors[:3], None, "modrelu", tensors[3])[0].sum(), wanted)
    assert results[0][2 if frozen == 0 else 3] is None
    theirs = reference.rollout(*tensors[:3], None, "modrelu", tensors[3])[0].sum()
    for x, y in zip(found, torch.autograd.grad(theirs, wanted)):
        torch.testing.assert_close(x, y, **CLOSE)


@pytest.mark.parametrize("decay, removals, form", DELTA_CASES)
@pytest.mark.parametrize("packed", [False, True])
def test_gradient_of_delta_product(decay, removals, form, packed):
    inputs = delta_inputs((5,) if packed else (2, 3), decay, removals, grad=True)
    names = [name for name, x in inputs.items() if x is not None]
    places = ({"cu_seqlens": torch.tensor([0, 2, 5])} if packed
              else {"lengths": torch.tensor([3, 1], dtype=torch.int32)})
    assert torch.autograd.gradcheck(
        lambda *x: ot.delta_product(**{**inputs, **dict(zip(names, x))}, **places, form=form, scale=0.7),
        [inputs[name] for name in names])


def test_gradient_of_rank_one_chain():
    tensors = [normal(2, 3, 2, 3, seed=1, grad=True), normal(2, 3, 2, 3, seed=2, grad=True),
               normal(2, 2, 3, 2, seed=5, grad=True), normal(2, 3, 2, seed=3, grad=True),
               normal(2, 3, 2, seed=4, grad=True)]
    assert torch.autograd.gradcheck(
        lambda a, b, s, x, y: ot.rank_one_chain(a, b, s, left_scales=x, right_scales=y), tensors)


def test_second_derivatives_are_refused():
    x = parameter("cwy", grad=True)
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(ot.transition("cwy", x).sum(), x, create_graph=True)


# What torch asks of operations

def operation_calls():
    """A call of each operation: its name and arguments."""
    for kind in "cwy", "cayley":
        yield OPERATIONS.transition, (parameter(kind, grad=True), kind, 0)
        yield OPERATIONS.transition_backward, (parameter(kind), normal(5, 5), kind, 0)
    for kind, shape in ("stiefel", (3, 6)), ("own", (6, 3)):
        yield OPERATIONS.stiefel, (normal(*shape, grad=True), kind)
        yield OPERATIONS.stiefel_backward, (normal(*shape), normal(6, 3), kind)
    lengths = torch.tensor([4, 0, 2], dtype=torch.int32)
    for activation in "tanh", "abs", "modrelu":
        q, a, h_0, bias = rollout_inputs(activation, grad=True)
        yield OPERATIONS.rollout, (q, a, h_0, lengths, activation, bias)
        with torch.no_grad():
            outputs, _, signs = OPERATIONS.rollout(q, a, h_0, lengths, activation, bias)
            yield OPERATIONS.rollout_backward, (q.detach(), lengths, h_0.detach(), outputs, signs,
                                                normal(5, 3, 5), normal(3, 5), activation,
                                                activation != "abs", activation == "modrelu")
        for has_bias in True, False:
            named = recurrence_inputs(activation, has_bias, grad=True)
            x = (*(named[name] for name in ("q", "weight", "bias", "input", "h_0")), lengths)
            yield OPERATIONS.recurrence, (*x, activation, named["modrelu_bias"])
            with torch.no_grad():
                outputs, _, signs = OPERATIONS.recurrence(*x, activation, named["modrelu_bias"])
                yield OPERATIONS.recurrence_backward, (
                    *(y if y is None else y.detach() for y in x), outputs, signs, normal(4, 3, 5),
                    normal(3, 5), activation, bias if bias is None else bias.detach(), activation != "abs",
                    has_bias)
    for decay, removals, form in DELTA_CASES:
        inputs = delta_inputs((2, 3), decay, removals, grad=True)
        tail = (torch.tensor([3, 1]), None, form, 1.0, False)
        yield OPERATIONS.delta_product, (*inputs.values(), *tail, True)
        plain = [None if x is None else x.detach() for x in inputs.values()]
        yield OPERATIONS.delta_product, (*plain, *tail, False)
        _, _, saved = OPERATIONS.delta_product(*plain, *tail, True)
        yield OPERATIONS.delta_product_backward, (*plain[:6], *tail[:2], saved, normal(2, 3, 2, 4),
                                                  normal(2, 2, 3, 4), *tail[2:], True)
        step = [None if x is None else x[:, 0].contiguous() for x in plain[:6]]
        yield OPERATIONS.delta_product_step, (*step, plain[6], 1.0, False)
    packed = delta_inputs((5,), grad=True)
    yield OPERATIONS.delta_product, (*packed.values(), None, torch.tensor([0, 2, 5]), "chunked", 1.0, False,
                                     True)
    chain = (normal(2, 3, 2, 3, seed=1), normal(2, 3, 2, 3, seed=2), normal(2, 2, 3, 2), None,
             normal(2, 3, 2), None, None)
    leaves = [None if x is None else x.clone().requires_grad_() for x in chain]
    yield OPERATIONS.rank_one_chain, (*leaves, True)
    saved = OPERATIONS.rank_one_chain(*chain, True)[2]
    yield OPERATIONS.rank_one_chain_backward, (*chain, saved, normal(2, 3, 2, 2), normal(2, 2, 3, 2))


@pytest.mark.parametrize("number", range(45))
def test_operation_passes_opcheck(number):
    calls = list(operation_calls())
    assert len(calls) == 45
    operation, arguments = calls[number]
    # What a forward keeps has gaps that nothing writes. In this mode torch fills new memory.
    torch.use_deterministic_algorithms(True)
    try:
        torch.library.opcheck(operation, arguments)
    finally:
        torch.use_deterministic_algorithms(False)


def compiled(function, *tensors):
    """Results and gradients of a function, eager and compiled as one graph."""
    results = []
    for own in function, torch.compile(function, fullgraph=True, backend="aot_eager"):
        leaves = [x.detach().clone().requires_grad_() for x in tensors]
        outputs = own(*leaves)
        loss = sum((x * x).sum() for x in outputs)
        results.append([*outputs, *torch.autograd.grad(loss, leaves)])
    return zip(*results)


def test_compiled_as_one_graph():
    def recurrence(v, w, x, h_0, bias):
        return ot.rollout(ot.transition("cwy", v), x @ ot.stiefel(w).T, h_0, None, "modrelu", bias)

    tensors = normal(5, 5), normal(2, 5), normal(6, 3, 2), normal(3, 5), normal(5) * 0.1
    for x, y in compiled(recurrence, *tensors):
        torch.testing.assert_close(x, y, **CLOSE)


@pytest.mark.parametrize("lengths", [None, [3, 1]])
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)  # as docs/python.md says of torch 2.6
def test_delta_product_compiled_as_one_graph(lengths):
    inputs = delta_inputs((2, 3))
    names = [name for name, x in inputs.items() if x is not None]
    lengths = None if lengths is None else torch.tensor(lengths)
    for x, y in compiled(lambda *x: ot.delta_product(**dict(zip(names, x)), lengths=lengths),
                         *(inputs[name] for name in names)):
        torch.testing.assert_close(x, y, **CLOSE)


def test_rank_one_chain_and_step_compiled_as_one_graph():
    chain = normal(2, 3, 2, 3, seed=1), normal(2, 3, 2, 3, seed=2), normal(2, 2, 3, 2)
    for x, y in compiled(ot.rank_one_chain, *chain):
        torch.testing.assert_close(x, y, **CLOSE)
    inputs = delta_inputs((2,))
    states = inputs.pop("initial_states")

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(states):
        return ot.delta_product_step(**inputs, states=states) + 1

    eager, own = states.clone(), states.clone()
    torch.testing.assert_close(step(own), ot.delta_product_step(**inputs, states=eager) + 1)
    assert torch.equal(eager, own)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_goes_one_by_one():
    v = normal(2, 3, 5)
    found = torch.func.vmap(lambda own: ot.transition("cwy", own))(v)
    assert torch.equal(found, torch.stack([ot.transition("cwy", own) for own in v]))


def test_autocast_keeps_full_precision():
    q, a, h_0, bias = (x.float() for x in rollout_inputs("modrelu"))
    wanted, _ = ot.rollout(q, a, h_0, None, "modrelu", bias)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = a.bfloat16().requires_grad_()
        outputs, _ = ot.rollout(q, rounded, h_0, None, "modrelu", bias)
    assert outputs.dtype == torch.float32
    torch.testing.assert_close(outputs, wanted, rtol=0.05, atol=0.05)
    outputs.sum().backward()
    assert rounded.grad.dtype == torch.bfloat16
    inputs = {name: None if x is None else x.bfloat16() for name, x in delta_inputs((2, 3)).items()}
    with torch.autocast("cpu", torch.bfloat16):
        assert ot.delta_product(**inputs)[0].dtype == torch.float32


def test_autocast_of_a_step_casts_all_but_the_states():
    rounded = {name: None if x is None else x.bfloat16() for name, x in delta_inputs((2,)).items()}
    wide = {name: None if x is None else x.float() for name, x in rounded.items()}
    states, wanted_states = rounded.pop("initial_states").float(), wide.pop("initial_states")
    wanted = ot.delta_product_step(**wide, states=wanted_states)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = ot.delta_product_step(**rounded, states=states)
    assert torch.equal(outputs, wanted) and torch.equal(states, wanted_states)


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch before 2.9")
def test_tf32_is_that_of_torch():
    matmul = torch.backends.cuda.matmul
    tensor = torch.empty(1, device="meta")
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        assert _calls.precision_of(tensor) == _abi.PRECISION_TF32
        assert _calls.precision_of(torch.empty(1)) == _abi.PRECISION_FP32
        matmul.fp32_precision = "ieee"
        assert _calls.precision_of(tensor) == _abi.PRECISION_FP32
    finally:
        matmul.fp32_precision = before


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_derivatives_of_torch_func_are_refused(transform):
    """As those of every operation of torch.library; docs/python.md says so."""
    with pytest.raises(RuntimeError, match="functorch transforms"):
        transform(lambda v: ot.transition("cwy", v).sum())(normal(3, 5))


# Errors

def wrong_calls():
    q, a, h_0, bias = rollout_inputs("modrelu")

    def roll(**changed):
        return lambda: ot.rollout(**{"q": q, "inputs": a, "h_0": h_0, "modrelu_bias": bias, **changed})

    inputs = delta_inputs((2, 3))

    def product(**changed):
        return lambda: ot.delta_product(**{**inputs, **changed})

    left, s = normal(2, 3, 2, 3), normal(2, 2, 3, 4)
    yield "^parameters: ", ValueError, lambda: ot.transition("cwy", normal(6, 5))
    yield "^parameters: ", ValueError, lambda: ot.transition("expm", normal(4, 5))
    yield "^parameters: ", TypeError, lambda: ot.transition("cwy", normal(3, 5).half())
    yield "^kind: ", ValueError, lambda: ot.transition("fast", normal(3, 5))
    yield "^negative_signs: ", ValueError, lambda: ot.transition("cayley", normal(5, 5), negative_signs=6)
    holed = torch.diag(torch.tensor([1.0, 0, 1]))
    yield "^parameters: .*vector 1", ValueError, lambda: ot.transition("cwy", holed)
    yield "^parameters: .*independent", ValueError, lambda: ot.transition("own", torch.ones(3, 3))
    yield r"^parameters: .*\[M, N\]", ValueError, lambda: ot.stiefel(normal(6, 5))
    yield "^parameters: .*vector 1", ValueError, lambda: ot.stiefel(holed)
    yield r"^parameters: .*\[N, M\]", ValueError, lambda: ot.stiefel(normal(5, 6), "own")
    yield "^parameters: .*independent", ValueError, lambda: ot.stiefel(torch.ones(5, 2), "own")
    yield "^kind: ", ValueError, lambda: ot.stiefel(normal(5, 5), "matrix")
    yield "^q: ", ValueError, roll(q=q[:, :4])
    yield "^q: ", TypeError, roll(q=q.half())
    yield "^inputs: ", ValueError, roll(inputs=a[..., :4])
    yield "^inputs: ", TypeError, roll(inputs=a.float())
    yield "^inputs: ", ValueError, roll(inputs=a.to("meta"))
    yield "^h_0: ", ValueError, roll(h_0=h_0[:2])
    yield "^lengths: ", ValueError, roll(lengths=torch.tensor([1, 2]))
    yield "^lengths: ", TypeError, roll(lengths=torch.tensor([1.0, 2, 3]))
    yield "lengths\\[2\\] is 5", ValueError, roll(lengths=torch.tensor([1, 2, 5]))
    yield "^lengths: ", ValueError, roll(lengths=torch.tensor([2 ** 32 + 1, 2, 3]))
    yield "^lengths: ", ValueError, product(lengths=torch.tensor([2 ** 32 + 1, 3]))
    yield "^activation: ", ValueError, roll(activation="sine")
    yield "^modrelu_bias: ", ValueError, roll(modrelu_bias=None)
    yield "^modrelu_bias: ", ValueError, roll(modrelu_bias=bias[:4])
    yield "^queries: ", ValueError, product(queries=inputs["queries"][0])
    yield "^keys: ", ValueError, product(keys=inputs["keys"][..., :2])
    yield "^values: ", TypeError, product(values=inputs["values"].float())
    yield "^betas: ", ValueError, product(betas=inputs["betas"][:, :2])
    yield "^log_decays: ", ValueError, product(log_decays=inputs["log_decays"][..., :1])
    yield "^initial_states: ", ValueError, product(initial_states=inputs["initial_states"][:1])
    yield "^form: ", ValueError, product(form="quick")
    yield "^form: ", ValueError, product(removals=inputs["keys"], form="chunked")
    yield "^cu_seqlens: ", ValueError, lambda: ot.delta_product(**delta_inputs((5,)),
                                                             cu_seqlens=torch.tensor([0, 2, 6]))
    step = delta_inputs((2,), grad=True)
    states = step.pop("initial_states")
    yield "has no gradient", ValueError, lambda: ot.delta_product_step(**step, states=states)
    yield "^right: ", ValueError, lambda: ot.rank_one_chain(left, left[:, :2], s)
    yield "^left_scales: ", ValueError, lambda: ot.rank_one_chain(left, left, s, left_scales=left)


@pytest.mark.parametrize("number", range(38))
def test_wrong_arguments_are_named(number):
    calls = list(wrong_calls())
    assert len(calls) == 38
    message, error, call = calls[number]
    with pytest.raises(error, match=message):
        call()
