"""Operations for PyTorch in threads, forked processes and DDP, and what they leave in memory."""

import copy
import gc
import os
import threading
import traceback
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import orthornn.torch as ot  # noqa: E402


def loss_and_gradients(layer, x):
    layer.zero_grad()
    loss = layer(x)[0].square().sum()
    loss.backward()
    return [loss.detach().clone(), *(p.grad.clone() for p in layer.parameters())]


def make(seed=7):
    torch.manual_seed(seed)
    return ot.CwyRnn(3, 48), torch.randn(20, 16, 3)


def test_threads_get_the_numbers_of_one():
    layer, x = make()
    wanted = loss_and_gradients(layer, x)
    layers = [copy.deepcopy(layer) for _ in range(4)]
    found = {}

    def work(i):
        found[i] = [loss_and_gradients(layers[i], x) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for results in found.values():
        for result in results:
            assert all(torch.equal(a, b) for a, b in zip(result, wanted))


def test_a_forked_child_goes_on():
    """The child of a process whose OpenMP threads have worked must not wait for them."""
    layer, x = make()
    with torch.no_grad():
        wanted = layer(x)[0]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # One thread, as in a worker of a DataLoader: torch's own threads do not live on either.
            torch.set_num_threads(1)
            with torch.no_grad():
                status = 0 if torch.equal(layer(x)[0], wanted) else 2
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    waited = 0
    for _ in range(600):
        waited, status = os.waitpid(child, os.WNOHANG)
        if waited:
            break
        threading.Event().wait(0.1)
    if not waited:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the forked child did not return within a minute")
    assert os.waitstatus_to_exitcode(status) == 0
    with torch.no_grad():
        assert torch.equal(layer(x)[0], wanted)


def test_number_of_threads_is_that_of_torch():
    from orthornn._library import library

    layer, x = make()
    before = torch.get_num_threads()
    try:
        for count in 1, 2:
            torch.set_num_threads(count)
            layer(x)
            assert library().orthornn_thread_count() == count
    finally:
        torch.set_num_threads(before)


def ddp_worker(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        layer, x = make()
        parallel = DistributedDataParallel(layer.double())
        parallel(x.double()[:, rank::2])[0].square().mean().backward()
        if rank == 0:
            torch.save([p.grad for p in layer.parameters()], Path(folder) / "gradients.pt")
    finally:
        dist.destroy_process_group()
    os._exit(0)  # as in test_torch_examples.py: a thread of gloo may still run


def test_gradients_of_ddp_are_those_of_one_process(tmp_path):
    mp.start_processes(ddp_worker, (str(tmp_path),), nprocs=2, start_method="spawn")
    layer, x = make()
    layer.double()(x.double())[0].square().mean().backward()
    for own, p in zip(torch.load(tmp_path / "gradients.pt"), layer.parameters()):
        # The mean of two halves of a batch is rounded once more.
        torch.testing.assert_close(own, p.grad, rtol=1e-12, atol=1e-14)


def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_ten_thousand_calls_leave_nothing_in_memory():
    """A leak of 1 kB a round would be 2.5 MB."""
    layer = ot.CwyRnn(2, 32)
    x = torch.randn(5, 8, 2)
    shape = (2, 4, 2, 2, 8)
    keys = torch.nn.functional.normalize(torch.randn(shape), dim=-1).requires_grad_()
    lengths = torch.tensor([4, 3])

    def calls(count):
        for _ in range(count):
            loss_and_gradients(layer, x)
            ot.delta_product(keys[:, :, 0], keys, keys, keys[..., 0], lengths=lengths)[0].sum().backward()
            keys.grad = None

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        calls(500)
        before = resident()
        # Three operations a round, each with its backward.
        calls(2500)
        # The allocator keeps a few hundred kB more or less.
        assert resident() - before < 1 << 20
    finally:
        torch.set_num_threads(threads)
