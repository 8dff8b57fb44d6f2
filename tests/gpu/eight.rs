//! 8-bit tensors in host memory: codes and scales laid out as a problem says, and the numbers that they stand for.
//!
//! Where a scale or a code lies is worked out here from the facade's documentation, not by its code.

use rayon::prelude::*;
use schedule::{Accumulate, Scales, Schedule, Variant};
use sim::Float8;
use tilewright::reference::{self, Host, Output, Rows, codes::key_order};
use tilewright::{Element, Fp8, Problem, ProblemBuilder, ScaleBy, ScaleLayout, ScaleStrides, Values, error};

use crate::gpu::data::noise;

pub mod call;
pub mod machine;

/// Q, K and V as a kernel of the problem reads them.
#[derive(Debug, Clone)]
pub struct Coded {
    /// Of 8 bits.
    pub problem: Problem,
    /// Of Q, K and V.
    pub codes: [Vec<u8>; 3],
    /// Of Q, K and V; empty where the problem has none.
    pub scales: [Vec<f32>; 3],
}

/// A code that is no number in e4m3 and in e5m2: what lies between rows.
const NAN: u8 = 0x7f;
/// The least scale: nothing of the normal distribution passes the largest e4m3 by it.
const SCALE: f32 = 1.0 / 64.0;

/// Extents `[B, S, H, D]` of the numbers of Q, K and V.
fn extents(problem: &Problem) -> [[u64; 4]; 3] {
    let [q, k, v, _] = crate::gpu::data::extents(problem);
    [q, k, v]
}

/// The format of the problem's elements.
fn format(problem: &Problem) -> Float8 {
    if problem.element() == Element::E5m2 { Float8::E5m2 } else { Float8::E4m3 }
}

fn layouts(problem: &Problem) -> [ScaleLayout; 3] {
    let fp8 = problem.fp8().expect("a problem of 8 bits");
    [fp8.q, fp8.k, fp8.v]
}

/// Where the scale of a row is; none of a tensor without.
pub fn scale_at(problem: &Problem, tensor: usize, [b, s, h]: [u64; 3]) -> Option<usize> {
    let [_, rows, heads, _] = extents(problem)[tensor];
    let ScaleLayout { by, strides } = layouts(problem)[tensor];
    let (head, heads, block, blocks) = match by {
        ScaleBy::One => return None,
        ScaleBy::Tensor => return Some(0),
        ScaleBy::KvHead if tensor == 0 => (h / problem.group(), problem.kv_heads(), 0, 1),
        ScaleBy::KvHead | ScaleBy::Head => (h, heads, 0, 1),
        ScaleBy::Block(n) => (h, heads, s / u64::from(n), rows.div_ceil(n.into())),
        other => panic!("{other}"),
    };
    let close = ScaleStrides { batch: heads * blocks, head: blocks, block: 1 };
    let at = strides.unwrap_or(close);
    Some((b * at.batch + head * at.head + block * at.block) as usize)
}

/// Whether the tensor is V with the keys of a column side by side.
fn is_transposed(problem: &Problem, tensor: usize) -> bool {
    tensor == 2 && problem.fp8().is_some_and(|fp8| fp8.values == Values::Transposed)
}

/// Where the code of an element is.
fn code_at(problem: &Problem, tensor: usize, [b, s, h, c]: [u64; 4]) -> usize {
    let strides = problem.strides()[tensor];
    match is_transposed(problem, tensor) {
        true => (strides.row(b, c, h) + key_order(s)) as usize,
        false => (strides.row(b, s, h) + c) as usize,
    }
}

/// Every place `[b, s, h, d]`, in that order.
fn places([b, s, h, d]: [u64; 4]) -> impl IndexedParallelIterator<Item = [u64; 4]> {
    let index = move |at: u64| [at / d / h / s, at / d / h % s, at / d % h, at % d];
    (0..(b * s * h * d) as usize).into_par_iter().map(move |at| index(at as u64))
}

impl Coded {
    /// Numbers rounded by scales that change from one to the next, so that a wrong one shows.
    pub fn of(problem: &Problem, number: impl Fn(usize, [u64; 4]) -> f32 + Sync) -> Self {
        let factor = |at: usize| SCALE * (1.0 + (at * 7 % 11) as f32 / 4.0);
        Self::with_scales(problem, number, |_, at| factor(at))
    }

