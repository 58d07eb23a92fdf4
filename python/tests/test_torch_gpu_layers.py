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
