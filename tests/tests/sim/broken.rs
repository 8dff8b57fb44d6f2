//! Broken twins of shipped kernels: one instruction is dropped, moved or changed, and the machine says what is wrong, to
//! whom and where. The whole kernel beside them is clean.

use crate::attention::Case;
use ptx::{Inst, Kernel, Line, Op, Operand};
use sim::forward::Problem;
use sim::{Failure, Finding, Found, Kind, Machine, Options, Policy};

const KERNEL: &str = "fwd_bf16_d64_causal";

fn whole() -> Kernel {
    let schedule = templates::named(KERNEL).expect("it ships");
    kernels::lower(&schedule).expect("it ships").kernel
}

/// The lines of instructions that satisfy a condition.
fn lines(kernel: &Kernel, of: impl Fn(&Inst) -> bool) -> Vec<usize> {
    kernel.insts().filter(|(_, inst)| of(inst)).map(|(line, _)| line).collect()
}

fn is(op: Op) -> impl Fn(&Inst) -> bool {
    move |inst| inst.op == op
}

/// The offset of a region that an address operand would have.
fn in_region(kernel: &Kernel, region: &str) -> impl Fn(&Inst) -> bool + use<> {
    let region = kernel.region(region).expect("a region of the kernel").clone();
    move |inst| {
        inst.args.iter().any(|arg| match arg {
            Operand::Address(a) => (region.offset..region.end()).contains(&(a.offset as u32)),
            _ => false,
        })
    }
}

fn drop_line(kernel: &mut Kernel, line: usize) {
    kernel.body[line] = Line::Comment("dropped".to_owned());
}

fn change(kernel: &mut Kernel, line: usize, change: impl FnOnce(&mut Inst)) {
    let Line::Inst(inst) = &mut kernel.body[line] else { panic!("line {line} is no instruction") };
    change(inst);
}

/// Blocks in rings that go round, and tiles of which many see no key.
fn problems() -> [Problem; 2] {
    let base = Problem { causal: true, kv_heads: 2, ..Problem::new(4, 150, 300) };
    [Problem { ctas: 2, ..base }, Problem { queries: 400, keys: 60, ctas: 1, ..base }]
}

fn found(kernel: &Kernel) -> Found {
    let cases = problems().map(|problem| Case::new(kernel, &problem));
    for seed in 0..8 {
        let policy = if seed % 2 == 0 { Policy::Random } else { Policy::Late };
        for case in &cases {
            match Machine::run_kernel(kernel, case.launch(), &Options { policy, ..Options::seeded(seed) }) {
                Err(Failure::Found(found)) => return *found,
                Err(other) => panic!("{other}"),
                Ok(_) => {}
            }
        }
    }
    panic!("nothing was found")
}

/// The roles of the two parties.
fn roles(finding: &Finding) -> (Option<&str>, Option<&str>) {
    let role = |p: &Option<sim::Party>| p.as_ref().and_then(|p| p.role.clone());
    let known = |role: Option<String>| ["producer", "consumer"].into_iter().find(|r| role.as_deref() == Some(r));
    (known(role(&finding.first)), known(role(&finding.second)))
}

fn region(finding: &Finding) -> &str {
    finding.place.as_ref().map_or("", |p| p.region.as_str())
}

#[test]
fn the_whole_kernel_is_clean() {
    let kernel = whole();
    for case in problems().map(|problem| Case::new(&kernel, &problem)) {
        for seed in 0..8 {
            let outputs = case.run(&kernel, &Options::seeded(seed)).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(case.wrong(&outputs), None);
        }
    }
}

#[test]
fn a_missing_proxy_fence_is_found_even_if_the_numbers_are_right() {
    let mut kernel = whole();
    let fences = lines(&kernel, is(Op::fence_proxy_async));
    fences.iter().for_each(|&line| drop_line(&mut kernel, line));
    let found = found(&kernel);
    assert_eq!(found.finding.kind, Kind::ProxyFence, "{}", found.finding);
    assert_eq!((roles(&found.finding), region(&found.finding)), ((Some("consumer"), Some("consumer")), "q"));
    assert!(found.deviations.is_empty(), "it does not depend on timing: {:?}", found.deviations);
    let [first, second] = [&found.finding.first, &found.finding.second].map(|p| p.as_ref().expect("two parties"));
    assert!(first.instruction.starts_with("cp.async.bulk.tensor") && second.instruction.starts_with("stmatrix"));
}

