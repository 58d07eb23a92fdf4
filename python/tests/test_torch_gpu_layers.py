"""Layers for PyTorch on a GPU: values and gradients of the CPU, lengths, captures."""

import pytest

torch = pytest.importorskip("torch")

import orthornn.torch as ot  # noqa: E402
from test_torch_gpu import CLOSE, CUDA, captured, results_of  # noqa: E402
from test_torch_operations import normal  # noqa: E402


@pytest.mark.parametrize("layer", [lambda: ot.CwyRnn(6, 20, 2), lambda: ot.HouseholderRnn(6, 20),
                                   lambda: ot.CayleyRnn(6, 20), lambda: ot.ExpRnn(6, 20),
                                   lambda: ot.OwnRnn(6, 20),
                                   lambda: ot.DeltaProduct(6, 20, convolution=3, state_decay=True),
                                   lambda: ot.DeltaProduct(6, 20, factor="rwkv7", state_decay=True)])
def test_layers_are_those_of_the_cpu(layer):
    torch.manual_seed(3)
    here = layer().double()
    x = normal(7, 3, 6)
    wanted = results_of(lambda *p: [here(x)[0]], list(here.parameters()))
    there = here.cuda()
    found = results_of(lambda *p: [there(x.cuda())[0]], list(there.parameters()))
    for own, other in zip(found, wanted):
        torch.testing.assert_close(own.cpu(), other.cpu(), rtol=1e-7, atol=1e-8)


ORTHOGONAL = {"square": (lambda **k: ot.OrthogonalLinear(6, 6, **k), (3, 6)),
              "wide": (lambda **k: ot.OrthogonalLinear(6, 4, **k), (3, 6)),
              "tall": (lambda **k: ot.OrthogonalLinear(6, 9, **k), (3, 6)),
              "pixels": (lambda **k: ot.OrthogonalConv2d(4, 4, 1, **k), (2, 4, 5, 6)),
              "5 x 3": (lambda **k: ot.OrthogonalConv2d(4, 7, (5, 3), **k), (2, 4, 5, 6))}


def drawn(layer, **named):
    torch.manual_seed(3)
    return layer(dtype=torch.float64, **named)


@pytest.mark.parametrize("move", [lambda layer: drawn(layer).cuda(), lambda layer: drawn(layer, device=CUDA)])
@pytest.mark.parametrize("name", ORTHOGONAL)
def test_orthogonal_maps_are_those_of_the_cpu(name, move):
    layer, shape = ORTHOGONAL[name]
    here, there = drawn(layer), move(layer)
    assert all(x.is_cuda for x in there.state_dict().values())
    # Equal draws on both devices; decompositions round them.
    torch.testing.assert_close(there.weight.cpu(), here.weight, **CLOSE[torch.float64])
    there.load_state_dict(here.state_dict())
    x = normal(*shape)
    wanted = results_of(lambda *p: [here(x)], list(here.parameters()))
    found = results_of(lambda *p: [there(x.cuda())], list(there.parameters()))
    for own, other in zip(found, wanted):
        torch.testing.assert_close(own.cpu(), other, **CLOSE[torch.float64])
    # A weight is drawn again where it is.
    torch.manual_seed(5)
    here.reset_parameters()
    torch.manual_seed(5)
    there.reset_parameters()
    assert there.weight.is_cuda
    torch.testing.assert_close(there.weight.cpu(), here.weight, **CLOSE[torch.float64])


@pytest.mark.parametrize("name", ["square", "pixels"])
def test_orthogonal_maps_have_an_inverse(name):
    layer, shape = ORTHOGONAL[name]
    there = drawn(layer, device=CUDA)
    x = normal(*shape).cuda()
    torch.testing.assert_close(there.inverse(there(x)), x, **CLOSE[torch.float64])
    assert there.log_determinant().is_cuda and there.log_determinant() == 0


def test_layer_with_lengths():
    torch.manual_seed(3)
    layer = ot.DeltaProduct(6, 20, convolution=3).double()
    x, lengths = normal(3, 7, 6), torch.tensor([7, 0, 4])
    wanted, states = layer(x, lengths)
    layer.cuda()
    for own in lengths, lengths.cuda():
        found, last = layer(x.cuda(), own)
        for a, b in zip((found, *last), (wanted, *states)):
            torch.testing.assert_close(a.cpu(), b, **CLOSE[torch.float64])


def test_captured_layer_with_lengths_in_host_memory():
    torch.manual_seed(3)
    layer = ot.DeltaProduct(6, 20, convolution=3).cuda()
    x = normal(3, 7, 6).to(CUDA, torch.float32)
    lengths = torch.tensor([7, 0, 4])

    def both():
        y, states = layer(x, lengths)
        gradients = torch.autograd.grad([y, *states], list(layer.parameters()),
                                        [torch.ones_like(z) for z in (y, *states)])
        return [z.detach() for z in (y, *states)] + list(gradients)

    for wanted, found in captured(both):
        for a, b in zip(found, wanted):
            assert torch.equal(a, b)