    /// Numbers rounded by scales that are given by tensor and place.
    pub fn with_scales(
        problem: &Problem,
        number: impl Fn(usize, [u64; 4]) -> f32 + Sync,
        scale: impl Fn(usize, usize) -> f32 + Sync,
    ) -> Self {
        let (format, lengths) = (format(problem), problem.scale_elements());
        let mut made = Self {
            problem: *problem,
            codes: [0, 1, 2].map(|t| vec![NAN; code_elements(problem, t)]),
            // Scales that nothing has are no numbers.
            scales: lengths.map(|length| vec![f32::NAN; length as usize]),
        };
        for (t, extents) in extents(problem).into_iter().enumerate() {
            if t == 2 {
                made.fill_behind_keys();
            }
            let coded = places(extents).map(|[b, s, h, c]| {
                let of = scale_at(problem, t, [b, s, h]);
                let by = of.map_or(1.0, |at| scale(t, at));
                let code = format.of_single(number(t, [b, s, h, c]) / by);
                (of.map(|at| (at, by)), code_at(problem, t, [b, s, h, c]), code)
            });
            for (of, at, code) in coded.collect::<Vec<_>>() {
                made.codes[t][at] = code;
                if let Some((at, by)) = of {
                    made.scales[t][at] = by;
                }
            }
        }
        made
    }

    /// Which of Q, K and V have scales.
    pub fn has_scales(&self) -> [bool; 3] {
        layouts(&self.problem).map(|layout| layout.by != ScaleBy::One)
    }

    /// Numbers of the normal distribution.
    pub fn random(problem: &Problem, seed: u64) -> Self {
        let all = extents(problem);
        Self::of(problem, |t, at| noise(seed + t as u64, all[t])(at))
    }

    /// Transposed V has zeros behind its last key, up to a whole sixteen.
    fn fill_behind_keys(&mut self) {
        let [b, s, h, d] = extents(&self.problem)[2];
        if s == 0 || !is_transposed(&self.problem, 2) {
            return;
        }
        for key in s..s.next_multiple_of(16) {
            for [b, _, h, c] in places([b, 1, h, d]).collect::<Vec<_>>() {
                self.codes[2][code_at(&self.problem, 2, [b, key, h, c])] = 0;
            }
        }
    }

    /// The numbers that they stand for, `[B, S, H, D]` without gaps.
    pub fn numbers(&self) -> [Vec<f32>; 3] {
        let format = format(&self.problem);
        [0, 1, 2].map(|t| {
            let number = |[b, s, h, c]: [u64; 4]| {
                let by = scale_at(&self.problem, t, [b, s, h]).map_or(1.0, |at| self.scales[t][at]);
                by * format.to_single(self.codes[t][code_at(&self.problem, t, [b, s, h, c])])
            };
            places(extents(&self.problem)[t]).map(number).collect()
        })
    }

    /// Attention over those numbers in double precision.
    pub fn exact(&self, rows: Rows<'_>) -> Output {
        let [q, k, v] = self.numbers();
        reference::attention(&plain(&self.problem), Host { q: &q, k: &k, v: &v }, rows)
    }
}

/// Elements that a tensor's codes reach.
pub fn code_elements(problem: &Problem, tensor: usize) -> usize {
    let [b, s, h, d] = extents(problem)[tensor];
    if [b, s, h, d].contains(&0) {
        return 0;
    }
    // Key 15 of sixteen has the last place.
    let last = if is_transposed(problem, tensor) { s.next_multiple_of(16) } else { s };
    1 + code_at(problem, tensor, [b - 1, last - 1, h - 1, d - 1])
}

/// The shapes of a problem of 8 bits for what has more, without gaps.
pub fn plain(problem: &Problem) -> Problem {
    let dims = problem.head_dim();
    let builder = Problem::builder().batch(problem.batch()).queries(problem.queries()).keys(problem.keys());
    let builder = builder.heads(problem.heads()).kv_heads(problem.kv_heads()).head_dims(dims.qk, dims.v);
    builder.causal(problem.causal()).scale(problem.scale()).build().expect("the shapes are right")
}

/// How far O and LSE are from what is right, beside what long sums lose: of O the worst row, norm of the difference over norm of the row; of LSE the
/// difference times the root of the keys that the row sees, over which rounding of P evens out as far as all count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Off {
    /// Of O, over all rows together.
    pub whole: f64,
    /// Of O, of the worst row.
    pub row: f64,
    /// Of LSE.
    pub lse: f64,
}

impl Off {
    /// The worse of each.
    pub fn worse(self, other: Self) -> Self {
        Self { whole: self.whole.max(other.whole), row: self.row.max(other.row), lse: self.lse.max(other.lse) }
    }
}

/// What P in e4m3 explains: a sixteenth of a weight at most, 2.6 % of deviation.
pub const BOUND: Off = Off { whole: 0.035, row: 0.075, lse: 0.25 };

