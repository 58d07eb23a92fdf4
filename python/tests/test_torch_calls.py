"""Calls of operations without torch's dispatcher: where they are made, and that they are the same calls. What
is kept of calls."""

import contextlib

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.autograd.profiler import profile  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import orthornn.torch as ot  # noqa: E402
from orthornn.torch import _calls, _direct  # noqa: E402
from test_torch_operations import (delta_inputs, normal, parameter, recurrence_inputs, recurrence_of,
                                   rollout_inputs, wrong_calls)  # noqa: E402

OPERATIONS = torch.ops.orthornn


class PassOn(TorchDispatchMode):
    """A mode that changes nothing, so that operations go to the dispatcher."""

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        return function(*arguments, **(named or {}))


class PassOnFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), named=None):
        return function(*arguments, **(named or {}))


def dispatched(function):
    """Names of the operations of orthornn that the dispatcher called."""
    with profile() as events:
        function()
    return {event.name for event in events.function_events if event.name.startswith("orthornn::")}


def product(names, **named):
    return lambda *x: ot.delta_product(**dict(zip(names, x)), **named)


def functions():
    """Functions of tensors, one for each operation and for arguments that it may lack: by name, the function
    and its tensors."""
    yield "transition", lambda x: (ot.transition("cayley", x, negative_signs=2),), [parameter("cayley")]
    yield "stiefel", lambda x: (ot.stiefel(x),), [normal(3, 6)]
    yield "stiefel of own", lambda x: (ot.stiefel(x, "own"),), [normal(6, 3)]
    *tensors, bias = rollout_inputs("modrelu")
    yield "rollout", lambda *x: ot.rollout(*x, None, "abs"), tensors
    lengths = torch.tensor([4, 0, 2], dtype=torch.int32)
    yield ("rollout with lengths", lambda *x: ot.rollout(*x[:3], lengths, "modrelu", x[3]),
           [*tensors, bias])
    named = recurrence_inputs("modrelu")
    yield "recurrence", recurrence_of(named, activation="modrelu"), list(named.values())
    for decay, removals, named in ((None, False, {}), ("row", True, {"lengths": torch.tensor([3, 1])})):
        inputs = {name: x for name, x in delta_inputs((2, 3), decay, removals).items() if x is not None}
        yield f"delta_product with {list(named)}", product(inputs, **named), list(inputs.values())
    yield ("rank_one_chain", lambda a, b, s: ot.rank_one_chain(a, b, s),
           [normal(2, 3, 2, 3, seed=1), normal(2, 3, 2, 3, seed=2), normal(2, 2, 3, 2)])


FUNCTIONS = {name: (function, tensors) for name, function, tensors in functions()}


def results_of(name, as_parameters=False):
    """Outputs and gradients of one of the functions."""
    function, tensors = FUNCTIONS[name]
    leaves = [x.clone().requires_grad_() for x in tensors]
    leaves = [torch.nn.Parameter(x) for x in leaves] if as_parameters else leaves
    outputs = function(*leaves)
    return [*outputs, *torch.autograd.grad([y.square().sum() for y in outputs], leaves)]


