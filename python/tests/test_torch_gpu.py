"""Operations for PyTorch on a GPU: values and gradients of the CPU, streams, captures, compilation, memory,
errors."""

import gc
import subprocess
import sys
import threading
import sysconfig
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

import torch._dynamo  # noqa: E402
from torch.utils._triton import has_triton  # noqa: E402

import orthornn  # noqa: E402
import orthornn.torch as ot  # noqa: E402
from test_torch_operations import (delta_inputs, normal, parameter, recurrence_inputs, recurrence_of,
                                   rollout_inputs, unit)  # noqa: E402

OPERATIONS = torch.ops.orthornn
CUDA = torch.device("cuda")
# float has 2^-24, double 2^-53; sums of a few hundred products, whose order differs.
CLOSE = {torch.float64: {"rtol": 1e-9, "atol": 1e-10}, torch.float32: {"rtol": 2e-3, "atol": 2e-4}}


def has_chunks():
    x = torch.ones(1, 1, 1, 1, device=CUDA)
    try:
        ot.delta_product(x, x[:, :, None], x[:, :, None], x, form="chunked")
    except orthornn.Error as error:
        if "has no chunked form" not in str(error):
            raise
        return False
    return True


needs_chunks = pytest.mark.skipif(not has_chunks(), reason="needs the chunked form of a GPU")


def names_of(inputs):
    return [name for name, x in inputs.items() if x is not None]


def product(names, **named):
    return lambda *tensors: ot.delta_product(**dict(zip(names, tensors)), **named)


def functions():
    """Names, functions of tensors, and the tensors. Numbers that are no tensors of theirs are in host
    memory."""
    for kind in "cwy", "householder", "cayley", "expm", "own":
        yield kind, lambda x, kind=kind: (ot.transition(kind, x),), [parameter(kind, 40, 30)]
    yield "stiefel", lambda v: (ot.stiefel(v),), [normal(20, 40)]
    yield "stiefel of own", lambda v: (ot.stiefel(v, "own"),), [normal(40, 20)]
    for activation in "tanh", "relu", "abs", "modrelu", "identity":
        q, a, h_0, bias = rollout_inputs(activation, 9, 5, 40)
        for lengths in None, [9, 0, 4, 7, 9]:
            def roll(q, a, h_0, bias=None, activation=activation, lengths=lengths):
                own = None if lengths is None else torch.tensor(lengths, dtype=torch.int32, device=q.device)
                return ot.rollout(q, a, h_0, own, activation, bias)

            yield (f"rollout of {activation}, {lengths}", roll,
                   [x for x in (q, a, h_0, bias) if x is not None])
    for activation, has_bias, inputs in ("tanh", True, 1), ("abs", False, 8), ("modrelu", True, 12):
        named = {name: x for name, x in recurrence_inputs(activation, has_bias, 9, 5, 40, inputs).items()
                 if x is not None}
        yield (f"recurrence of {activation}, {inputs} inputs", recurrence_of(named, activation=activation),
               list(named.values()))
    for decay, removals in (None, False), ("head", False), ("row", True):
        for places, named in (((3, 21), {}), ((3, 21), {"lengths": torch.tensor([21, 0, 13])}),
                              ((40,), {"cu_seqlens": torch.tensor([0, 23, 23, 40])})):
            inputs = delta_inputs(places, decay, removals, batch=3, key=20, value=24)
            names = names_of(inputs)
            yield (f"delta product, {decay}, {places}, {list(named)}", product(names, scale=0.5, **named),
                   [inputs[name] for name in names])
    small = delta_inputs((3, 21), None, batch=3, key=6, value=5)
    names = names_of(small)
    yield "delta product of small states", product(names, form="recurrent"), [small[n] for n in names]
    for named in {}, {"lengths": torch.tensor([9, 4])}:
        yield (f"rank-one chain, {list(named)}",
               lambda a, b, s, x, y, named=named: ot.rank_one_chain(a, b, s, left_scales=x, right_scales=y,
                                                                    **named),
               [0.3 * unit(2, 9, 2, 12, seed=1), unit(2, 9, 2, 12, seed=2), normal(2, 2, 12, 8, seed=5),
                normal(2, 9, 2, seed=3), normal(2, 9, 2, seed=4)])


