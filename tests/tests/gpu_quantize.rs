//! The quantizer on the GPU: codes and scales against the reference, to the bit where nothing is rotated; what is not
//! zero between launches, and what is refused before one.

use std::process::ExitCode;

use half::{bf16, f16};
use schedule::{Element, Granularities, Granularity, HeadDim, Quantize, Rotation};
use tilewright::reference::codes::{self, Codes, Rounded};
use tilewright::reference::{self, e4m3};
use tilewright::{Error, Half, Problem, ProblemBuilder, QuantizeOptions, Quantizer, Strides};
use tilewright_tests::gpu::call::{Uploaded, build};
use tilewright_tests::gpu::data::{Tensors, extents};
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{self, Case, gpu};

const SEED: u32 = 12345;
/// Codes that the order of the rotation's sums may move to a neighbour: one in so many.
const MOVED: usize = 500;

fn main() -> ExitCode {
    let mut cases = vec![
        gpu("any_strides", any_strides),
        gpu("short_buffers_are_refused", short_buffers_are_refused),
        gpu("a_head_that_just_finds_room_and_one_that_does_not", a_head_that_just_finds_room_and_one_that_does_not),
    ];
    let mut all = templates::quantizers();
    for (dim, k) in [
        (64, 128),
        (64, 160),
        (64, 224),
        (96, 128),
        (128, 64),
        (128, 128),
        (128, 160),
        (128, 192),
        (128, 224),
        (192, 128),
        (72, 64),
    ] {
        all.push(Quantize::for_hopper(Element::Bf16, HeadDim::same(dim), Rotation::Hadamard, blocks(k)));
    }
    cases.extend(all.into_iter().map(by_schedule));
    suite::main(cases)
}

fn blocks(k: u32) -> Granularities {
    Granularities { q: Granularity::Block(64), k: Granularity::Block(k), v: Granularity::Head }
}

fn by_schedule(schedule: Quantize) -> Case {
    gpu(schedule.name.clone(), move |gpu| match schedule.element {
        Element::F16 => every_shape::<f16>(gpu, &schedule),
        _ => every_shape::<bf16>(gpu, &schedule),
    })
}

fn problem(schedule: &Quantize) -> ProblemBuilder {
    let HeadDim { qk, v } = schedule.head_dim;
    Problem::builder().head_dims(qk, v).element(schedule.element)
}

/// One tile of each; ragged with shared heads; more than all SMs take at once; more than one section of V. Each with V read
/// once, where it finds room, and twice.
fn every_shape<T: Half>(gpu: &Gpu, schedule: &Quantize) {
    for (batch, queries, keys, heads, kv_heads) in
        [(1, 64, 128, 1, 1), (2, 333, 777, 4, 2), (3, 1000, 3000, 8, 8), (1, 5, 9000, 2, 2)]
    {
        let shape = problem(schedule).batch(batch).queries(queries).keys(keys).heads(heads).kv_heads(kv_heads);
        let shape = build(shape);
        for all_at_once in [true, false] {
            let options = QuantizeOptions { seed: SEED, section_bytes: 1 << 20, all_at_once, ..Default::default() };
            hold::<T>(gpu, schedule, &shape, &options);
        }
    }
}

/// As many tiles as there are warpgroups, all of which then wait for all; and one more, so that V is read twice.
fn a_head_that_just_finds_room_and_one_that_does_not(gpu: &Gpu) {
    let schedule = Quantize::for_hopper(Element::Bf16, HeadDim::same(128), Rotation::Off, blocks(128));
    let room = gpu.attention.device().sms() * schedule.roles.consumer.warpgroups * schedule.value_keys();
    for keys in [room, room + 1] {
        let shape = problem(&schedule).queries(1).keys(keys.into()).heads(1).kv_heads(1);
        hold::<bf16>(gpu, &schedule, &build(shape), &QuantizeOptions::default());
    }
}

fn any_strides(gpu: &Gpu) {
    let schedule = Quantize::for_hopper(Element::Bf16, HeadDim::same(128), Rotation::Off, blocks(96));
    let packed = [500 * 6 * 128, 6 * 128, 128];
    let shape = problem(&schedule).batch(2).queries(70).keys(500).heads(4).kv_heads(2);
    let shape = shape.q_strides(Strides::heads_first(70, 4, 128)).k_strides(packed).v_strides(packed);
    hold::<bf16>(gpu, &schedule, &build(shape), &QuantizeOptions::default());
}

