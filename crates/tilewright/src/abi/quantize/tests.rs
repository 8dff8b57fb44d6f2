//! The numbers of launches, and the parameter contract against lowered quantizers.

use super::*;
use crate::ProblemBuilder;
use ptx::Param;
use schedule::{Element, Granularities, HeadDim, Rotation};

const BLOCKS: Granularities =
    Granularities { q: Granularity::Block(64), k: Granularity::Block(128), v: Granularity::Head };

const SMS: u32 = 132;

fn schedule(dim: u32, scales: Granularities) -> Quantize {
    Quantize::for_hopper(Element::Bf16, HeadDim::same(dim), Rotation::Hadamard, scales)
}

fn small() -> ProblemBuilder {
    Problem::builder().batch(2).queries(300).keys(1000).heads(8).kv_heads(2).head_dim(128)
}

fn numbers(problem: &Problem, schedule: &Quantize, options: &Options) -> Numbers {
    Numbers::new(problem, schedule, options, SMS).expect("the problem is the schedule's")
}

/// V read twice, as where blocks cannot all run at the same time.
fn twice() -> Options {
    Options { all_at_once: false, ..Options::default() }
}

const AT: Addresses = Addresses {
    tensors: [0x1000, 0x2000, 0x3000],
    codes: [0x100, 0x200, 0x300],
    scales: [4, 8, 12],
    workspace: 0x4000,
};

/// Every combination of granularities.
fn granularities() -> Vec<Granularities> {
    let rows = |n| [Granularity::Block(n), Granularity::Head, Granularity::Tensor];
    let pairs = rows(64).into_iter().flat_map(|q| rows(192).map(|k| (q, k)));
    pairs.flat_map(|(q, k)| [Granularity::Head, Granularity::Tensor].map(|v| Granularities { q, k, v })).collect()
}

#[test]
fn every_kernel_keeps_the_contract_and_finds_all_its_arguments() {
    for scales in granularities() {
        for rotation in [Rotation::Off, Rotation::Hadamard] {
            let schedule = Quantize { rotation, ..schedule(128, scales) };
            let kernel = kernels::lower_quantize(&schedule).expect("it is lowered").kernel;
            assert_eq!(check(&kernel), Ok(()), "{}", schedule.name);
            let numbers = numbers(&small().build().expect("fine"), &schedule, &Options::default());
            let named = numbers.named();
            for Param { name, .. } in kernel.params.iter().filter(|p| matches!(p.kind, ParamKind::U32)) {
                assert!(named.iter().any(|(known, _)| known == name), "{}: {name}", schedule.name);
            }
        }
    }
}

#[test]
fn a_kernel_outside_of_the_contract_is_told_by_parameter() {
    let kernel = kernels::lower_quantize(&schedule(128, BLOCKS)).expect("it is lowered").kernel;
    let with = |change: &dyn Fn(&mut Vec<Param>)| {
        let mut kernel = kernel.clone();
        change(&mut kernel.params);
        check(&kernel).expect_err("outside")
    };
    assert!(with(&|params| params.retain(|p| p.name != "counter")).contains("no parameter `counter`"));
    assert!(with(&|params| params.push(Param { name: "q_mean".into(), kind: ParamKind::U32 })).contains("`q_mean`"));
    assert!(with(&|params| params.iter_mut().for_each(|p| p.kind = ParamKind::U64)).contains("`q` has another type"));
}

#[test]
fn numbers_follow_from_problem_and_schedule() {
    let problem = small().build().expect("fine");
    let found = numbers(&problem, &schedule(128, BLOCKS), &twice());
    // Q: 16 heads of 5 blocks; K: 4 heads of 8 blocks; V: 4 heads of 8 tiles, twice, in one section.
    assert_eq!(found.scale_elements(), [80, 32, 4]);
    assert_eq!(found.items(), 80 + 32 + 2 * 32);
    assert_eq!(found.code_elements(&problem), [2 * 300 * 8 * 128, 2 * 1000 * 2 * 128, 2 * 2 * 128 * 1008]);
    assert_eq!(found.workspace_bytes(), 16 + 4 * 16);
    let few = Numbers::new(&problem, &schedule(128, BLOCKS), &twice(), 16).expect("the problem is the schedule's");
    assert_eq!((found.grid(), few.grid()), ([59, 1, 1], [16, 1, 1]));
    assert_eq!((found.dealt(), found.all_at_once()), (0, false));
    let [_, _, v] = found.tensors;
    assert_eq!((v.section, v.sections, v.sharing, v.lead_end), (32, 1, 8, 32));
    let head_of_v = 1000 * 128 * 2;
    let sections = numbers(&problem, &schedule(128, BLOCKS), &Options { section_bytes: head_of_v, ..twice() });
    let [_, _, v] = sections.tensors;
    assert_eq!((v.section, v.sections), (8, 4));
    assert_eq!(sections.items(), 80 + 32 + 2 * 32, "sections change the order alone");
}

#[test]
fn one_scale_a_tensor_and_a_head_count_their_tiles() {
    let problem = small().build().expect("fine");
    let scales = Granularities { q: Granularity::Head, k: Granularity::Tensor, v: Granularity::Tensor };
    let found = numbers(&problem, &schedule(128, scales), &twice());
    assert_eq!(found.scale_elements(), [16, 1, 1]);
    let [q, k, v] = found.tensors;
    assert_eq!((q.sharing, k.sharing, v.sharing), (5, 16 * 4, 8 * 4));
    assert_eq!(found.workspace_bytes(), 16 * (1 + 16 + 1 + 1));
    assert_eq!((v.lead_end, k.lead_end, q.lead_end), (32, 32 + 64, 32 + 64 + 80));
    assert_eq!(found.items(), 2 * (80 + 64 + 32));
}