/// The largest of numbers, none of them if one is no number.
fn most(all: impl Iterator<Item = f64>) -> f64 {
    all.fold(f64::NEG_INFINITY, |most, next| if next.is_nan() || most.is_nan() { f64::NAN } else { most.max(next) })
}

/// What sums of so many keys lose, as a share: those of rows of P, which are of one sign, and those of O. Accurate ones lose
/// what is lost between two additions, as many keys apart as the schedule says.
fn lost(schedule: &Schedule, keys: f64) -> (f64, f64) {
    match schedule.fp8.map(|fp8| fp8.accumulate) {
        Some(Accumulate::Every(tiles)) => {
            let share = 2e-3 * f64::from((tiles * schedule.tile.columns).max(384)) / 384.0;
            (share, share)
        }
        _ => (2.2e-5 * keys, 8e-4 * keys.sqrt()),
    }
}

/// A problem that the schedule computes: its elements, head dimensions, V and O, and scales as its kernel has them.
pub fn problem_of(schedule: &Schedule) -> ProblemBuilder {
    let has = schedule.fp8.expect("a schedule of 8 bits");
    let (q, k) = match has.scales {
        Scales::Head => (ScaleBy::KvHead, ScaleBy::Head),
        _ => (ScaleBy::Block(64), ScaleBy::Block(schedule.tile.columns)),
    };
    let fp8 = Fp8 { output: has.output, values: has.values, q: q.into(), k: k.into(), ..Fp8::default() };
    let dims = schedule.head_dim;
    let builder = Problem::builder().element(schedule.element).head_dims(dims.qk, dims.v).fp8(fp8);
    builder.causal(schedule.variant == Variant::Causal)
}

/// Measures O `[B, rows, H, Dv]` and LSE `[B, H, rows]` against what is right.
///
/// # Errors
/// What is off by more than [`BOUND`].
pub fn measure(
    schedule: &Schedule,
    problem: &Problem,
    which: &[u64],
    o: &[f64],
    lse: &[f64],
    right: &Output,
) -> Result<Off, String> {
    let dim = problem.head_dim().v as usize;
    let rows = o.chunks(dim).zip(right.o.chunks(dim)).map(|(found, right)| error::relative(found, right));
    let keys = |at: usize| problem.visible(which[at % which.len()]).max(1) as f64;
    let apart = lse.iter().zip(&right.lse).enumerate().map(|(at, (a, b))| match (a - b).abs() {
        _ if a == b => f64::NEG_INFINITY,
        off => (off - lost(schedule, keys(at)).0) * keys(at).sqrt(),
    });
    let (_, lost) = lost(schedule, problem.keys() as f64);
    let (whole, row) = (error::relative(o, &right.o) - lost, most(rows) - lost);
    let off = Off { whole, row, lse: most(apart) };
    let within = off.whole <= BOUND.whole && off.row <= BOUND.row && off.lse <= BOUND.lse;
    if within { Ok(off) } else { Err(format!("{off:?} is more than {BOUND:?}")) }
}

/// O and LSE of all rows as a kernel wrote them, in the order of the reference.
pub fn whole<T: Copy + Into<f64>>(problem: &Problem, o: &[T], lse: &[f32]) -> (Vec<f64>, Vec<f64>) {
    (Output::pick_o(problem, Rows::All, o), Output::pick_lse(problem, Rows::All, lse))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(fp8: Fp8) -> Problem {
        let builder = Problem::builder().element(Element::E4m3).batch(2).queries(70).keys(37).heads(4).kv_heads(2);
        builder.head_dim(64).fp8(fp8).build().expect("fine")
    }

    #[test]
    fn codes_and_scales_are_as_long_as_the_problem_says_and_read_back() {
        for fp8 in [Fp8::default(), Fp8::quantized(64)] {
            let problem = problem(fp8);
            let coded = Coded::random(&problem, 3);
            assert_eq!([0, 1, 2].map(|t| coded.scales[t].len() as u64), problem.scale_elements());
            assert!(coded.scales.iter().flatten().all(|scale| scale.is_finite()), "every scale has a row");
            assert!(coded.codes.iter().flatten().all(|&code| code & NAN != NAN), "every code has a number");
            let all = extents(&problem);
            for (t, numbers) in coded.numbers().iter().enumerate() {
                let right = places(all[t]).map(|at| noise(3 + t as u64, all[t])(at)).collect::<Vec<f32>>();
                let off = error::relative(&numbers.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), &right);
                assert!(off < 0.035, "{t}: {off}");
            }
        }
    }
}