/// Quantizes twice with one workspace, and holds what comes out against the reference.
fn hold<T: Half>(gpu: &Gpu, schedule: &Quantize, problem: &Problem, options: &QuantizeOptions) {
    let host = Tensors::<T>::random(problem, 7);
    let inputs = Uploaded::new(&gpu.stream, &host);
    let quantizer = Quantizer::new(&gpu.attention, problem, schedule, options).expect("the problem is the schedule's");
    let mut quantized = quantizer.allocate(&gpu.stream).expect("device memory");
    let mut last = None;
    for _ in 0..2 {
        quantizer.run(&gpu.stream, inputs.inputs(), &mut quantized).unwrap_or_else(|error| panic!("{error}"));
        gpu.wait(&gpu.stream);
        let workspace = gpu.stream.clone_dtoh(&quantized.workspace).expect("a copy");
        assert!(workspace.iter().all(|&word| word == 0), "the workspace is left at zero");
        let written = [0, 1, 2].map(|t| Codes {
            codes: gpu.stream.clone_dtoh(&quantized.codes[t]).expect("a copy"),
            scales: gpu.stream.clone_dtoh(&quantized.scales[t]).expect("a copy"),
        });
        for (t, name) in ["q", "k", "v"].into_iter().enumerate() {
            let same = last.as_ref().is_none_or(|last: &[Codes; 3]| same(&last[t], &written[t]));
            assert!(same, "{name} of {problem:?} is not the same twice: {}", apart(last.as_ref(), &written, t));
        }
        last = Some(written);
    }
    let rotation = (schedule.rotation != Rotation::Off).then_some(reference::Rotation { seed: options.seed });
    let (scales, all) = (schedule.scales, [&host.q, &host.k, &host.v]);
    for (t, granularity) in [scales.q, scales.k, scales.v].into_iter().enumerate() {
        let tensor = Rounded { data: &all[t][..], extents: extents(problem)[t], strides: problem.strides()[t] };
        let right = match t {
            2 => codes::values(&tensor, granularity),
            _ => codes::rows(&tensor, rotation, granularity),
        };
        let exact = t == 2 || rotation.is_none();
        compare(["q", "k", "v"][t], &last.as_ref().expect("it ran")[t], &right, exact);
    }
}

/// To the bit.
fn same(a: &Codes, b: &Codes) -> bool {
    a.codes == b.codes && a.scales.iter().map(|s| s.to_bits()).eq(b.scales.iter().map(|s| s.to_bits()))
}

/// Where two runs differ.
fn apart(last: Option<&[Codes; 3]>, written: &[Codes; 3], t: usize) -> String {
    let Some(last) = last else { return String::new() };
    let (a, b) = (&last[t], &written[t]);
    let codes: Vec<usize> = (0..a.codes.len()).filter(|&at| a.codes[at] != b.codes[at]).collect();
    let scales: Vec<usize> =
        (0..a.scales.len()).filter(|&at| a.scales[at].to_bits() != b.scales[at].to_bits()).collect();
    let few = |all: &[usize]| all.iter().take(6).copied().collect::<Vec<_>>();
    format!("{} codes {:?}, {} scales {:?}", codes.len(), few(&codes), scales.len(), few(&scales))
}

fn compare(name: &str, written: &Codes, right: &Codes, exact: bool) {
    let near = |a: f32, b: f32| a == b || !exact && (a - b).abs() <= 1e-6 * b.abs();
    let scales = written.scales.iter().zip(&right.scales);
    assert_eq!((written.codes.len(), written.scales.len()), (right.codes.len(), right.scales.len()), "{name}");
    assert!(scales.clone().all(|(&a, &b)| near(a, b)), "{name}: scales {:?}", scales.take(4).collect::<Vec<_>>());
    let mut moved = 0;
    for (at, (&a, &b)) in written.codes.iter().zip(&right.codes).enumerate() {
        let steps = e4m3::steps_apart(a, b);
        assert!(steps == Some(0) || !exact && steps == Some(1), "{name}: code {at} is {a:#04x}, {b:#04x} is right");
        moved += usize::from(steps != Some(0));
    }
    assert!(moved * MOVED <= right.codes.len(), "{name}: {moved} of {} codes are neighbours", right.codes.len());
}

fn short_buffers_are_refused(gpu: &Gpu) {
    let schedule = Quantize::for_hopper(Element::Bf16, HeadDim::same(64), Rotation::Hadamard, blocks(128));
    let problem = build(problem(&schedule).queries(100).keys(200).heads(2).kv_heads(1));
    let inputs = Uploaded::new(&gpu.stream, &Tensors::<bf16>::random(&problem, 1));
    let quantizer = Quantizer::new(&gpu.attention, &problem, &schedule, &Default::default()).expect("fits");
    let told = |tensor: &str, change: &dyn Fn(&mut tilewright::Quantized)| {
        let mut quantized = quantizer.allocate(&gpu.stream).expect("device memory");
        change(&mut quantized);
        match quantizer.run(&gpu.stream, inputs.inputs(), &mut quantized) {
            Err(Error::Buffer { tensor: found, .. }) => assert_eq!(found, tensor),
            other => panic!("{tensor}: {other:?}"),
        }
    };
    told("k codes", &|q| q.codes[1] = gpu.stream.alloc_zeros(200 * 64 - 1).expect("memory"));
    told("q scales", &|q| q.scales[0] = gpu.stream.alloc_zeros(3).expect("memory"));
    told("workspace", &|q| q.workspace = gpu.stream.alloc_zeros(7).expect("memory"));
    let f16 = Uploaded::new(&gpu.stream, &Tensors::<f16>::random(&problem, 1));
    let mut quantized = quantizer.allocate(&gpu.stream).expect("device memory");
    let refused = quantizer.run(&gpu.stream, f16.inputs(), &mut quantized);
    assert!(matches!(refused, Err(Error::Element { .. })), "{refused:?}");
}