@pytest.mark.parametrize("as_parameters", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_are_the_same_without_the_dispatcher(name, as_parameters):
    found = results_of(name, as_parameters)
    assert dispatched(lambda: results_of(name, as_parameters)) == set()
    with PassOn():
        wanted = results_of(name, as_parameters)
        assert len(dispatched(lambda: results_of(name, as_parameters))) == 2
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    assert [x.requires_grad for x in found] == [x.requires_grad for x in wanted]


@pytest.mark.parametrize("without_gradient", [torch.no_grad, torch.inference_mode, contextlib.nullcontext])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_without_a_gradient_are_the_same_without_the_dispatcher(name, without_gradient):
    function, tensors = FUNCTIONS[name]
    with without_gradient():
        own = [x.clone() for x in tensors]
        assert dispatched(lambda: function(*own)) == set()
        found = function(*own)
        assert not any(x.requires_grad for x in found)
        with PassOn():
            assert all(torch.equal(x, y) for x, y in zip(found, function(*own), strict=True))


def test_a_step_is_the_same_without_the_dispatcher():
    inputs = delta_inputs((2,))
    states = inputs.pop("initial_states")
    found, wanted = states.clone(), states.clone()
    before = found._version
    assert dispatched(lambda: ot.delta_product_step(**inputs, states=found)) == set()
    assert found._version > before
    with PassOn():
        ot.delta_product_step(**inputs, states=wanted)
    assert torch.equal(found, wanted) and not torch.equal(found, states)


# What goes to the dispatcher

@pytest.mark.parametrize("context", [
    PassOn, PassOnFunctions, lambda: torch.device("cpu"), lambda: torch.autocast("cpu", torch.bfloat16),
    torch._C._AutoDispatchBelowAutograd], ids=range(5))
def test_calls_in_a_context_go_to_the_dispatcher(context):
    v = parameter("cwy")

    def call():
        with context():
            ot.transition("cwy", v)

    assert dispatched(call) == {"orthornn::transition"}


def test_fake_tensors_go_to_the_dispatcher():
    with FakeTensorMode():
        v = torch.empty(3, 5)
        assert dispatched(lambda: ot.transition("cwy", v)) == {"orthornn::transition"}
    assert ot.transition("cwy", v).shape == (5, 5)


class Own(torch.Tensor):
    pass


def escaped():
    """A tensor of a transform of torch.func that has ended."""
    found = []
    torch.func.grad(lambda x: found.append(x) or x.sum())(parameter("cwy"))
    return found[0]


@pytest.mark.parametrize("tensor", [
    lambda: parameter("cayley").as_subclass(Own), lambda: torch.randn(5, 5, dtype=torch.cfloat).conj().imag,
    lambda: torch._efficientzerotensor(5, 5)], ids=["subclass", "negated", "zeros without memory"])
def test_tensors_of_other_kinds_go_to_the_dispatcher(tensor):
    x = tensor()
    plain = torch.empty(5, 5, dtype=x.dtype)
    plain.copy_(x)
    assert dispatched(lambda: ot.transition("cayley", x)) == {"orthornn::transition"}
    assert torch.equal(ot.transition("cayley", x), ot.transition("cayley", plain))


@pytest.mark.parametrize("nowhere", [torch._efficientzerotensor, lambda *n: torch._to_functional_tensor(
    torch.zeros(*n))], ids=["zeros", "functional"])
def test_a_tensor_without_memory_is_not_one_that_was_left_out(nowhere):
    left, right, states = (x.float() for x in FUNCTIONS["rank_one_chain"][1])
    scales = nowhere(2, 3, 2)
    found = ot.rank_one_chain(left, right, states, left_scales=scales)[1]
    assert torch.equal(found, ot.rank_one_chain(left, right, states, left_scales=torch.zeros(2, 3, 2))[1])


def test_a_tensor_of_a_transform_that_has_ended_is_the_one_within_it():
    v = escaped()
    with PassOn():
        assert torch.equal(ot.transition("cwy", v), ot.transition("cwy", parameter("cwy")))
    assert torch.equal(ot.transition("cwy", v), ot.transition("cwy", parameter("cwy")))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_go_to_the_dispatcher():
    v = normal(2, 3, 5)
    assert dispatched(lambda: torch.func.vmap(lambda x: ot.transition("cwy", x))(v)) == {
        "orthornn::transition"}
    leaf = parameter("cwy", grad=True)
    q = ot.transition("cwy", leaf)
    d_q = normal(2, 5, 5)
    batched, = torch.autograd.grad(q, leaf, d_q, is_grads_batched=True, retain_graph=True)
    for one, wanted in zip(d_q, batched):
        torch.testing.assert_close(torch.autograd.grad(q, leaf, one, retain_graph=True)[0], wanted)


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning", "ignore:.*torch.jit:DeprecationWarning")
def test_traces_hold_the_operation():
    v = parameter("cwy")
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x: ot.transition("cwy", x))(v).graph
    assert OPERATIONS.transition.default in [node.target for node in graph.nodes]
    traced = torch.jit.trace(lambda x: ot.transition("cwy", x) + 1, v)
    assert "orthornn::transition" in str(traced.graph)


def test_a_compiled_graph_holds_the_operation():
    targets = []

    def backend(graph, _):
        targets.extend(node.target for node in graph.graph.nodes)
        return graph.forward

    torch.compile(lambda x: ot.transition("cwy", x), fullgraph=True, backend=backend)(parameter("cwy"))
    assert OPERATIONS.transition.default in targets


