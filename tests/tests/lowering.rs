//! What the lowering promises of every shipped schedule, and one kernel of the family pinned in outline.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use kernels::lower;
use ptx::{Kernel, Line, Op, ParamKind, TensorElement};
use schedule::{
    Exponential, Fp8, Order, Output, Pass, Rescale, RowSum, Scales, Schedule, Scheduler, Values, footprint,
};

fn kernel(schedule: &Schedule) -> Kernel {
    lower(schedule).unwrap_or_else(|e| panic!("{}: {e}", schedule.name)).kernel
}

fn count(kernel: &Kernel, op: Op) -> usize {
    kernel.insts().filter(|(_, i)| i.op == op).count()
}

/// Shared memory under the names that are asked for.
fn bytes(kernel: &Kernel, named: impl Fn(&str) -> bool) -> u64 {
    kernel.shared.iter().filter(|region| named(&region.name)).map(|region| u64::from(region.bytes)).sum()
}

/// The shipped schedules of the forward pass.
fn forward() -> impl Iterator<Item = Schedule> {
    templates::all().into_iter().filter(|s| s.pass == Pass::Forward)
}

#[test]
fn the_layout_is_the_footprint() {
    for s in templates::all() {
        let k = kernel(&s);
        assert_eq!(u64::from(k.shared_bytes()), footprint::shared_bytes(&s), "{}", s.name);
        for item in footprint::shared_memory(&s) {
            let found: u64 = match item.name {
                "barriers" => bytes(&k, |name| name.contains('.') && !name.starts_with("verdict")),
                "verdicts" => bytes(&k, |name| name.starts_with("verdict")),
                name => u64::from(k.region(name).unwrap_or_else(|| panic!("{}: no {name}", s.name)).bytes),
            };
            assert_eq!(found, item.bytes, "{}: {}", s.name, item.name);
        }
    }
}

#[test]
fn lowering_is_deterministic_and_names_its_schedule() {
    for s in templates::all() {
        let (a, b) = (lower(&s), lower(&s));
        assert_eq!(a, b);
        let m = a.expect("a shipped schedule is lowered");
        assert_eq!(m.kernel.name, s.name);
        assert_eq!(m.version(), ptx::Module::BASE_VERSION, "{}: the lowest version that carries it", s.name);
        let text = m.header[2..].join("\n");
        assert_eq!(text.trim_end(), s.to_string().trim_end(), "the header is the schedule");
    }
}

#[test]
fn schedules_that_differ_in_their_launch_alone_share_a_kernel() {
    let nameless = |s: &Schedule| Kernel { name: String::new(), ..kernel(s) };
    let mut pairs = 0;
    for shipped in forward() {
        let Order::LongestFirst { l2_bytes, heads } = shipped.grid.order else { continue };
        let mut other = Schedule { name: format!("{}_too", shipped.name), ..shipped.clone() };
        other.grid.order = Order::LongestFirst { l2_bytes: 2 * l2_bytes, heads: heads.xor(NonZeroU32::new(7)) };
        assert!(other.is_kernel_of(&shipped) && nameless(&other) == nameless(&shipped), "{}", shipped.name);
        assert_ne!(other.hash(), shipped.hash(), "{}", shipped.name);
        other.tile.columns += 16;
        assert!(!other.is_kernel_of(&shipped), "{}", shipped.name);
        pairs += 1;
    }
    assert!(pairs > 0, "no shipped schedule has sections");
}

#[test]
fn parameters_follow_the_grid() {
    for s in forward() {
        let k = kernel(&s);
        let has = |name| k.param(name).is_some();
        assert_eq!(has("counter"), s.grid.scheduler == Scheduler::Dynamic, "{}", s.name);
        assert_eq!(has("section"), matches!(s.grid.order, Order::LongestFirst { .. }), "{}", s.name);
        assert!(["shares", "workspace", "arrivals"].iter().all(|name| has(name) == s.splits()), "{}", s.name);
        // Tiles are counted by the producer, and shares that arrived by the consumers.
        assert_eq!(count(&k, Op::atom_inc), usize::from(has("counter")) + usize::from(s.splits()), "{}", s.name);
    }
}

/// The shipped schedules of 8-bit elements, with what only they have.
fn eight_bit() -> impl Iterator<Item = (Schedule, Fp8)> {
    forward().chain([half_linear()]).filter_map(|s| s.fp8.map(|fp8| (s, fp8)))
}

/// Half of P without the exponential unit: no shipped schedule has that.
fn half_linear() -> Schedule {
    let mut schedule = templates::named("fwd_linear_e4m3_d128").expect("it ships");
    schedule.name = "half_linear".into();
    schedule.rescale = Rescale::Always;
    schedule.fp8 = schedule.fp8.map(|fp8| Fp8 { exponential: Exponential::Linear(2), ..fp8 });
    schedule
}

