//! The quantizer on the machine: it runs clean, and its codes and scales are those of the reference, to the bit where
//! nothing is rotated.

mod case;
mod held;
mod values;

use case::{Case, Written};
use schedule::{Consumer, Element, Granularities, Granularity, HOPPER, HeadDim, Producer, Quantize, Roles, Rotation};
use sim::{Kind, Options, Policy};
use tilewright::abi::quantize::Options as Chosen;
use tilewright::{Problem, ProblemBuilder, Strides};

const CHOSEN: Chosen = Chosen { code_strides: [None; 2], seed: 12345, section_bytes: 8 << 20, all_at_once: true };

/// Q by 64 rows, K by so many, V by head.
fn blocks(k: u32) -> Granularities {
    Granularities { q: Granularity::Block(64), k: Granularity::Block(k), v: Granularity::Head }
}

fn quantize(dim: u32, scales: Granularities) -> Quantize {
    Quantize::for_hopper(Element::Bf16, HeadDim::same(dim), Rotation::Hadamard, scales)
}

/// So many warpgroups that consume, each with a warp that loads for it.
fn roles(warpgroups: u32, registers: u32) -> Roles {
    Roles { producer: Producer { warps: warpgroups, registers: 24 }, consumer: Consumer { warpgroups, registers } }
}

fn problem(dim: u32) -> ProblemBuilder {
    Problem::builder().batch(2).queries(70).keys(203).heads(2).kv_heads(1).head_dim(dim)
}

