//! Schedules for problems with fewer query tiles than SMs: twins, of those that are there, that split the keys of a query
//! tile, and tiles of 64 rows; and into how many shares a problem is split.

use schedule::{
    Consumer, Element, HOPPER, HeadDim, Overlap, Producer, Rescale, Schedule, Split, Stages, Threshold, Tile, Variant,
    cost::{self, H200},
    feasible,
};

use super::work;
use crate::Problem;

/// Growth of the row maximum that the twins let pass, in powers of two: P of 16 bits stays exact enough.
const THRESHOLD: f32 = 8.0;

/// Rows of a tile of one consumer warpgroup.
const ROWS: u32 = 64;

/// Depths of the ring of K and V that a tile of 64 rows is tried with.
const DEPTHS: [u32; 3] = [4, 3, 2];

/// Shares that each query tile of a problem is split into, on a device with so many SMs. 1 for a schedule that splits none.
pub fn shares(schedule: &Schedule, problem: &Problem, sms: u32) -> u32 {
    match schedule.splits() {
        false => 1,
        true => cost::shares(schedule, &work(problem), &HOPPER, &H200.with_sms(sms)).try_into().unwrap_or(1),
    }
}

/// The schedules and, behind them, for the first of each class of 16-bit elements the twin that splits query tiles and the
/// one of 64 rows that does. Whether each is lowered is not asked.
pub fn with_twins(schedules: Vec<Schedule>) -> Vec<Schedule> {
    let mut all = schedules;
    let mut classes: Vec<(Element, HeadDim, Variant)> = Vec::new();
    for at in 0..all.len() {
        let class = (all[at].element, all[at].head_dim, all[at].variant);
        if all[at].element.is_fp8() || all[at].splits() || classes.contains(&class) {
            continue;
        }
        classes.push(class);
        for twin in [Some(split(&all[at])), narrow(&all[at])].into_iter().flatten() {
            let taken = all.iter().any(|other| other.name == twin.name);
            if !taken && feasible::check(&twin, &HOPPER).is_empty() {
                all.push(twin);
            }
        }
    }
    all
}

/// A schedule that does the same over shares of the keys.
fn split(schedule: &Schedule) -> Schedule {
    let above = Threshold::new(THRESHOLD).map_or(Rescale::Always, Rescale::Above);
    let rescale = if schedule.rescale == Rescale::Always { Rescale::Always } else { above };
    Schedule {
        name: named(schedule, "split"),
        doc: format!("{} with the keys of each query tile in shares.", schedule.name),
        rescale,
        split: Split::Keys,
        overlap: Overlap { across_tiles: false, ..schedule.overlap },
        ..schedule.clone()
    }
}

/// The same with 64 rows, and the deepest ring that fits.
fn narrow(schedule: &Schedule) -> Option<Schedule> {
    let wide = split(schedule);
    let made = |kv| Schedule {
        name: named(schedule, "narrow"),
        doc: format!("{} with 64 rows and the keys of each query tile in shares.", schedule.name),
        tile: Tile { rows: ROWS, ..wide.tile },
        stages: Stages { kv, ..wide.stages },
        roles: schedule::Roles {
            producer: Producer { warps: 1, registers: 56 },
            consumer: Consumer { warpgroups: 1, registers: 240 },
        },
        overlap: Overlap { pingpong: false, ..wide.overlap },
        ..wide.clone()
    };
    DEPTHS.into_iter().map(made).find(|narrow| feasible::check(narrow, &HOPPER).is_empty())
}

/// `fwd_split_bf16_d128` of `fwd_bf16_d128`.
fn named(schedule: &Schedule, how: &str) -> String {
    match schedule.name.split_once('_') {
        Some((pass, rest)) => format!("{pass}_{how}_{rest}"),
        None => format!("{}_{how}", schedule.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;
    use crate::policy::{USUAL_SMS, choose};

    fn problem(heads: u64, queries: u64, keys: u64, causal: bool) -> Problem {
        let builder = Problem::builder().queries(queries).keys(keys).heads(heads).head_dim(128).causal(causal);
        builder.build().expect("fine")
    }

    #[test]
    fn every_class_of_sixteen_bits_has_twins_that_are_lowered() {
        let registry = Registry::shipped();
        let names: Vec<&str> = registry.entries().iter().map(|entry| entry.schedule().name.as_str()).collect();
        for dim in ["d64", "d96", "d128", "d192", "d256", "d192x128"] {
            for (element, mask) in ["bf16", "f16"].into_iter().flat_map(|e| ["", "_causal"].map(|m| (e, m))) {
                for how in ["split", "narrow"] {
                    let name = format!("fwd_{how}_{element}_{dim}{mask}");
                    assert_eq!(names.iter().filter(|other| **other == name).count(), 1, "{name}");
                    let entry = registry.named(&name).expect("it is there");
                    assert!(entry.lowered().is_ok(), "{:?}", entry.refusal());
                }
            }
        }
    }

    #[test]
    fn few_tiles_over_many_keys_take_a_schedule_that_splits_and_many_tiles_do_not() {
        let chosen = |problem: &Problem| {
            let entry = choose(Registry::shipped(), problem, USUAL_SMS).expect("supported");
            let schedule = entry.schedule().clone();
            (schedule.splits(), shares(&schedule, problem, USUAL_SMS))
        };
        for causal in [false, true] {
            let (splits, shares) = chosen(&problem(8, 512, 8192, causal));
            assert!(splits && shares > 1, "causal: {causal}, {shares} shares");
            assert_eq!(chosen(&problem(16, 4096, 4096, causal)), (false, 1));
        }
        let (splits, shares) = chosen(&problem(16, 1, 65_536, true));
        assert!(splits && shares >= 4, "{shares} shares");
        assert_eq!(chosen(&problem(8, 128, 128, true)), (false, 1), "too few keys");
    }

    #[test]
    fn a_schedule_that_splits_nothing_has_one_share() {
        let whole = templates::named("fwd_bf16_d128").expect("it ships");
        assert_eq!(shares(&whole, &problem(1, 1, 1 << 20, false), USUAL_SMS), 1);
    }
}