FUNCTIONS = {name: (function, tensors) for name, function, tensors in functions()}


def leaves_of(tensors, device, dtype):
    return [x.detach().to(device, dtype).clone().requires_grad_() for x in tensors]


def results_of(function, leaves):
    """Outputs and gradients."""
    outputs = function(*leaves)
    weights = [normal(*y.shape, seed=9).to(y.device, y.dtype) for y in outputs]
    gradients = torch.autograd.grad(sum((w * y).sum() for w, y in zip(weights, outputs)), leaves)
    return [*(y.detach() for y in outputs), *gradients]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_the_cpu(name, dtype):
    function, tensors = FUNCTIONS[name]
    wanted = results_of(function, leaves_of(tensors, "cpu", torch.float64))
    found = results_of(function, leaves_of(tensors, CUDA, dtype))
    assert all(x.is_cuda and x.dtype == dtype for x in found)
    for x, y in zip(found, wanted):
        scale = max(y.abs().max().item(), 1.0) if y.numel() else 1.0
        torch.testing.assert_close(x.cpu().double() / scale, y / scale, **CLOSE[dtype])
    again = results_of(function, leaves_of(tensors, CUDA, dtype))
    assert all(torch.equal(x, y) for x, y in zip(found, again))


@needs_chunks
@pytest.mark.parametrize("named", [{}, {"lengths": torch.tensor([300, 41])}])
def test_delta_product_of_bfloat16_is_near_that_of_the_cpu(named):
    inputs = delta_inputs((2, 300), key=64, value=64)
    names = names_of(inputs)
    rounded = ("queries", "keys", "values")
    there = [inputs[n].detach().to(CUDA, torch.bfloat16 if n in rounded else torch.float32).requires_grad_()
             for n in names]
    here = [x.detach().cpu().double().requires_grad_() for x in there]
    found = results_of(product(names, **named), there)
    assert [x.dtype for x in found[:2]] == [torch.bfloat16, torch.float32]
    assert all(x.dtype == y.dtype for x, y in zip(found[2:], there))
    for x, y in zip(found, results_of(product(names, **named), here)):
        assert (x.cpu().double() - y).norm() <= 0.03 * y.norm()


@needs_chunks
def test_gradients_of_bfloat16_that_arrive_as_one_number():
    inputs = delta_inputs((2, 40), key=64, value=64)
    names = names_of(inputs)
    there = [inputs[n].detach().to(CUDA, torch.bfloat16 if n in ("queries", "keys", "values")
                                   else torch.float32).requires_grad_() for n in names]
    outputs = product(names)(*there)[0]
    one = torch.ones((), dtype=torch.bfloat16, device=CUDA).expand_as(outputs)
    assert one.stride() == (0, 0, 0, 0)
    found = torch.autograd.grad(outputs, there, one, retain_graph=True)
    wanted = torch.autograd.grad(outputs, there, one.contiguous())
    assert all(torch.equal(x, y) for x, y in zip(found, wanted))
    assert all(x.any() for x in found)


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch before 2.9")
@pytest.mark.parametrize("batch", [5, 40])
def test_tf32_is_used_where_torch_allows_it(batch):
    q, a, h_0, _ = rollout_inputs("tanh", 9, batch, 512)
    leaves = leaves_of((q, a, h_0), CUDA, torch.float32)
    before = torch.backends.cuda.matmul.fp32_precision
    results = []
    try:
        for precision in "ieee", "tf32":
            torch.backends.cuda.matmul.fp32_precision = precision
            results.append(ot.rollout(*leaves, None, "tanh")[0].detach())
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    # Few sequences are multiplied in float whatever the precision: that is faster.
    assert torch.equal(*results) == (batch == 5)
    torch.testing.assert_close(*results, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("decay, removals", [(None, False), ("head", False), ("row", True)])
def test_delta_product_step_goes_on_like_the_whole_sequence(decay, removals):
    inputs = {n: None if x is None else x.cuda() for n, x in delta_inputs((2, 4), decay, removals).items()}
    outputs, last = ot.delta_product(**inputs, scale=0.5)
    states = inputs.pop("initial_states").clone()
    for t in range(4):
        step = {name: None if x is None else x[:, t] for name, x in inputs.items()}
        torch.testing.assert_close(ot.delta_product_step(**step, states=states, scale=0.5), outputs[:, t],
                                   **CLOSE[torch.float64])
    torch.testing.assert_close(states, last, **CLOSE[torch.float64])


def test_tensors_that_are_not_contiguous_and_empty_ones():
    q, a, h_0, bias = (x.cuda() for x in rollout_inputs("modrelu"))
    wanted = ot.rollout(q, a, h_0, None, "modrelu", bias)
    strided = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (q, a, h_0)]
    assert not any(x.is_contiguous() for x in strided)
    for x, y in zip(ot.rollout(*strided, None, "modrelu", torch.stack([bias, bias], 1)[:, 0]), wanted):
        assert torch.equal(x, y)
    inputs = {n: x if x is None else x.cuda() for n, x in delta_inputs((3, 5), batch=3).items()}
    strided = {n: x if x is None else x.transpose(0, 1).contiguous().transpose(0, 1)
               for n, x in inputs.items()}
    for x, y in zip(ot.delta_product(**strided), ot.delta_product(**inputs)):
        assert torch.equal(x, y)
    a = torch.zeros(0, 3, 5, dtype=torch.float64, device=CUDA, requires_grad=True)
    outputs, last = ot.rollout(q, a, h_0, None, "tanh")
    assert outputs.shape == (0, 3, 5) and torch.equal(last, h_0)
    outputs.sum().backward()
    for dtype in torch.float64, torch.float32:
        for places, batch in ((2, 0), 2), ((0, 3), 0):
            inputs = {n: x if x is None else x.detach().to(CUDA, dtype).requires_grad_()
                      for n, x in delta_inputs(places, batch=batch).items()}
            outputs, states = ot.delta_product(**inputs)
            assert outputs.shape == (*places, 2, 4) and torch.equal(states, inputs["initial_states"])
            (outputs.sum() + states.sum()).backward()
            assert (inputs["initial_states"].grad == 1).all()
    left, s = torch.zeros(2, 0, 2, 3, device=CUDA), torch.ones(2, 2, 3, 4, device=CUDA)
    assert torch.equal(ot.rank_one_chain(left, left, s)[1], s)


