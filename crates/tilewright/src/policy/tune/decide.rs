//! From figures to preferences: the winner of each problem, and how far from it that still counts.

use crate::Problem;
use crate::policy::tuned::{Bounds, Preference, Tuning, tiles_per_sm};

use super::Class;

/// A schedule that is shipped is taken unless another is faster by more than this factor: figures differ by as much from
/// run to run, and what is shipped is proven and at hand.
const NOISE: f64 = 1.01;

/// A single shape's figures count for as many times more or fewer keys and queries.
const NEAR: f64 = std::f64::consts::SQRT_2;

/// The same for the work of an SM.
const WORK: f64 = 2.0;

/// One schedule's figure for one problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The problem.
    pub problem: Problem,
    /// The schedule's name.
    pub schedule: String,
    /// Whether it is shipped.
    pub shipped: bool,
    /// TFLOP/s.
    pub tflops: f64,
}

/// The preferences that follow from figures of a device.
///
/// Problems of one class that differ in their length alone, as those of a grid, share out all lengths: each counts up
/// to the geometric middle between it and its neighbour, and with a tile an SM or more, where it had so much. A problem
/// without such neighbours counts for what is near it in keys, queries and work.
pub fn decide(figures: &[Measured], device: &str, sms: u32) -> Tuning {
    let mut problems: Vec<Problem> = Vec::new();
    for figure in figures {
        if !problems.contains(&figure.problem) {
            problems.push(figure.problem);
        }
    }
    let preferences = problems.iter().filter_map(|problem| {
        let best = winner(figures.iter().filter(|figure| figure.problem == *problem))?;
        let Class { element, head_dim, variant } = Class::of(problem);
        let (keys, queries, tiles_per_sm) = bounds(problem, &problems, sms);
        Some(Preference {
            schedule: best.schedule.clone(),
            element,
            head_dim,
            variant,
            keys,
            queries,
            tiles_per_sm,
            tflops: Some(best.tflops),
            device: Some(device.to_owned()),
        })
    });
    Tuning::new(preferences.collect())
}

fn winner<'a>(figures: impl Iterator<Item = &'a Measured> + Clone) -> Option<&'a Measured> {
    let best = |shipped: bool| {
        let fit = figures.clone().filter(move |figure| !shipped || figure.shipped);
        fit.max_by(|a, b| a.tflops.total_cmp(&b.tflops))
    };
    let all = best(false)?;
    Some(best(true).filter(|shipped| all.tflops <= shipped.tflops * NOISE).unwrap_or(all))
}

/// Bounds of keys, queries and tiles an SM.
fn bounds(problem: &Problem, problems: &[Problem], sms: u32) -> (Bounds<u64>, Bounds<u64>, Bounds<f64>) {
    let mut lengths: Vec<u64> =
        problems.iter().filter(|other| is_neighbour(problem, other)).map(Problem::keys).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let work = tiles_per_sm(problem, sms);
    let keys = problem.keys();
    if lengths.len() < 2 {
        let near = |n: u64| Bounds { from: Some((n as f64 / NEAR).ceil() as u64), to: Some((n as f64 * NEAR) as u64) };
        return (near(keys), near(problem.queries()), Bounds { from: Some(work / WORK), to: Some(work * WORK) });
    }
    let between = |a: u64, b: u64| (a as f64 * b as f64).sqrt() as u64;
    let at = lengths.partition_point(|&length| length < keys);
    let keys = Bounds {
        from: at.checked_sub(1).map(|below| between(lengths[below], keys) + 1),
        to: lengths.get(at + 1).map(|&above| between(keys, above)),
    };
    let enough = if work >= 1.0 { Bounds::from(1.0) } else { Bounds { from: None, to: Some(1.0) } };
    (keys, Bounds::default(), enough)
}

/// Whether two problems are of one class and a grid: as many keys as queries, as many key heads as query heads, and work
/// for all SMs or for fewer alike.
fn is_neighbour(a: &Problem, b: &Problem) -> bool {
    let square = |problem: &Problem| problem.queries() == problem.keys();
    Class::of(a) == Class::of(b) && square(a) && square(b) && a.heads() == b.heads() && a.group() == b.group()
}