#[test]
fn eight_bit_parameters_follow_the_scales() {
    const ALWAYS: [&str; 9] = [
        "q_scales",
        "q_scale_batch",
        "q_scale_head",
        "q_scale_kv_head",
        "k_scales",
        "k_scale_batch",
        "k_scale_kv_head",
        "v_scales",
        "v_scale_batch",
    ];
    for s in forward() {
        let k = kernel(&s);
        let has = |name: &str| k.param(name).is_some();
        let by_block = s.fp8.is_some_and(|fp8| fp8.scales == Scales::Block);
        assert!(ALWAYS.iter().all(|name| has(name) == s.fp8.is_some()), "{}", s.name);
        assert_eq!([has("q_scale_block"), has("k_scale_block")], [by_block; 2], "{}", s.name);
        assert_eq!(has("scale_pow2"), s.fp8.is_none(), "{}: scales of their own leave no such number", s.name);
    }
}

#[test]
fn eight_bit_maps_are_those_of_what_lies_in_memory() {
    for (s, fp8) in eight_bit() {
        let k = kernel(&s);
        let map = |name: &str| match k.param(name).map(|p| &p.kind) {
            Some(ParamKind::Tensor(map)) => (map.element, map.box_dims.clone(), map.swizzle.row_bytes()),
            _ => panic!("{}: no map {name}", s.name),
        };
        let span = |row: u32| [128, 64, 32].into_iter().find(|span| row.is_multiple_of(*span)).expect("a span");
        let (u8, dims) = (TensorElement::U8, s.head_dim);
        let of_rows = |row: u32, rows: u32| (u8, vec![span(row), rows, 1, 1], span(row));
        assert_eq!(map("q"), of_rows(dims.qk, s.tile.rows), "{}", s.name);
        assert_eq!(map("k"), of_rows(dims.qk, s.tile.columns), "{}", s.name);
        let v = match fp8.values {
            Values::Rows => of_rows(dims.v, s.tile.columns),
            // A box has as many keys as a panel and all columns of V.
            _ => of_rows(s.tile.columns, dims.v),
        };
        assert_eq!(map("v"), v, "{}", s.name);
        let output = if fp8.output == Output::F16 { TensorElement::F16 } else { TensorElement::Bf16 };
        assert_eq!(map("o").0, output, "{}", s.name);
    }
}

#[test]
fn eight_bit_products_and_roundings_are_those_of_the_options() {
    for (s, fp8) in eight_bit() {
        let k = kernel(&s);
        // The first block, the steps, and where tiles overlap the next tile's first scores.
        let bodies = 2 + usize::from(s.variant != schedule::Variant::Full);
        let issued = bodies + usize::from(s.overlap.across_tiles);
        let (of_scores, of_output) = (s.head_dim.qk as usize / 32, s.tile.columns as usize / 32);
        assert_eq!(count(&k, Op::wgmma_ss_f8), issued * of_scores, "{}", s.name);
        let wide = s.head_dim.v + if s.row_sum == RowSum::TensorCore { 8 } else { 0 };
        // With the columns of ones, 256 of V take two products a step.
        let parts = if wide > 256 { vec![128, wide - 128] } else { vec![wide] };
        assert_eq!(count(&k, Op::wgmma_rs_f8), issued * of_output * parts.len(), "{}", s.name);
        let outputs = k.insts().map(|(_, i)| i).filter(|i| i.op == Op::wgmma_rs_f8);
        for (product, part) in outputs.zip(parts.into_iter().cycle()) {
            assert_eq!(ptx::qual::mma_columns(product.quals[0]), Some(part), "{}", s.name);
            assert_eq!(product.quals[1..], ["e4m3", s.element.keyword()], "{}: P is e4m3", s.name);
        }
        // Of four scores a thread's register of P takes one exponential each, or none.
        let registers = s.tile.columns as usize / 8;
        let linear = registers * s.linear_quarters() as usize / 4;
        let lazy = s.rescale != Rescale::Always;
        // Polynomials are in steps over blocks that every row sees whole.
        let polynomial = 4 * registers * s.polynomial_eighths() as usize / 8;
        assert_eq!(count(&k, Op::max_nan_f32), polynomial, "{}", s.name);
        assert_eq!(count(&k, Op::cvt_rn_relu_pair), 2 * linear * bodies, "{}", s.name);
        assert_eq!(count(&k, Op::cvt_rn_f8), 2 * (registers - linear) * bodies, "{}", s.name);
        let factors = 2 * (bodies - 1);
        let unit = 4 * (registers - linear) * bodies - polynomial;
        assert_eq!(count(&k, Op::ex2_approx), unit + factors, "{}", s.name);
        let raised = k.body.iter().filter(|line| **line == Line::Comment("higher maxima".into())).count();
        assert_eq!(raised, usize::from(lazy), "{}: in steps over blocks that every row sees whole", s.name);
        let turned = if fp8.values == Values::Rows { s.tile.columns * s.head_dim.v / 4 } else { 0 };
        let loads = k.insts().filter(|(_, i)| i.op == Op::ldmatrix_t);
        let bytes: u32 = loads.map(|(_, i)| if i.quals[0] == "x4" { 512 } else { 256 }).sum();
        assert_eq!(bytes, turned, "{}: a quarter of V is a warp's", s.name);
    }
}