# Streams and captures

@pytest.mark.parametrize("name", ["cwy", "rollout of modrelu, None", "delta product, head, (3, 21), []",
                                  "delta product, head, (40,), ['cu_seqlens']", "rank-one chain, []"])
def test_work_goes_to_the_current_stream(name):
    function, tensors = FUNCTIONS[name]
    there = [x.to(CUDA, torch.float32) for x in tensors]
    wanted = function(*there)
    late = [torch.zeros_like(x) for x in there]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # some 50 ms; what does not wait for it reads zeros
        for x, y in zip(late, there):
            x.copy_(y)
        found = function(*late)
    torch.cuda.current_stream().wait_stream(stream)
    for x, y in zip(found, wanted):
        assert torch.equal(x, y)


def captured(function):
    """Runs a function of no arguments directly, and gives its results by two launches of a capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            wanted = [x.clone() for x in function()]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function()
    for _ in range(2):
        for x in results:
            x.fill_(float("nan"))
        graph.replay()
        yield wanted, results


CAPTURED = [name for name in FUNCTIONS if not name.startswith(("cayley", "expm", "own", "stiefel of own"))]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", CAPTURED)
def test_captured_forward_and_backward_have_equal_bits(name, dtype):
    function, tensors = FUNCTIONS[name]
    leaves = leaves_of(tensors, CUDA, dtype)
    if "rollout" in name and "None" not in name:
        # Numbers of host memory would be copied in the capture.
        lengths = torch.tensor([9, 0, 4, 7, 9], dtype=torch.int32, device=CUDA)
        activation = name.split()[2].rstrip(",")

        def function(q, a, h_0, bias=None):
            return ot.rollout(q, a, h_0, lengths, activation, bias)

    weights = [normal(*y.shape, seed=9).to(CUDA, dtype) for y in function(*leaves)]

    def both():
        outputs = function(*leaves)
        return [*(y.detach() for y in outputs), *torch.autograd.grad(outputs, leaves, weights)]

    for wanted, found in captured(both):
        for x, y in zip(found, wanted):
            assert torch.equal(x, y)


def test_a_graph_outlives_scratch_memory_that_grows():
    def states(size):
        q = torch.eye(size, dtype=torch.float64, device=CUDA)
        a = torch.ones(3, 2, size, dtype=torch.float64, device=CUDA)
        return ot.rollout(q, a, torch.zeros_like(a[0]), None, "identity")[0]

    launches = captured(lambda: (states(24),))
    wanted, found = next(launches)
    assert torch.equal(*wanted, *found)
    states(1024)  # needs more scratch memory than the graph was captured with
    wanted, found = next(launches)
    assert torch.equal(*wanted, *found)


def test_threads_take_turns_on_a_gpu():
    q = torch.linalg.qr(torch.randn(40, 40, dtype=torch.float64, device=CUDA))[0]
    a = [torch.randn(30, 5, 40, dtype=torch.float64, device=CUDA) for _ in range(4)]
    h_0 = torch.zeros(5, 40, dtype=torch.float64, device=CUDA)
    wanted = [ot.rollout(q, x, h_0, None, "tanh")[0] for x in a]
    torch.cuda.synchronize()
    equal = [True] * len(a)

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                found = ot.rollout(q, a[i], h_0, None, "tanh")[0]
                equal[i] &= torch.equal(found, wanted[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(a))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(equal)


def test_captured_step():
    inputs = {n: None if x is None else x.cuda() for n, x in delta_inputs((2,)).items()}
    start = inputs.pop("initial_states")
    states = start.clone()

    def step():
        states.copy_(start)
        return ot.delta_product_step(**inputs, states=states), states.clone()

    for wanted, found in captured(step):
        for x, y in zip(found, wanted):
            assert torch.equal(x, y)


def test_what_waits_cannot_be_captured():
    x = parameter("expm", 40).cuda()
    wanted = ot.transition("expm", x)
    ot.stiefel(x, "own")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        with pytest.raises(orthornn.Error, match="recorded"):
            ot.transition("expm", x)
        with pytest.raises(orthornn.Error, match="recorded"):
            ot.stiefel(x, "own")
    graph.replay()
    assert torch.equal(y, x + 1)
    assert torch.equal(ot.transition("expm", x), wanted)


FIRST_USE = """
import torch, orthornn, orthornn.torch as ot
x = torch.ones(1, 2, 1, 2, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + 1
    for call in (lambda: ot.delta_product(x, x[:, :, None], x[:, :, None], x[..., None, :1].squeeze(-1)),
                 lambda: ot.transition("cwy", x[0, :, 0])):
        try:
            call()
        except orthornn.Error as error:
            print(error)
graph.replay()
print((y == 2).all().item())
"""


def test_the_first_operation_in_a_capture_is_refused():
    result = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    *refusals, value = result.stdout.splitlines()
    assert value == "True" and len(refusals) == 2
    assert all("the first operation on cuda:0 came while a stream was captured" in x for x in refusals)


# torch's own checks, compilation, autocast

def gpu_calls():
    """A call of each operation: its name and arguments."""
    def there(*values, dtype=torch.float32, grad=False):
        return [x if not isinstance(x, torch.Tensor) else x.detach().to(CUDA, dtype).requires_grad_(grad)
                for x in values]

    for kind in "cwy", "cayley":
        yield OPERATIONS.transition, (*there(parameter(kind), grad=True), kind, 0)
        yield OPERATIONS.transition_backward, (*there(parameter(kind), normal(5, 5)), kind, 0)
    for kind, shape in ("stiefel", (3, 6)), ("own", (6, 3)):
        yield OPERATIONS.stiefel, (*there(normal(*shape), grad=True), kind)
        yield OPERATIONS.stiefel_backward, (*there(normal(*shape), normal(6, 3)), kind)
    lengths = torch.tensor([4, 0, 2], dtype=torch.int32, device=CUDA)
    for activation in "abs", "modrelu":
        q, a, h_0, bias = there(*rollout_inputs(activation), grad=True)
        yield OPERATIONS.rollout, (q, a, h_0, lengths, activation, bias)
        with torch.no_grad():
            outputs, _, signs = OPERATIONS.rollout(q, a, h_0, lengths, activation, bias)
        yield OPERATIONS.rollout_backward, (q.detach(), lengths, h_0.detach(), outputs, signs,
                                            *there(normal(5, 3, 5)), *there(normal(3, 5)), activation, True,
                                            activation == "modrelu")
        named = {name: x if x is None else there(x, grad=True)[0]
                 for name, x in recurrence_inputs(activation).items()}
        x = (*(named[name] for name in ("q", "weight", "bias", "input", "h_0")), lengths)
        yield OPERATIONS.recurrence, (*x, activation, named["modrelu_bias"])
        with torch.no_grad():
            outputs, _, signs = OPERATIONS.recurrence(*x, activation, named["modrelu_bias"])
        yield OPERATIONS.recurrence_backward, (
            *(y.detach() for y in x), outputs, signs, *there(normal(4, 3, 5), normal(3, 5)), activation,
            None if activation == "abs" else named["modrelu_bias"].detach(), True, True)
    for decay, removals in ("head", False), ("row", True):
        inputs = there(*delta_inputs((2, 3), decay, removals).values(), grad=True)
        tail = (torch.tensor([3, 1]), None, None, 1.0, False)
        yield OPERATIONS.delta_product, (*inputs, *tail, True)
        plain = there(*inputs)
        yield OPERATIONS.delta_product, (*plain, *tail, False)
        saved = OPERATIONS.delta_product(*plain, *tail, True)[2]
        yield OPERATIONS.delta_product_backward, (*plain[:6], *tail[:2], saved, *there(normal(2, 3, 2, 4)),
                                                  *there(normal(2, 2, 3, 4)), *tail[2:], True)
        step = [None if x is None else x[:, 0].contiguous() for x in plain[:6]]
        yield OPERATIONS.delta_product_step, (*step, plain[6], 1.0, False)
    packed = there(*delta_inputs((5,)).values(), grad=True)
    yield OPERATIONS.delta_product, (*packed, None, torch.tensor([0, 2, 5]), None, 1.0, False, True)
    chain = there(normal(2, 3, 2, 3, seed=1), normal(2, 3, 2, 3, seed=2), normal(2, 2, 3, 2), None,
                  normal(2, 3, 2), None, None)
    yield OPERATIONS.rank_one_chain, (*there(*chain, grad=True), True)
    saved = OPERATIONS.rank_one_chain(*chain, True)[2]
    yield OPERATIONS.rank_one_chain_backward, (*chain, saved, *there(normal(2, 3, 2, 2)),
                                               *there(normal(2, 2, 3, 2)))


@pytest.mark.parametrize("number", range(27))
def test_operation_passes_opcheck(number):
    calls = list(gpu_calls())
    assert len(calls) == 27
    operation, arguments = calls[number]
    torch.use_deterministic_algorithms(True)  # fills new memory, of which a forward keeps gaps
    try:
        torch.library.opcheck(operation, tuple(arguments))
    finally:
        torch.use_deterministic_algorithms(False)


# Triton compiles its launchers against Python's headers.
HAS_INDUCTOR = has_triton() and Path(sysconfig.get_paths()["include"], "Python.h").exists()
BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.skipif(
    not HAS_INDUCTOR, reason="needs triton and Python's headers"))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["cwy", "stiefel", "rollout of modrelu, None",
                                  "delta product, head, (3, 21), []",
                                  "delta product, head, (3, 21), ['lengths']", "rank-one chain, []"])
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_compiled_as_one_graph(name, backend):
    torch._dynamo.reset()
    function, tensors = FUNCTIONS[name]
    leaves = leaves_of(tensors, CUDA, torch.float32)
    compiled = torch.compile(lambda *x: tuple(2 * y for y in function(*x)), fullgraph=True, backend=backend)
    wanted = results_of(lambda *x: tuple(2 * y for y in function(*x)), leaves)
    for x, y in zip(results_of(compiled, leaves), wanted):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)


def test_autocast_computes_in_full_precision():
    q, a, h_0, bias = (x.to(CUDA, torch.bfloat16) for x in rollout_inputs("modrelu"))
    inputs = {n: None if x is None else x.to(CUDA, torch.bfloat16) for n, x in delta_inputs((2, 3)).items()}
    wide = {n: None if x is None else x.float() for n, x in inputs.items()}
    wanted = (ot.rollout(q.float(), a.float(), h_0.float(), None, "modrelu", bias.float())[0],
              ot.delta_product(**wide)[0])
    with torch.autocast("cuda", torch.bfloat16):
        found = ot.rollout(q, a, h_0, None, "modrelu", bias)[0], ot.delta_product(**inputs)[0]
    for x, y in zip(found, wanted):
        assert x.dtype == torch.float32 and torch.equal(x, y)


# Memory and errors

def test_ten_thousand_calls_leave_memory_as_it_was():
    v, x = normal(3, 5).cuda().requires_grad_(), normal(2, 3, 5).cuda()
    inputs = {n: None if y is None else y.to(CUDA, torch.float32).requires_grad_()
              for n, y in delta_inputs((5,)).items()}
    chain = [y.cuda().requires_grad_() for y in (normal(2, 3, 2, 3), normal(2, 3, 2, 3, seed=1),
                                                 normal(2, 2, 3, 4))]
    offsets = torch.tensor([0, 2, 5])

    def calls():
        h = ot.rollout(ot.transition("cwy", v), x, x[0], None, "tanh")[0]
        o = ot.delta_product(**inputs, cu_seqlens=offsets)[0]
        s = ot.rank_one_chain(*chain, lengths=torch.tensor([3, 1]))[0]
        torch.autograd.grad(h.sum() + o.sum() + s.sum(), [v, *chain, inputs["keys"]])

    def used():
        gc.collect()  # tensors of earlier tests, and of calls, may be in cycles
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]

    for _ in range(20):
        calls()
    before = used()
    for _ in range(1250):  # of four forwards and four backwards
        calls()
    after = used()
    assert after[0] == before[0] and after[1] >= before[1]


def test_faults_of_kernels_are_raised_by_synchronize():
    device = ot._calls._gpu(0, torch.cuda.current_stream().cuda_stream)
    ot.transition("cwy", torch.zeros(2, 3, device=CUDA))
    with pytest.raises(ValueError, match="reflection vector 0 is zero"):
        orthornn._library.library().orthornn_synchronize(device)


def wrong_calls():
    q, a, h_0, _ = (x if x is None else x.cuda() for x in rollout_inputs("tanh"))
    inputs = {n: None if x is None else x.cuda() for n, x in delta_inputs((2, 3)).items()}
    removals = {n: None if x is None else x.cuda() for n, x in delta_inputs((2, 3), "row", True).items()}

    def half(given, *others):
        wanted = ("queries", "keys", "values", "removals", *others)
        return {n: x if x is None else x.to(torch.bfloat16 if n in wanted else torch.float32)
                for n, x in given.items()}

    yield "^inputs: .*cuda:0, found cpu", ValueError, lambda: ot.rollout(q, a.cpu(), h_0, None, "tanh")
    yield "^h_0: ", TypeError, lambda: ot.rollout(q, a, h_0.float(), None, "tanh")
    yield "^q: ", TypeError, lambda: ot.rollout(q.half(), a, h_0, None, "tanh")
    yield "^keys: .*cuda:0, found cpu", ValueError, lambda: ot.delta_product(
        **{**inputs, "keys": inputs["keys"].cpu()})
    yield "^queries: ", TypeError, lambda: ot.delta_product(**{n: None if x is None else x.half()
                                                             for n, x in inputs.items()})
    yield "^betas: expected torch.float32 beside", TypeError, lambda: ot.delta_product(
        **half(inputs, "betas"))
    yield "^queries: .*recurrent form", TypeError, lambda: ot.delta_product(**half(removals))
    yield "^queries: .*recurrent form", TypeError, lambda: ot.delta_product(**half(inputs), form="recurrent")
    yield "^form: .*recurrent", ValueError, lambda: ot.delta_product(**inputs, form="chunked")
    yield "^DeltaProduct: .*found torch.bfloat16", TypeError, lambda: ot.DeltaProduct(
        4, device=CUDA, dtype=torch.bfloat16)(torch.zeros(2, 3, 4, device=CUDA, dtype=torch.bfloat16))
    yield "^right: ", ValueError, lambda: ot.rank_one_chain(q[None, :, None], q.cpu()[None, :, None],
                                                            q[None, None, :, :2])


@pytest.mark.parametrize("number", range(11))
def test_wrong_arguments_are_named(number):
    calls = list(wrong_calls())
    assert len(calls) == 11
    message, error, call = calls[number]
    with pytest.raises(error, match=message):
        call()
