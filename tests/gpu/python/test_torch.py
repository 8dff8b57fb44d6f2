"""Torch around it: compilation, autograd, CUDA graphs, threads."""

import threading
import time

import pytest
import torch
from conftest import check

import tilewright


def test_compiles_into_one_graph(make):
    """With the operations around it, and again at another length."""

    @torch.compile(fullgraph=True)
    def layer(q, k, v):
        return tilewright.attention(q * 2, k, v, causal=True) + 1

    for n in (300, 512):
        q, k, v = make(sq=n, sk=n)
        check(layer(q, k, v) - 1, None, q * 2, k, v, True)


def test_compiles_with_dynamic_shapes_and_lse(make):
    """Without a new compilation for every length."""
    compiled = torch.compile(
        lambda q, k, v: tilewright.attention(q, k, v, causal=True, return_lse=True), fullgraph=True, dynamic=True
    )
    for n in (130, 257, 700):
        q, k, v = make(sq=n, sk=n)
        check(*compiled(q, k, v), q, k, v, True)


def test_the_drop_ins_compile(make):
    """Both."""
    q, k, v = make()
    check(torch.compile(tilewright.flash_attn_func, fullgraph=True)(q, k, v, causal=True), None, q, k, v, True)
    compiled = torch.compile(lambda q, k, v: tilewright.sdpa(q, k, v, is_causal=True, enable_gqa=True), fullgraph=True)
    found = compiled(*(x.transpose(1, 2) for x in (q, k, v)))
    check(found.transpose(1, 2), None, q, k, v, True)


def test_reduce_overhead_records_it(make):
    """Inductor's own CUDA graphs."""
    compiled = torch.compile(lambda q, k, v: tilewright.attention(q, k, v, causal=True) * 1, mode="reduce-overhead")
    for _ in range(5):
        q, k, v = make()
        torch.compiler.cudagraph_mark_step_begin()
        check(compiled(q, k, v).clone(), None, q, k, v, True)


def test_the_operator_holds_torchs_rules(make):
    """Schema, fake implementation, autograd registration."""
    tilewright.attention(*make())
    torch.library.opcheck(torch.ops.tilewright.attention, (*make(), True, None))


def test_gradients_say_that_there_is_no_backward_pass(make):
    """Forward is fine, backward names the way out."""
    q, k, v = make()
    q.requires_grad_()
    o = tilewright.attention(q, k, v)
    check(o.detach(), None, q.detach(), k, v)
    with pytest.raises(tilewright.NotSupported, match="no_grad"):
        o.sum().backward()


@pytest.mark.parametrize("causal", [False, True], ids=["static grid", "dynamic grid"])
def test_a_graph_replays_with_new_data(make, causal):
    """Several launches of it in one graph, replayed often: the tile counters are zero again every time."""
    q, k, v = make(sq=1500, sk=1500, hq=16, hk=4)
    tilewright.warm_up(q, k, v, causal=causal)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once, lse = tilewright.attention(q, k, v, causal=causal, return_lse=True)
        twice = tilewright.attention(once, k, v, causal=causal)
    for _ in range(5):
        for x in (q, k, v):
            x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        check(once, lse, q, k, v, causal)
        check(twice, None, once, k, v, causal)


def test_a_cold_kernel_in_a_capture_is_refused_with_the_way_out(make):
    """Loading cannot be recorded."""
    text = """cold {
        pass: forward, element: f16, head_dim: 64, tile: 128 x 112, stages: { q: 1, kv: 3 },
        roles: { producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) },
        overlap: [within_warpgroup],
    }"""
    cold = tilewright.compile(text)
    q, k, v = make(d=64, dtype=torch.float16)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(tilewright.DeviceError, match="warm_up"), torch.cuda.graph(graph):
        cold.attention(q, k, v)


def test_threads_compute_side_by_side(make):
    """One stream each, one lock nowhere held for long."""
    tensors = make(sq=700, sk=700)
    wrong = []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            try:
                for _ in range(20):
                    o = tilewright.attention(*tensors, causal=True)
                torch.cuda.current_stream().synchronize()
                check(o, None, *tensors, True)
            except BaseException as error:
                wrong.append(error)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def test_python_runs_while_a_kernel_loads(make):
    """The interpreter's lock is let go."""
    text = """slow {
        pass: forward, element: bf16, head_dim: 256, tile: 128 x 64, stages: { q: 1, kv: 2 },
        roles: { producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) },
        overlap: [within_warpgroup],
    }"""
    slow = tilewright.compile(text)
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.001):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    q, k, v = make(d=256)
    thread.start()
    start = time.perf_counter()
    slow.attention(q, k, v)
    took = time.perf_counter() - start
    done.set()
    thread.join()
    # Half of the ticks that the time has room for are plenty; with the lock held there would be none.
    assert took < 0.02 or len([t for t in ticks if start <= t <= start + took]) > took / 0.001 / 10


def test_a_call_costs_the_host_little(make):
    """A bound to notice a mistake by, not the figure: that is the benchmark's."""
    q, k, v = make(sq=128, sk=128)
    tilewright.attention(q, k, v)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(200):
        tilewright.attention(q, k, v)
    took = (time.perf_counter() - start) / 200
    torch.cuda.synchronize()
    print(f"{took * 1e6:.1f} us a call")
    assert took < 100e-6