def test_without_the_names_that_torch_may_drop_calls_go_to_the_dispatcher(monkeypatch):
    monkeypatch.setattr(_direct, "_dispatch_keys", None)
    operation = OPERATIONS.transition.default
    assert _direct.directly("transition(Tensor x) -> Tensor", operation, None, None, None) is operation


# Errors, and what autograd does with a call

def error_of(call):
    with pytest.raises(Exception) as info:
        call()
    return type(info.value), str(info.value)


def calls_of_wrong_types():
    """Arguments of types that no operation has; the dispatcher refuses or converts them."""
    v = parameter("cwy")
    q, a, h_0, _ = rollout_inputs("tanh")
    yield lambda: ot.transition("cwy", None)
    yield lambda: ot.transition("cwy", v, negative_signs=0.5)
    yield lambda: ot.transition(3, v)
    yield lambda: ot.rollout(q, a.tolist(), h_0)
    yield lambda: ot.transition("cwy", v.to("meta").requires_grad_()).numpy()
    yield lambda: ot.transition("cwy", v.to_sparse())
    yield lambda: ot.rollout(q, a.to_mkldnn(), h_0)


@pytest.mark.parametrize("number", range(33 + 7))
def test_errors_are_the_same_without_the_dispatcher(number):
    call = [*(call for _, _, call in wrong_calls()), *calls_of_wrong_types()][number]
    found = error_of(call)
    with PassOn():
        assert error_of(call) == found


def test_an_error_stays_the_same_where_a_device_has_failed(monkeypatch):
    v = parameter("cwy")

    def fail(*_, **__):
        raise RuntimeError("the device has failed")

    monkeypatch.setattr(torch, "empty", fail)
    with pytest.raises(ValueError, match="^kind: "):
        ot.transition("wrong", v)


@pytest.mark.parametrize("context", [contextlib.nullcontext, PassOn])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_refused(name, context):
    function, tensors = FUNCTIONS[name]
    leaves = [x.clone().requires_grad_() for x in tensors]
    with context(), pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(function(*leaves)[0].sum(), leaves, create_graph=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_autograd_keeps_the_same_tensors_without_the_dispatcher(name):
    kept = []
    for context in contextlib.nullcontext, PassOn:
        own = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: own.append(x.detach()) or x, lambda x: x):
            with context():
                results_of(name)
        # Only the dispatcher needs tensors for results that are not there.
        kept.append([x for x in own if x.numel() > 0])
    assert len(kept[0]) == len(kept[1]) > 0
    # What a forward keeps has gaps that nothing writes.
    assert all(x.dtype == y.dtype == torch.uint8 or torch.equal(x, y) for x, y in zip(*kept))


@pytest.mark.parametrize("context", [contextlib.nullcontext, PassOn])
def test_a_kept_tensor_that_was_overwritten_is_noticed(context):
    leaf = parameter("cwy", grad=True)
    with context():
        v = leaf * 1
        q = ot.transition("cwy", v)
        v.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            q.sum().backward()


# Plans

@pytest.mark.parametrize("before, named", [
    ({}, {"scale": 0.5}), ({}, {"unit_keys": True}), ({}, {"lengths": torch.tensor([3, 1])}),
    ({"lengths": torch.tensor([2, 3])}, {"lengths": torch.tensor([3, 1])})], ids=range(4))
def test_a_plan_serves_equal_calls_alone(before, named):
    inputs = delta_inputs((2, 3), grad=True)
    inputs["keys"] = 0.5 * inputs["keys"]

    def results(**named):
        outputs = ot.delta_product(**inputs, **named)[0]
        return outputs, *torch.autograd.grad(outputs.square().sum(), inputs["queries"], retain_graph=True)

    other = results(**before)
    found = results(**named)
    _calls._plans.clear()
    wanted = results(**named)
    assert all(torch.equal(x, y) for x, y in zip(found, wanted))
    assert not any(torch.equal(x, y) for x, y in zip(found, other))


def test_arguments_are_checked_after_calls_like_them():
    q, a, h_0, bias = rollout_inputs("modrelu")
    ot.rollout(q, a, h_0, None, "modrelu", bias)
    ot.delta_product(**delta_inputs((2, 3)))
    left = normal(2, 3, 2, 3)
    ot.rank_one_chain(left, left, normal(2, 2, 3, 4))
    ot.transition("cwy", normal(3, 5))
    for message, error, call in wrong_calls():
        with pytest.raises(error, match=message):
            call()
