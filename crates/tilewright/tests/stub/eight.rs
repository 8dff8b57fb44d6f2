//! Plans of 8-bit elements and the joined roads: what the kernels get, and what is refused before a launch.

use std::collections::HashSet;

use tilewright::cudarc::driver::CudaContext;
use tilewright::half::bf16;
use tilewright::{
    Accumulation, CacheInputs, CacheOptions, E4m3, Element, Exponentials, Fp8, Fp8Inputs, Fp8Options, Inputs, Outputs,
    Plan, Problem, QuantizePointers, RawPointers, ScaleBy, ScalePointers, Scales, ScalesOf, Tilewright, Values,
};

use crate::stream;
use crate::stub::{AT, Launch, Stub, count, problem};

const SCALES: ScalePointers = ScalePointers { q: 0x6000, k: 0x7000, v: 0x8000 };

fn eight(fp8: Fp8) -> Problem {
    let builder = Problem::builder().element(Element::E4m3).batch(2).queries(300).keys(1000).heads(8).kv_heads(2);
    builder.head_dim(128).causal(true).fp8(fp8).build().expect("fine")
}

/// The words of an argument by its name.
fn word<'l>(plan: &Plan, launch: &'l Launch, name: &str) -> &'l [u64] {
    let at = plan.lowered().kernel().params.iter().position(|param| param.name == name).expect("a parameter");
    &launch.arguments[at]
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn the_kernel_of_a_cache_gets_its_tensors_and_scales() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = engine.warm_up(&eight(Fp8 { v: ScaleBy::One.into(), ..Fp8::default() })).expect("loads");
    stub.calls();
    // SAFETY: the stub looks at no stream and runs nothing; an address is a number to it.
    let run = |at, scales| unsafe { plan.run_scaled_raw(stream(0x50), at, scales) };
    run(AT, ScalePointers { v: 0, ..SCALES }).expect("runs");
    let launch = stub.launches().pop().expect("one launch");
    let of = |name: &str| word(&plan, &launch, name);
    for (name, address, dims, strides) in [
        ("q", AT.q, [128, 300, 8, 2], [1024, 128, 307_200]),
        ("k", AT.k, [128, 1000, 2, 2], [256, 128, 256_000]),
        ("v", AT.v, [128, 1000, 2, 2], [256, 128, 256_000]),
        ("o", AT.o, [128, 300, 8, 2], [2048, 256, 614_400]),
    ] {
        let map = of(name);
        assert_eq!((map[0], map[1], &map[2..6], &map[7..10]), (address, 4, &dims[..], &strides[..]), "{name}");
    }
    assert_eq!((of("q_scales")[0], of("k_scales")[0]), (SCALES.q, SCALES.k));
    assert_eq!((of("q_scale_kv_head")[0], of("q_scale_head")[0], of("k_scale_batch")[0]), (1, 0, 2));
    // V has none: a 1 in device memory, which is host memory here.
    let one = of("v_scales")[0];
    // SAFETY: the stub allocated it.
    assert_eq!(unsafe { *(one as *const f32) }, 1.0);
    assert_eq!((of("v_scale_batch")[0], of("v_scale_kv_head")[0]), (0, 0));

    for (name, scales) in
        [("q scales", ScalePointers { q: 0, ..SCALES }), ("k scales", ScalePointers { k: 0x7002, ..SCALES })]
    {
        let told = run(AT, scales).expect_err("odd").to_string();
        assert!(told.contains(&format!("tensor {name}: base address")), "{told}");
    }
    let told = run(RawPointers { k: AT.k + 8, ..AT }, SCALES).expect_err("odd").to_string();
    assert!(told.contains("tensor k: base address"), "{told}");
    // SAFETY: as above.
    let told = unsafe { plan.run_raw(stream(0x50), AT) }.expect_err("no scales").to_string();
    assert!(told.contains("q scales"), "{told}");
    assert_eq!(stub.launches().len(), 0);
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn buffers_of_8_bits_are_checked() {
    let stub = Stub::open();
    let context = CudaContext::new(0).expect("a context");
    let engine = Tilewright::new(&context).expect("fit");
    let plan = engine.warm_up(&eight(Fp8::default())).expect("loads");
    let on = context.new_stream().expect("a stream");
    let (q, kv) = (on.alloc_zeros::<E4m3>(614_400).expect("memory"), on.alloc_zeros::<E4m3>(512_000).expect("memory"));
    let (scales, more) = (on.alloc_zeros::<f32>(4).expect("memory"), on.alloc_zeros::<f32>(6).expect("memory"));
    let mut o = on.alloc_zeros::<bf16>(614_400).expect("memory");
    let mut lse = on.alloc_zeros::<f32>(4800).expect("memory");
    let all = Scales { q: Some(&scales), k: Some(&scales), v: Some(&scales) };
    stub.calls();
    let mut run =
        |scales| plan.run_fp8(&on, Fp8Inputs { q: &q, k: &kv, v: &kv, scales }, Outputs { o: &mut o, lse: &mut lse });
    run(all).expect("runs");
    assert_eq!(stub.launches().len(), 1);
    let told = run(Scales { k: Some(&more), ..all }).expect_err("[3, 2]").to_string();
    assert!(told.contains("k scales: by kv_head they are [2, 2, 1]"), "{told}");
    let told = run(Scales { v: None, ..all }).expect_err("none").to_string();
    assert!(told.contains("v scales"), "{told}");
    assert_eq!(stub.launches().len(), 0);
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn sixteen_bits_are_rounded_and_multiplied_in_two_launches() {
    let stub = Stub::open();
    let context = CudaContext::new(0).expect("a context");
    let engine = Tilewright::new(&context).expect("fit");
    let on = context.new_stream().expect("a stream");
    let (exact, linear) = (Exponentials::Exact, Exponentials::Linear);
    for (scales, accumulation, exponentials, begin) in [
        (ScalesOf::Block, Accumulation::Fast, exact, "fwd_e4m3"),
        (ScalesOf::Block, Accumulation::Fast, linear, "fwd_linear_e4m3"),
        (ScalesOf::Block, Accumulation::Accurate, exact, "fwd_long_e4m3"),
        (ScalesOf::Block, Accumulation::Accurate, linear, "fwd_long_e4m3"),
        (ScalesOf::Head, Accumulation::Fast, linear, "fwd_linear_e4m3"),
        (ScalesOf::Tensor, Accumulation::Fast, exact, "fwd_e4m3"),
    ] {
        let options = Fp8Options { scales, accumulation, ..Fp8Options::default() }.exponentials(exponentials);
        let plan = engine.plan_fp8(&problem(true), &options).expect("supported");
        let name = &plan.attention().schedule().name;
        assert!(name.starts_with(begin), "{name}");
        plan.warm_up().expect("loads");
        let q = on.alloc_zeros::<bf16>(614_400).expect("memory");
        let kv = on.alloc_zeros::<bf16>(512_000).expect("memory");
        let mut o = on.alloc_zeros::<bf16>(614_400).expect("memory");
        let mut lse = on.alloc_zeros::<f32>(4800).expect("memory");
        let mut workspace = plan.allocate(&on).expect("memory");
        stub.calls();
        let (inputs, outputs) = (Inputs { q: &q, k: &kv, v: &kv }, Outputs { o: &mut o, lse: &mut lse });
        plan.run(&on, inputs, outputs, &mut workspace).expect("runs");
        let [first, second] = <[Launch; 2]>::try_from(stub.launches()).ok().expect("two launches");
        let written = |name: &str| {
            let at = plan.quantizer().lowered().kernel().params.iter().position(|param| param.name == name);
            first.arguments[at.expect("a parameter")][0]
        };
        let of = |name: &str| word(plan.attention(), &second, name)[0];
        for name in ["q", "k", "v"] {
            assert_eq!(written(&format!("{name}_codes")), of(name));
            assert_eq!(written(&format!("{name}_scales")), of(&format!("{name}_scales")));
        }
        let columns = u64::from(plan.attention().schedule().tile.columns);
        if scales == ScalesOf::Block {
            assert_eq!(of("k_scale_kv_head"), 1000_u64.div_ceil(columns));
            assert_eq!(plan.quantizer().schedule().scales.k.rows(), columns as u32);
        }
        // Nothing is launched where something is odd.
        let odd = RawPointers { o: AT.o + 2, ..AT };
        // SAFETY: the stub runs nothing.
        assert!(unsafe { plan.run_raw(stream(0x50), odd, 0x10000) }.is_err());
        // SAFETY: as above.
        let told = unsafe { plan.run_raw(stream(0x50), AT, 0x10008) }.expect_err("odd").to_string();
        assert!(told.contains("tensor workspace"), "{told}");
        assert_eq!(stub.launches().len(), 0);
        // SAFETY: as above.
        let prepared = unsafe { plan.prepare_raw(AT, 0x10000) }.expect("prepares");
        stub.calls();
        // SAFETY: as above.
        unsafe { prepared.launch(stream(0x50)) }.expect("runs");
        assert_eq!(count(&stub.calls(), "cuLaunchKernelEx"), 2);
    }
    let told = engine.plan_fp8(&eight(Fp8::default()), &Fp8Options::default()).expect_err("8 bits").to_string();
    assert!(told.contains("8 bits already"), "{told}");
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn a_workspace_that_holds_anything_is_left_alone_or_zeroed_where_no_words_are_left() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = engine.plan_fp8(&problem(true), &Fp8Options::default()).expect("supported");
    let quantizer = plan.quantizer();
    quantizer.warm_up().expect("loads");
    let params = &quantizer.lowered().kernel().params;
    let at = params.iter().position(|param| param.name == "counter").expect("items are drawn");
    // The stub sets memory of the host.
    let mut room = vec![u128::MAX; quantizer.workspace_bytes().div_ceil(16) as usize];
    let own = room.as_mut_ptr() as u64;
    let (tensors, codes) = ([AT.q, AT.k, AT.v], [0x20000, 0x30000, 0x40000]);
    let to = QuantizePointers { tensors, codes, scales: [SCALES.q, SCALES.k, SCALES.v], workspace: own };
    // SAFETY: the stub looks at no stream and runs nothing; an address is a number to it.
    let run = |on| unsafe { quantizer.run_raw_unzeroed(stream(on), &to) }.expect("runs");
    let words = |on| {
        run(on);
        stub.launches()[0].arguments[at][0]
    };
    let zeroes = |on| {
        stub.calls();
        run(on);
        count(&stub.calls(), "cuMemsetD8Async") == 1
    };
    stub.calls();
    // Nothing is added inside of a capture.
    stub.tell("capturing", 1);
    assert!(words(0x50) == own && zeroes(0x50));
    stub.tell("capturing", 0);
    let (a, b) = (words(0x50), words(0x60));
    assert_eq!((words(0x50), words(0x60), zeroes(0x50)), (a, b, false));
    assert!(a != b && ![a, b].contains(&own));
    // SAFETY: the stub allocates on the host, and zeroes.
    assert_eq!(unsafe { *(a as *const u32) }, 0);
    stub.tell("capturing", 1);
    assert!(!zeroes(0x50));
    let fresh: Vec<u64> = (0..5000).map(|_| words(0x50)).take_while(|&at| at != own).collect();
    let apart: HashSet<u64> = fresh.iter().copied().chain([a, b]).collect();
    assert_eq!(apart.len(), fresh.len() + 2);
    assert!((1000..5000).contains(&fresh.len()) && zeroes(0x50), "{}", fresh.len());
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn q_alone_is_rounded_over_a_cache() {
    let stub = Stub::open();
    let context = CudaContext::new(0).expect("a context");
    let engine = Tilewright::new(&context).expect("fit");
    let on = context.new_stream().expect("a stream");
    let plan = engine.plan_fp8_cache(&eight(Fp8::default()), Element::Bf16, &CacheOptions::default()).expect("fine");
    assert_eq!(plan.attention().schedule().fp8.map(|fp8| fp8.values), Some(Values::Rows));
    plan.warm_up().expect("loads");
    let q = on.alloc_zeros::<bf16>(614_400).expect("memory");
    let kv = on.alloc_zeros::<E4m3>(512_000).expect("memory");
    let scales = on.alloc_zeros::<f32>(4).expect("memory");
    let mut o = on.alloc_zeros::<bf16>(614_400).expect("memory");
    let mut lse = on.alloc_zeros::<f32>(4800).expect("memory");
    let mut workspace = plan.allocate(&on).expect("memory");
    stub.calls();
    let mut run = |scales| {
        let inputs = CacheInputs { q: &q, k: &kv, v: &kv, scales };
        plan.run(&on, inputs, Outputs { o: &mut o, lse: &mut lse }, &mut workspace)
    };
    let both = Scales { q: None, k: Some(&scales), v: Some(&scales) };
    run(both).expect("runs");
    let launches = stub.launches();
    assert_eq!(launches.len(), 2);
    let of = |name: &str| word(plan.attention(), &launches[1], name)[0];
    assert_eq!((of("q_scale_head"), of("q_scale_block"), of("k_scale_kv_head")), (5, 1, 1));
    assert!(run(Scales { q: Some(&scales), ..both }).expect_err("made here").to_string().contains("q scales"));
    assert_eq!(stub.launches().len(), 0);
    for (problem, queries) in [(eight(Fp8::default()), Element::E4m3), (problem(false), Element::Bf16)] {
        let told = engine.plan_fp8_cache(&problem, queries, &CacheOptions::default());
        assert!(matches!(told, Err(tilewright::Error::Element { .. })));
    }
}
