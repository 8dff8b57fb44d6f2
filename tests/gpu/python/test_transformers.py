"""A small random Llama on `attn_implementation="tilewright"`, beside itself on `sdpa`."""

import warnings

import pytest
import torch

import tilewright

transformers = pytest.importorskip("transformers")


@pytest.fixture(params=[64, 128], ids="d{}".format)
def model(request):
    """Random weights, grouped heads, two layers."""
    tilewright.register_with_transformers()
    config = transformers.LlamaConfig(
        vocab_size=1024,
        hidden_size=8 * request.param,
        intermediate_size=1024,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()


@pytest.fixture
def ids():
    """Two prompts of one length, without the token that stands for padding."""
    return torch.randint(1, 1024, (2, 333), device="cuda")


def logits(model, name, ids, **more):
    """Of one implementation."""
    model.set_attn_implementation(name)
    with torch.inference_mode():
        return model(ids, **more).logits.float()


def tokens(model, name, ids, **more):
    """Greedily, thirty of them."""
    model.set_attn_implementation(name)
    return model.generate(ids, max_new_tokens=30, do_sample=False, pad_token_id=0, **more)


def test_logits_are_as_near_to_float32_as_those_of_sdpa(model, ids):
    """Within twice its error."""
    ours, theirs = logits(model, "tilewright", ids), logits(model, "sdpa", ids)
    exact = logits(model.float(), "sdpa", ids)
    error, bound = ((x - exact).norm() / exact.norm() for x in (ours, theirs))
    assert error <= 2 * bound, (error, bound)


def test_generated_tokens_are_the_same(model, ids):
    """Prefill and decoding. A tie between two logits may go either way; then both choices must be near."""
    ours, theirs = tokens(model, "tilewright", ids), tokens(model, "sdpa", ids)
    for mine, other in zip(ours, theirs, strict=True):
        apart = (mine != other).nonzero()
        if len(apart):
            at = apart[0].item()
            here = logits(model, "sdpa", other[None, :at])[0, -1]
            assert abs(here[mine[at]] - here[other[at]]) < 0.05


def test_it_is_ours_that_runs(model, ids, monkeypatch):
    """Every layer, prefill and steps, without a warning."""
    seen = []
    from tilewright import _native

    run = _native.run
    monkeypatch.setattr(_native, "run", lambda *args: (seen.append(args[0].shape[1]), run(*args))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        tokens(model, "tilewright", ids)
    assert seen[:2] == [333, 333] and seen.count(1) == 2 * 29


def test_padding_goes_to_sdpa_with_a_warning_or_is_refused(model, ids):
    """As the registration says."""
    mask = torch.ones_like(ids)
    mask[0, :50] = 0
    from tilewright import hub

    hub._told.clear()
    with pytest.warns(UserWarning, match="attention_mask"):
        ours = logits(model, "tilewright", ids, attention_mask=mask)
    assert torch.equal(ours, logits(model, "sdpa", ids, attention_mask=mask))
    tilewright.register_with_transformers(fallback=False)
    with pytest.raises(tilewright.NotSupported, match="attention_mask"):
        logits(model, "tilewright", ids, attention_mask=mask)


def test_static_caches_give_the_same_tokens(model, ids):
    """Prefill here, steps where the mask is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = tokens(model, "tilewright", ids, cache_implementation="static", disable_compile=True)
    theirs = tokens(model, "sdpa", ids, cache_implementation="static", disable_compile=True)
    assert (ours == theirs).float().mean() > 0.95


def test_a_compiled_model_is_one_graph(model, ids):
    """Layers and all."""
    plain = logits(model, "tilewright", ids)
    with torch.inference_mode():
        compiled = torch.compile(model, fullgraph=True)(ids).logits.float()
    assert ((compiled - plain).norm() / plain.norm()).item() < 0.03
