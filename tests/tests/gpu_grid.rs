//! The grid of shapes: every element type, head dimension and mask over lengths and groups, held to twice the error of a 16-bit reference;
//! and every shipped schedule by itself.
//!
//! A trial is one cell with all its shapes and tells every shape that is off, so that a pattern shows. Lengths form latin squares: a cell has
//! every length of Q and every length of K at least twice, and all cells together have every pair of lengths.

use std::process::ExitCode;

use half::{bf16, f16};
use schedule::{Element, Schedule, Variant};
use tilewright::{Half, Plan, Problem};
use tilewright_tests::gpu::call::{build, run};
use tilewright_tests::gpu::compare::{Errors, against_references, rows};
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{self, Case, gpu};

const ELEMENTS: [Element; 2] = [Element::Bf16, Element::F16];
const HEAD_DIMS: [(u32, u32); 6] = [(64, 64), (96, 96), (128, 128), (192, 192), (256, 256), (192, 128)];
const LENGTHS: [u64; 11] = [1, 63, 64, 65, 127, 128, 129, 333, 1000, 2048, 4097];
const GROUPS: [u64; 3] = [1, 4, 7];
/// Shapes from here on (scores of one head) have one batch and one key head.
const LARGE: u64 = 1 << 20;

/// One shape of a cell.
#[derive(Debug, Clone, Copy)]
struct Shape {
    batch: u64,
    queries: u64,
    keys: u64,
    group: u64,
    kv_heads: u64,
}

impl Shape {
    fn new(queries: u64, keys: u64, group: u64) -> Self {
        let few = if queries * keys < LARGE { 2 } else { 1 };
        Self { batch: few, queries, keys, group, kv_heads: few }
    }
}

/// The cells: element, head dimensions, whether causal.
fn cells() -> Vec<(Element, (u32, u32), bool)> {
    let masked = |element, dims| [false, true].map(|causal| (element, dims, causal));
    ELEMENTS.iter().flat_map(|&e| HEAD_DIMS.iter().flat_map(move |&dims| masked(e, dims))).collect()
}

/// The shapes of a cell: two latin squares of lengths with groups in turn, then the corners.
fn shapes(cell: usize) -> Vec<Shape> {
    let n = LENGTHS.len();
    let mut all = Vec::new();
    for square in [cell, cell + 5] {
        let pairs = LENGTHS.iter().enumerate().map(|(i, &queries)| (i, queries, LENGTHS[(i + square) % n]));
        all.extend(pairs.map(|(i, queries, keys)| Shape::new(queries, keys, GROUPS[(i + cell + square) % 3])));
    }
    let (least, most) = (LENGTHS[0], LENGTHS[n - 1]);
    let corners = [(least, least), (least, most), (most, least), (most, most)];
    all.extend(corners.iter().enumerate().map(|(at, &(sq, sk))| Shape::new(sq, sk, GROUPS[(at + cell) % 3])));
    all
}

/// Runs shapes and tells all that are off at once; gives the worst errors.
fn check<T: Half>(gpu: &Gpu, shapes: &[Shape], plan: impl Fn(&Shape) -> Plan) -> Errors {
    let mut off = Vec::new();
    let mut worst = Errors::default();
    for (at, shape) in shapes.iter().enumerate() {
        let plan = plan(shape);
        let host = Tensors::<T>::random(plan.problem(), 1000 + 3 * at as u64);
        let answer = run(gpu, &plan, &host);
        let which = rows(plan.problem(), u64::from(plan.schedule().tile.rows));
        match against_references(&answer, &host, &which) {
            Ok(errors) => worst = worst.worse(errors),
            Err(what) => off.push(format!("  {} by {}: {what}", plan.problem(), plan.schedule().name)),
        }
    }
    assert!(off.is_empty(), "{} of {} shapes are off:\n{}", off.len(), shapes.len(), off.join("\n"));
    worst
}

fn told(count: usize, worst: Errors) {
    let Errors { kernel, reference, lse } = worst;
    print!("[{count} shapes, worst {:.2} x: {kernel:.1e} to {reference:.1e}, LSE {lse:.0e}] ", worst.ratio());
}