#[test]
fn a_slot_given_back_before_the_products_are_waited_for_is_a_race() {
    let mut kernel = whole();
    // The first wait for products, and what gives their slot of K back after it.
    let is_release = in_region(&kernel, "k.empty");
    let wait = lines(&kernel, is(Op::wgmma_wait))[0];
    let releases = lines(&kernel, |i| i.op == Op::mbarrier_arrive && is_release(i));
    let release = releases.into_iter().find(|&line| line > wait).expect("it is given back");
    let moved = kernel.body.remove(wait);
    kernel.body.insert(release, moved);
    let found = found(&kernel);
    assert_eq!(found.finding.kind, Kind::Race, "{}", found.finding);
    assert_eq!(region(&found.finding), "k");
    let (first, second) = roles(&found.finding);
    assert!(first != second, "the producer meets a consumer: {}", found.finding);
}

#[test]
fn lanes_that_do_not_meet_before_their_leader_gives_a_slot_back_race() {
    let mut kernel = whole();
    let meet = lines(&kernel, is(Op::bar_warp_sync))[0];
    drop_line(&mut kernel, meet);
    let found = found(&kernel);
    assert_eq!((found.finding.kind, region(&found.finding)), (Kind::Race, "tiles"), "{}", found.finding);
}

#[test]
fn too_many_expected_bytes_are_a_deadlock_that_says_who_waits_for_what() {
    let mut kernel = whole();
    let full = in_region(&kernel, "k.full");
    let expect = lines(&kernel, |i| i.op == Op::mbarrier_expect_tx && full(i))[0];
    change(&mut kernel, expect, |inst| inst.args[2] = Operand::Int(1 << 16));
    let finding = found(&kernel).finding;
    assert_eq!(finding.kind, Kind::Deadlock);
    let message = finding.to_string();
    for part in
        ["consumer warp 4", "k.full[0] parity 0, which is in phase 0 and waits for 0 of 1 arrivals and 49152 bytes"]
    {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn too_few_expected_bytes_are_found() {
    let mut kernel = whole();
    let full = in_region(&kernel, "k.full");
    // With all bytes of half a tile in, the phase is over, and the rest comes too late.
    let expect = lines(&kernel, |i| i.op == Op::mbarrier_expect_tx && full(i))[0];
    change(&mut kernel, expect, |inst| inst.args[2] = Operand::Int(8192));
    let kind = found(&kernel).finding.kind;
    assert!([Kind::Transactions, Kind::Deadlock, Kind::Race].contains(&kind), "{kind:?}");
}

#[test]
fn a_wrong_first_parity_is_found() {
    let mut kernel = whole();
    // The producer's parities start at 1; the consumers' at 0.
    let elect = lines(&kernel, is(Op::elect_sync))[0];
    let one = lines(&kernel, |i| i.op == Op::mov && i.args.get(1) == Some(&Operand::Int(1)));
    let first = *one.iter().find(|&&l| l > elect).expect("the producer's first parity");
    change(&mut kernel, first, |inst| inst.args[1] = Operand::Int(0));
    let finding = found(&kernel).finding;
    assert_eq!(finding.kind, Kind::Deadlock, "{finding}");
    assert!(finding.to_string().contains("producer warp 0"), "{finding}");
}

#[test]
fn an_accumulator_read_in_flight_is_found() {
    let mut kernel = whole();
    let wait = lines(&kernel, is(Op::wgmma_wait))[0];
    drop_line(&mut kernel, wait);
    let found = found(&kernel);
    assert_eq!(found.finding.kind, Kind::RegisterInFlight, "{}", found.finding);
    assert_eq!(roles(&found.finding).0, Some("consumer"));
    assert!(found.deviations.is_empty());
}

#[test]
fn a_product_on_registers_that_were_not_fenced_is_found() {
    let mut kernel = whole();
    let fence = lines(&kernel, is(Op::wgmma_fence))[0];
    drop_line(&mut kernel, fence);
    assert_eq!(found(&kernel).finding.kind, Kind::RegisterUnfenced);
}

#[test]
fn a_store_that_nobody_waits_for_is_found() {
    let mut kernel = whole();
    let wait = lines(&kernel, is(Op::bulk_wait))[0];
    drop_line(&mut kernel, wait);
    let finding = found(&kernel).finding;
    assert!([Kind::Race, Kind::Undrained].contains(&finding.kind), "{finding}");
}

#[test]
fn a_barrier_with_a_wrong_count_is_found() {
    for by in [-1, 1] {
        let mut kernel = whole();
        let empty = in_region(&kernel, "v.empty");
        let init = lines(&kernel, |i| i.op == Op::mbarrier_init && empty(i))[0];
        change(&mut kernel, init, |inst| {
            let Operand::Int(count) = &mut inst.args[1] else { panic!("a count") };
            *count += by;
        });
        let kind = found(&kernel).finding.kind;
        assert!([Kind::Deadlock, Kind::Unbalanced, Kind::Race, Kind::PhaseOverrun].contains(&kind), "{by}: {kind:?}");
    }
}

#[test]
fn barriers_nobody_saw_initialised_are_found() {
    let fence = lines(&whole(), is(Op::fence_mbarrier_init))[0];
    let meet = lines(&whole(), is(Op::bar_sync_all))[0];
    for line in [fence, meet] {
        let mut kernel = whole();
        drop_line(&mut kernel, line);
        assert_eq!(found(&kernel).finding.kind, Kind::Uninitialised);
    }
}

#[test]
fn a_copy_by_every_lane_is_found() {
    let mut kernel = whole();
    let elect = lines(&kernel, is(Op::elect_sync))[0];
    let leave = *lines(&kernel, is(Op::bra)).iter().find(|&&l| l > elect).expect("the others leave");
    drop_line(&mut kernel, leave);
    let kind = found(&kernel).finding.kind;
    assert!([Kind::Race, Kind::ArrivalOverrun, Kind::Transactions].contains(&kind), "{kind:?}");
}

#[test]
fn a_box_that_starts_within_sixteen_bytes_is_found() {
    let mut kernel = whole();
    let line = lines(&kernel, is(Op::tensor_load))[0];
    change(&mut kernel, line, |inst| {
        let coords = inst.args.iter_mut().find_map(|arg| match arg {
            Operand::Tensor { coords, .. } => Some(coords),
            _ => None,
        });
        coords.expect("a copy has coordinates")[0] = Operand::from(4);
    });
    let found = found(&kernel);
    assert_eq!(found.finding.kind, Kind::OutOfBounds);
    assert!(found.finding.to_string().contains("starts at byte 8 of a row"), "{}", found.finding);
}

#[test]
fn a_failing_run_is_shrunk() {
    let mut kernel = whole();
    let wait = lines(&kernel, is(Op::bulk_wait))[0];
    drop_line(&mut kernel, wait);
    let found = found(&kernel);
    let (left, before) = (found.deviations.len(), found.before);
    assert!(left * 10 < before, "{left} of {before} deviations are left");
}

#[test]
fn a_failing_run_stays_as_it_is_where_none_may_shrink_it() {
    let mut kernel = whole();
    let wait = lines(&kernel, is(Op::bulk_wait))[0];
    drop_line(&mut kernel, wait);
    let Found { seed, policy, .. } = found(&kernel);
    let options = Options { policy, shrink: 0, ..Options::seeded(seed) };
    let again = problems().into_iter().find_map(|problem| {
        match Machine::run_kernel(&kernel, Case::new(&kernel, &problem).launch(), &options) {
            Err(Failure::Found(found)) => Some(found),
            _ => None,
        }
    });
    let again = again.expect("what was found with this seed");
    assert_eq!(again.deviations.len(), again.before);
}