#[test]
fn tiles_that_find_room_are_dealt_in_rounds_of_whole_heads() {
    let problem = small().build().expect("fine");
    let on = |scales, sms| Numbers::new(&problem, &schedule(128, scales), &Options::default(), sms).expect("fits");
    // V: 4 heads of 8 tiles, for three warpgroups a block. All in one round; three heads, then one; one head each.
    for (sms, abreast, rounds) in [(132, 4, 1), (8, 3, 2), (3, 1, 4)] {
        let found = on(BLOCKS, sms);
        let [_, _, v] = found.tensors;
        assert_eq!((v.abreast, v.section, v.rounds(), found.dealt()), (abreast, abreast * 8, rounds, 32), "{sms}");
        assert_eq!((v.lead_end, v.end), (0, 80 + 32), "{sms}: V has no items");
        assert_eq!(found.items(), 80 + 32 + 32, "{sms}: each tile once");
        assert_eq!(found.workspace_bytes(), 16 + 4 * 16 + 4 * 32, "{sms}: and a word of its own");
        assert!(found.all_at_once(), "{sms}");
    }
    assert_eq!(on(BLOCKS, 2).dealt(), 0, "eight tiles for six warpgroups");
    let one = Granularities { v: Granularity::Tensor, ..BLOCKS };
    assert_eq!((on(one, 11).dealt(), on(one, 10).dealt()), (32, 0), "32 tiles for 33 warpgroups, for 30");
    let short = small().keys(128).build().expect("fine");
    let alone = numbers(&short, &schedule(128, BLOCKS), &Options::default());
    assert_eq!((alone.dealt(), alone.all_at_once()), (4, false), "a tile that is all of its head waits for nobody");
}

#[test]
fn rows_are_filled_up_to_sixteen_columns() {
    let problem = small().head_dim(72).build().expect("fine");
    let found = numbers(&problem, &schedule(72, BLOCKS), &Options::default());
    assert_eq!(found.code_strides()[0], Strides::contiguous(300, 8, 80));
    assert_eq!(found.code_elements(&problem)[2], 2 * 2 * 80 * 1008);
}

#[test]
fn a_problem_without_queries_or_keys_has_the_others_alone() {
    let keyless = small().keys(0).build().expect("fine");
    assert_eq!(numbers(&keyless, &schedule(128, BLOCKS), &Options::default()).items(), 80);
    let rowless = small().queries(0).build().expect("fine");
    let found = numbers(&rowless, &schedule(128, BLOCKS), &Options::default());
    assert_eq!((found.items(), found.scale_elements()), (32 + 32, [0, 32, 4]));
    let nothing = small().queries(0).keys(0).build().expect("fine");
    let no_batch = small().batch(0).build().expect("fine");
    let one = Granularities { v: Granularity::Tensor, ..BLOCKS };
    for (problem, scales) in [(&nothing, BLOCKS), (&nothing, one), (&no_batch, BLOCKS), (&no_batch, one)] {
        assert_eq!(numbers(problem, &schedule(128, scales), &Options::default()).items(), 0);
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let problem = small().build().expect("fine");
    let refuse = |schedule: &Quantize, options: &Options| {
        Numbers::new(&problem, schedule, options, SMS).expect_err("does not fit").to_string()
    };
    let plain = Options::default();
    assert!(refuse(&schedule(64, BLOCKS), &plain).contains("head dimension 128"));
    let f16 = Quantize { element: Element::F16, ..schedule(128, BLOCKS) };
    assert!(refuse(&f16, &plain).contains("element type bf16"));
    let with = |strides| Options { code_strides: [Some(strides), None], ..plain };
    let odd = refuse(&schedule(128, BLOCKS), &with(Strides::new(0, 8 * 128 + 8, 128)));
    assert!(odd.contains("tensor q: stride of batch") || odd.contains("tensor q: stride of token"), "{odd}");
    let shared = refuse(&schedule(128, BLOCKS), &with(Strides::new(300 * 8 * 128, 128, 128)));
    assert!(shared.contains("tensor q"), "{shared}");
}

#[test]
fn addresses_are_held_against_their_rules() {
    let schedule = schedule(128, BLOCKS);
    let kernel = kernels::lower_quantize(&schedule).expect("it is lowered").kernel;
    let problem = small().build().expect("fine");
    let numbers = numbers(&problem, &schedule, &Options::default());
    let refuse = |at: Addresses| numbers.arguments(&kernel, &problem, &at).expect_err("misaligned").to_string();
    assert!(refuse(Addresses { workspace: 0x4008, ..AT }).contains("workspace"));
    assert!(refuse(Addresses { codes: [0x100, 0x208, 0x300], ..AT }).contains("tensor k codes"));
    assert!(refuse(Addresses { scales: [4, 8, 0], ..AT }).contains("tensor v scales"));
    assert!(refuse(Addresses { tensors: [0x1008, 0x2000, 0x3000], ..AT }).contains("tensor q"));
}