/// The problem of a shape.
fn problem(element: Element, (qk, v): (u32, u32), causal: bool, shape: &Shape) -> Problem {
    let Shape { batch, queries, keys, group, kv_heads } = *shape;
    let builder = Problem::builder().element(element).head_dims(qk, v).causal(causal).batch(batch);
    build(builder.queries(queries).keys(keys).heads(group * kv_heads).kv_heads(kv_heads))
}

fn cell(at: usize, (element, dims, causal): (Element, (u32, u32), bool)) -> Case {
    let dim = if dims.0 == dims.1 { format!("d{}", dims.0) } else { format!("d{}x{}", dims.0, dims.1) };
    let mask = if causal { "causal" } else { "full" };
    gpu(format!("grid::{element}_{dim}_{mask}"), move |gpu| {
        let shapes = shapes(at);
        let plan = |shape: &Shape| {
            let problem = problem(element, dims, causal, shape);
            gpu.attention.plan(&problem).expect("a schedule for every cell")
        };
        let worst = match element {
            Element::F16 => check::<f16>(gpu, &shapes, plan),
            _ => check::<bf16>(gpu, &shapes, plan),
        };
        told(shapes.len(), worst);
    })
}

/// What every schedule is tried on: one tile and less, ragged both ways, many heads (more tiles than SMs), long.
fn schedule_shapes() -> Vec<Shape> {
    let many = Shape { batch: 4, queries: 1000, keys: 900, group: 4, kv_heads: 3 };
    let mut all = [(1, 1, 1), (129, 333, 4), (333, 129, 7), (64, 4097, 4), (2048, 2048, 1), (191, 193, 1)]
        .map(|(sq, sk, g)| Shape::new(sq, sk, g))
        .to_vec();
    all.push(many);
    all
}

fn by_schedule(schedule: Schedule) -> Case {
    gpu(format!("schedule::{}", schedule.name), move |gpu| {
        let shapes = schedule_shapes();
        let plan = |shape: &Shape| {
            let dims = (schedule.head_dim.qk, schedule.head_dim.v);
            let causal = schedule.variant == Variant::Causal;
            let problem = problem(schedule.element, dims, causal, shape);
            Plan::with_schedule(&gpu.attention, &problem, &schedule).expect("a shipped schedule runs")
        };
        let worst = match schedule.element {
            Element::F16 => check::<f16>(gpu, &shapes, plan),
            _ => check::<bf16>(gpu, &shapes, plan),
        };
        told(shapes.len(), worst);
    })
}

/// The lengths cover what they are meant to.
fn covering() {
    let cells = cells();
    let mut pairs = std::collections::HashSet::new();
    for at in 0..cells.len() {
        let shapes = shapes(at);
        let longer = shapes.iter().filter(|shape| shape.queries > shape.keys).count();
        let shorter = shapes.iter().filter(|shape| shape.queries < shape.keys).count();
        assert!(shapes.len() >= 14 && longer >= 4 && shorter >= 4, "cell {at}");
        for length in LENGTHS {
            assert!(shapes.iter().any(|shape| shape.queries == length), "cell {at} has no Sq {length}");
            assert!(shapes.iter().any(|shape| shape.keys == length), "cell {at} has no Sk {length}");
        }
        for group in GROUPS {
            assert!(shapes.iter().any(|shape| shape.group == group), "cell {at} has no group {group}");
        }
        pairs.extend(shapes.iter().map(|shape| (shape.queries, shape.keys)));
    }
    assert_eq!((cells.len(), pairs.len()), (24, LENGTHS.len() * LENGTHS.len()));
}

fn main() -> ExitCode {
    let mut cases = vec![suite::cpu("the_shapes_cover_the_grid", covering)];
    cases.extend(cells().into_iter().enumerate().map(|(at, of)| cell(at, of)));
    cases.extend(templates::all().into_iter().filter(|s| s.fp8.is_none()).map(by_schedule));
    suite::main(cases)
}