/// Seeds of the adversary; `TILEWRIGHT_SIM_SEEDS` says how many.
pub fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("TILEWRIGHT_SIM_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// Operations complete when they are issued; the order of warps and blocks is the adversary's. Where several warps wait
/// for a word in global memory, the machine would put copies off for as long as they look.
fn hold(what: &str, case: &Case<'_>) {
    hold_by(what, case, Policy::Early);
}

fn hold_by(what: &str, case: &Case<'_>, policy: Policy) {
    for seed in seeds() {
        right(what, case, &Options { policy, ..Options::seeded(seed) });
    }
}

/// What one run writes, held against the reference.
pub fn right(what: &str, case: &Case<'_>, options: &Options) -> Written {
    let written = case.run(options).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    let differences = case.differences(&written);
    assert!(differences.is_empty(), "{what}: {differences:#?}");
    written
}

#[test]
fn every_head_dimension_and_block_of_the_attention_kernels() {
    for (dim, k) in [
        (64, 128),
        (64, 160),
        (64, 224),
        (96, 128),
        (128, 64),
        (128, 96),
        (128, 160),
        (128, 192),
        (128, 224),
        (192, 128),
        (256, 128),
    ] {
        let schedule = quantize(dim, blocks(k));
        let problem = problem(dim).keys(u64::from(k) + 75).build().expect("fine");
        hold(&schedule.name, &Case::new(&schedule, &problem, &CHOSEN));
    }
}

#[test]
fn head_dimensions_that_are_no_power_of_two_rotate_by_blocks() {
    for dim in [8, 16, 24, 40, 72, 80, 120, 248] {
        let schedule = quantize(dim, blocks(64));
        hold(&schedule.name, &Case::new(&schedule, &problem(dim).build().expect("fine"), &CHOSEN));
    }
}

#[test]
fn codes_of_what_is_not_rotated_are_exact() {
    for (element, dim) in [(Element::Bf16, 128), (Element::F16, 64), (Element::F16, 72)] {
        let schedule = Quantize { element, rotation: Rotation::Off, ..quantize(dim, blocks(96)) };
        let problem = problem(dim).element(element).build().expect("fine");
        hold(&format!("{element} {dim}"), &Case::new(&schedule, &problem, &CHOSEN));
    }
}

#[test]
fn values_may_have_rows_of_their_own_length() {
    let head_dim = HeadDim { qk: 192, v: 128 };
    let schedule = Quantize::for_hopper(Element::F16, head_dim, Rotation::Hadamard, blocks(128));
    let problem = problem(64).head_dims(192, 128).element(Element::F16).build().expect("fine");
    hold(&schedule.name, &Case::new(&schedule, &problem, &CHOSEN));
}

#[test]
fn scales_of_heads_and_tensors_wait_for_all_their_tiles() {
    use Granularity::{Block, Head, Tensor};
    for (q, k, v) in
        [(Head, Head, Head), (Tensor, Tensor, Tensor), (Head, Block(96), Tensor), (Block(64), Tensor, Head)]
    {
        let schedule = quantize(64, Granularities { q, k, v });
        let problem = problem(64).heads(4).kv_heads(2).keys(300).build().expect("fine");
        for (ctas, all_at_once) in [(1, true), (3, true), (3, false)] {
            let chosen = Chosen { all_at_once, ..CHOSEN };
            hold(&schedule.name, &Case::new(&schedule, &problem, &chosen).ctas(ctas));
        }
    }
}

#[test]
fn sections_change_the_order_alone() {
    let schedule = quantize(64, Granularities { k: Granularity::Head, ..blocks(64) });
    // Six heads of K and V in sections of one, of four and of all: even, with a shorter last one, and alone.
    let problem = problem(64).heads(3).kv_heads(3).keys(270).build().expect("fine");
    for heads in [6, 4, 1] {
        let chosen = Chosen { section_bytes: heads * 270 * 64 * 2, all_at_once: false, ..CHOSEN };
        hold(&format!("sections of {heads}"), &Case::new(&schedule, &problem, &chosen));
    }
}

#[test]
fn shapes_that_fill_no_tile() {
    let schedule = quantize(128, blocks(128));
    for (queries, keys) in [(1, 1), (64, 128), (65, 129), (127, 16), (3, 17)] {
        let problem = problem(128).queries(queries).keys(keys).build().expect("fine");
        hold(&format!("{queries} x {keys}"), &Case::new(&schedule, &problem, &CHOSEN));
    }
    for (queries, keys) in [(0, 50), (50, 0)] {
        let problem = problem(128).queries(queries).keys(keys).build().expect("fine");
        hold(&format!("{queries} x {keys}"), &Case::new(&schedule, &problem, &CHOSEN));
    }
}

#[test]
fn tensors_and_codes_lie_by_any_strides() {
    let schedule = quantize(64, blocks(64));
    let (queries, keys) = (70, 100);
    let packed = [keys * 6 * 64, 6 * 64, 64];
    let builder = problem(64).queries(queries).keys(keys).heads(2).kv_heads(2);
    let heads_first = Strides::heads_first(queries, 2, 64);
    let problem = builder.q_strides(heads_first).k_strides(packed).v_strides(packed).build().expect("fine");
    // Q's codes in rows of 80 with gaps, K's heads first.
    let gaps = Strides::new(queries * 2 * 80, 2 * 80, 80);
    let chosen = Chosen { code_strides: [Some(gaps), Some(Strides::heads_first(keys, 2, 64))], ..CHOSEN };
    hold("strides", &Case::new(&schedule, &problem, &chosen));
}

#[test]
fn rings_of_any_depth_and_any_number_of_warpgroups() {
    let problem = problem(64).build().expect("fine");
    for (warpgroups, stages, registers) in [(1, 4, 240), (1, 9, 240), (2, 5, 240), (3, 7, 160)] {
        let mut schedule = quantize(64, blocks(128));
        schedule.stages = stages;
        schedule.roles = roles(warpgroups, registers);
        hold(&format!("{warpgroups} x {stages}"), &Case::new(&schedule, &problem, &CHOSEN));
    }
}

#[test]
fn operations_may_be_late() {
    // One warpgroup of one block does all in order, and so waits for nobody's word.
    for (dim, scales) in
        [(64, blocks(224)), (128, blocks(96)), (128, Granularities { k: Granularity::Head, ..blocks(64) })]
    {
        let mut schedule = quantize(dim, scales);
        schedule.roles = roles(1, 240);
        let problem = problem(dim).keys(300).build().expect("fine");
        for policy in [Policy::Random, Policy::Late] {
            hold_by(&schedule.name, &Case::new(&schedule, &problem, &CHOSEN).ctas(1), policy);
        }
    }
}

#[test]
fn the_layout_is_what_the_schedule_says() {
    for dim in [64, 72, 96, 128, 192, 256] {
        for k in [64, 96, 128, 160, 192, 224] {
            let schedule = quantize(dim, blocks(k));
            let refused = schedule.findings(&HOPPER);
            match kernels::lower_quantize(&schedule) {
                Ok(module) => {
                    assert_eq!(u64::from(module.kernel.shared_bytes()), schedule.shared_bytes(&HOPPER), "{dim} {k}");
                    assert_eq!(module.kernel.threads, schedule.threads());
                    check::verify(module).unwrap_or_else(|findings| panic!("{dim} {k}: {findings:#?}"));
                }
                Err(why) => assert!(!refused.is_empty(), "{dim} {k}: {why}"),
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_arithmetic() {
    let told = |change: &dyn Fn(&mut Quantize)| {
        let mut schedule = quantize(128, blocks(128));
        change(&mut schedule);
        kernels::lower_quantize(&schedule).expect_err("does not fit").to_string()
    };
    insta::assert_snapshot!(
        [
            told(&|s| s.element = Element::E4m3),
            told(&|s| s.head_dim = HeadDim::same(100)),
            told(&|s| s.head_dim = HeadDim { qk: 128, v: 96 }),
            told(&|s| s.scales.q = Granularity::Block(48)),
            told(&|s| s.scales.v = Granularity::Block(64)),
            told(&|s| s.stages = 9),
            told(&|s| s.stages = 1),
            told(&|s| s.roles = roles(4, 160)),
            told(&|s| s.roles.producer.warps = 1),
            told(&|s| s.roles.consumer.registers = 104),
        ]
        .join("\n"),
        @r"
    `element` is not lowered: e4m3 is not read, only bf16 and f16 are
    `head_dim` is not lowered: 100 columns of Q and K are not a multiple of 8 from 8 to 256
    `head_dim: (128, 96)` is not lowered: rows of V and of Q take different swizzles and share a ring
    `scales` is not lowered: q: a block of 48 rows is not a multiple of 32 from 64 to 256
    `scales` is not lowered: v: block(64) is not there, V has a scale for each head or for the tensor
    `stages` is not lowered: 27 slots of 16384 bytes and the rest need 459712 bytes of shared memory, there are 232448
    `stages` is not lowered: the longest tile takes 2 slots of 64 rows, there are 1
    `roles` is not lowered: 664 registers for a thread of each warpgroup are asked for, 480 are there
    `roles` is not lowered: producer: 1 warps do not load for 3 warpgroups, each has one of its own
    `roles` is not lowered: consumer: 104 registers hold no tile, 128 do
    "
    );
}

#[test]
fn a_slot_given_back_too_early_is_found() {
    // Without the warp's barrier, a lane may read what its slot holds after another has given it back.
    let schedule = quantize(64, blocks(64));
    let mut kernel = kernels::lower_quantize(&schedule).expect("it is lowered").kernel;
    kernel.body.retain(|line| !matches!(line, ptx::Line::Inst(inst) if inst.op == ptx::Op::bar_warp_sync));
    let case = Case::new(&schedule, &problem(64).build().expect("fine"), &CHOSEN).ctas(1);
    let failure = sim::Machine::run_kernel(&kernel, &case.launch(), &Options::default()).expect_err("a race");
    assert_eq!(failure.kind(), Some(Kind::Race), "{failure}");
}
