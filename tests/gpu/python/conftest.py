"""What the tests on a GPU share: random tensors, and references in float64."""

from __future__ import annotations

import pytest

try:
    import torch
except ImportError as why:
    pytest.exit(f"not run: {why}", returncode=2)
if not torch.cuda.is_available():
    pytest.exit("not run: torch sees no GPU", returncode=2)


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers in every test."""
    torch.manual_seed(7)


@pytest.fixture
def make():
    """Q, K and V by shape: `make(batch, queries, keys, heads, kv_heads, dim, v_dim, dtype)`."""

    def tensors(b=2, sq=300, sk=300, hq=4, hk=2, d=128, dv=None, dtype=torch.bfloat16):
        def one(tokens, heads, dim):
            return torch.randn(b, tokens, heads, dim, device="cuda", dtype=dtype)

        return one(sq, hq, d), one(sk, hk, d), one(sk, hk, dv or d)

    return tensors


def exact(q, k, v, causal=False, scale=None):
    """O `[B, Sq, Hq, Dv]` and LSE `[B, Hq, Sq]` in float64, causal at the bottom right."""
    group = q.shape[2] // k.shape[2]
    qd, kd, vd = (x.transpose(1, 2).double() for x in (q, k, v))
    kd, vd = (x.repeat_interleave(group, 1) for x in (kd, vd))
    scores = qd @ kd.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        rows, columns = scores.shape[-2:]
        hidden = torch.ones(rows, columns, dtype=torch.bool, device=q.device).triu(columns - rows + 1)
        scores = scores.masked_fill(hidden, -float("inf"))
    lse = torch.logsumexp(scores, -1)
    o = torch.softmax(scores, -1).nan_to_num(0.0) @ vd
    return o.transpose(1, 2), lse


def rounded(q, k, v, causal=False, scale=None):
    """What 16-bit attention written down in torch reaches: scores and probabilities rounded to the inputs' type."""
    group = q.shape[2] // k.shape[2]
    qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
    kt, vt = (x.repeat_interleave(group, 1) for x in (kt, vt))
    scores = qt @ kt.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        rows, columns = scores.shape[-2:]
        hidden = torch.ones(rows, columns, dtype=torch.bool, device=q.device).triu(columns - rows + 1)
        scores = scores.masked_fill(hidden, -float("inf"))
    return (torch.softmax(scores, -1).nan_to_num(0.0) @ vt).transpose(1, 2)


def relative(found, reference):
    """‖found - reference‖ / ‖reference‖."""
    return ((found.double() - reference).norm() / reference.norm()).item()


def check(found, lse, q, k, v, causal=False, scale=None):
    """O within twice the error of 16-bit attention, LSE within 1e-3, no NaN."""
    o, exact_lse = exact(q, k, v, causal, scale)
    bound = 2 * relative(rounded(q, k, v, causal, scale), o)
    error = relative(found, o)
    assert error <= bound, f"error of O {error:.2e}, bound {bound:.2e}"
    if lse is not None:
        hidden = torch.isinf(exact_lse)
        assert torch.equal(torch.isinf(lse), hidden)
        assert (lse.double() - exact_lse)[~hidden].abs().max().item() <= 1e-3
    return error