#[test]
fn every_part_is_emitted_as_often_as_the_algorithm_has_it() {
    for s in forward() {
        let k = kernel(&s);
        let mut comments: BTreeMap<&str, usize> = BTreeMap::new();
        for line in &k.body {
            if let Line::Comment(c) = line {
                *comments.entry(c).or_default() += 1;
            }
        }
        let masked = usize::from(s.variant != schedule::Variant::Full);
        // Where tiles overlap, the first scores stand alone once and once beside the last output, which stands alone
        // once more; the stores stand with each.
        let across = usize::from(s.overlap.across_tiles);
        // Where a tile may come again, a step with care takes the place of the masked one, and the first scores stand once
        // more, for a tile that comes when all others are done.
        let again = usize::from(s.rescale == Rescale::OnOverflow);
        let careful = masked.max(again);
        // First block, masked or careful step, unmasked step.
        assert_eq!(comments["online softmax"], 2 + careful, "{}", s.name);
        assert_eq!(comments["S = Q K^T"], 2 + careful + across + across * again, "{}", s.name);
        assert_eq!(comments["O += P V"], 2 + careful + across, "{}", s.name);
        assert_eq!(comments["load Q"], 1);
        let stored: Vec<(&&str, &usize)> = comments.iter().filter(|(c, _)| c.starts_with("O: scale")).collect();
        assert_eq!(stored.len(), 1, "{}: one way out for O", s.name);
        assert_eq!(*stored[0].1, 1 + across, "{}", s.name);
        assert_eq!(count(&k, Op::setmaxnreg), 2);
    }
}

#[test]
fn what_is_not_lowered_is_refused_by_name() {
    let mut base = templates::named("fwd_bf16_d128").expect("shipped");
    base.overlap.across_tiles = false;
    base.rescale = Rescale::Always;
    let refusal = |change: fn(&mut Schedule)| {
        let mut s = base.clone();
        change(&mut s);
        lower(&s).expect_err("is refused").to_string()
    };
    let said = [
        refusal(|s| s.tile.columns = 256),
        refusal(|s| s.row_sum = RowSum::TensorCore),
        refusal(|s| s.element = schedule::Element::E4m3),
        refusal(|s| {
            s.element = schedule::Element::E4m3;
            s.fp8 = Some(schedule::Fp8::default());
            s.probabilities = schedule::Probabilities::Shared;
        }),
        refusal(|s| s.head_dim = schedule::HeadDim { qk: 128, v: 96 }),
        refusal(|s| s.head_dim = schedule::HeadDim::same(40)),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

/// The kernel without its register lists: roles, labels, comments, and the instructions that wait, arrive, copy or
/// multiply; runs of one instruction are counted.
fn outline(k: &Kernel) -> String {
    const SHOWN: [&str; 10] =
        ["bra", "ret", "bar.", "mbarrier", "fence", "wgmma", "cp.async", "setmaxnreg", "atom", "elect"];
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut push = |text: String| match lines.last_mut() {
        Some((n, last)) if *last == text => *n += 1,
        _ => lines.push((1, text)),
    };
    for r in &k.shared {
        push(format!("region {} at {} + {} ({} stages)", r.name, r.offset, r.bytes, r.stages));
    }
    for line in &k.body {
        match line {
            Line::Begin(Some(r)) => push(format!("\nrole {}", k.roles[*r].name)),
            Line::Begin(None) => push("\nall".to_owned()),
            Line::Label(l) => push(format!("{l}:")),
            Line::Comment(c) => push(format!("    // {c}")),
            Line::Inst(i) => {
                let mnemonic = i.mnemonic();
                if SHOWN.iter().any(|s| mnemonic.starts_with(s)) {
                    let target = i.arg("target").map_or(String::new(), |t| format!(" {t}"));
                    let guard = if i.guard.is_some() { "@p " } else { "" };
                    push(format!("    {guard}{mnemonic}{target}"));
                }
            }
        }
    }
    let text = |(n, line): (usize, String)| if n > 1 { format!("{line} (x {n})") } else { line };
    lines.into_iter().map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn outline_of_the_causal_kernel() {
    let s = templates::named("fwd_bf16_d128_causal").expect("shipped");
    insta::assert_snapshot!(outline(&kernel(&s)));
}
