//! Online softmax over the lane's two rows (FlashAttention-2, arXiv 2307.08691, section 3.1).
//!
//! Scores stay unscaled. With c = scale * log2(e), m the row's maximum so far and M = m c, a score s becomes
//! 2^(s c - M): one multiply-add and one `ex2`. M is a rounded product, which is harmless while its error is below
//! one: numerator and denominator share it. For rows beyond that, c is replaced by the power of two nearest to it, so
//! that M is exact and the largest score gives exactly 1; scores of that size are further apart than the change of
//! temperature can matter.
//!
//! Any M gives the same O and log-sum-exp while nothing overflows or vanishes, and an exponential has the range of a
//! single. Where the reference stands (`rescale: on_overflow`), M is what the row's first blocks gave, and whole blocks
//! after them are exponentiated without asking for their maximum; see `overflow`.
//! With 8-bit elements c takes in the scales of Q and K and may change from block to block: it is M that is kept, and P is
//! 2^(s c - M + offset), to use the range of e4m3. Its conversion saturates where M is beyond exactness.

use ptx::qual::{Bits, Cmp, Num, Shuffle, Value, Vote};
use ptx::{F32, Operand, Pred, op};
use schedule::{Rescale, RowSum, Schedule, fp8};
use tile::{Accumulator, Asm};

use super::linear::{self, Line};

/// |M| up to which the rounding of M stays below one.
const EXACT: f32 = 16_777_216.0;
/// ln 2: from powers of two to natural logarithms.
const LN_2: f32 = std::f32::consts::LN_2;
/// Chains that a row is reduced in, for their latency.
const CHAINS: usize = 4;

/// The scale, in registers, and with it what maxima are kept in.
pub(super) enum Scale {
    /// One for all scores: maxima are kept as m.
    One {
        /// c.
        log2: F32,
        /// The power of two nearest to c.
        pow2: F32,
        /// Largest |m| with |m c| within [`EXACT`].
        limit: F32,
    },
    /// The c of the block at hand: maxima are kept as M.
    Block {
        /// c.
        c: F32,
        /// Added to the exponents of P.
        offset: f32,
    },
}

impl Scale {
    pub(super) fn one(asm: &mut Asm, log2: F32, pow2: F32) -> Scale {
        let inverse = asm.f32(|d| op::rcp_approx(d, log2));
        let limit = asm.f32(|d| op::mul_f32(d, inverse, EXACT));
        Scale::One { log2, pow2, limit }
    }

    pub(super) fn block(c: F32, rescale: Rescale) -> Scale {
        Scale::Block { c, offset: fp8::offset(rescale) }
    }
}

/// The schedule's choices.
#[derive(Clone, Copy)]
pub(super) struct Choices {
    rescale: Rescale,
    row_sum: RowSum,
    /// Of every four parts of P, how many [`linear`] makes.
    quarters: u32,
    /// Of every eight elements of P, how many [`super::polynomial`] makes.
    eighths: u32,
    lazy: bool,
}

impl Choices {
    pub(super) fn of(schedule: &Schedule) -> Choices {
        Choices {
            rescale: schedule.rescale,
            row_sum: schedule.row_sum,
            quarters: schedule.linear_quarters(),
            eighths: schedule.polynomial_eighths(),
            lazy: schedule.goes_by_maxima_at_hand(),
        }
    }

    /// Whether blocks that every row sees whole go by the maxima at hand ([`super::lazy`]).
    pub(super) fn lazy(self) -> bool {
        self.lazy
    }

    pub(super) fn eighths(self) -> u32 {
        self.eighths
    }

    pub(super) fn row_sum(self) -> RowSum {
        self.row_sum
    }

    /// Whether a register of S is made P by [`linear`].
    pub(super) fn is_linear(self, register: usize) -> bool {
        linear::takes(self.quarters, linear::register_of(register))
    }
}

/// Statistics of the lane's two rows: the maximum over the quad, and the lane's own part of the sum.
pub(super) struct Rows {
    pub(super) max: [F32; 2],
    pub(super) sum: [F32; 2],
    /// What whole blocks are exponentiated against, and the sums over the whole row in the end: where the reference stands.
    standing: Option<[Standing; 2]>,
    /// By how much earlier terms shrank when a maximum was raised last, where blocks go by the maxima at hand.
    pub(super) factors: Option<[F32; 2]>,
}

/// Of a row whose reference stands.
#[derive(Debug, Clone, Copy)]
struct Standing {
    /// The row's c.
    c: F32,
    /// -M.
    negated: F32,
    /// The sum over the row, when it is finished.
    total: F32,
}

impl Rows {
    pub(super) fn new(asm: &mut Asm, choices: Choices) -> Rows {
        let [max, sum] = [(); 2].map(|()| [asm.new_f32(), asm.new_f32()]);
        let standing = (choices.rescale == Rescale::OnOverflow)
            .then(|| [0, 1].map(|_| Standing { c: asm.new_f32(), negated: asm.new_f32(), total: asm.new_f32() }));
        let factor = |asm: &mut Asm| asm.f32(|d| op::mov(Value::F32, d, 1.0));
        Rows { max, sum, standing, factors: choices.lazy().then(|| [factor(asm), factor(asm)]) }
    }

    /// The sums over the finished rows, where the reference stands.
    pub(super) fn totals(&self) -> Option<[F32; 2]> {
        self.standing.map(|rows| rows.map(|row| row.total))
    }
}

/// What a block is to the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// The row's first block: there is nothing to correct.
    pub(super) first: bool,
    /// All of the row may be masked.
    pub(super) may_be_empty: bool,
    /// What the row has been exponentiated against stands.
    pub(super) reference_stands: bool,
}

/// Turns S into P in place and brings the statistics up to date. Returns the factors by which O is to be multiplied;
/// none for a first block.
pub(super) fn update(
    asm: &mut Asm,
    rows: &Rows,
    scores: &Accumulator,
    scale: &Scale,
    choices: Choices,
    block: Block,
) -> Option<[F32; 2]> {
    if let (Some(standing), true) = (rows.standing, block.reference_stands) {
        for (half, Standing { c, negated, .. }) in standing.into_iter().enumerate() {
            let row = Shifted { c, negated, line: None, factor: None };
            exponentiate_row(asm, scores, &row, choices, half, |asm, total| {
                asm.emit(op::add_f32(rows.sum[half], rows.sum[half], total));
            });
        }
        return None;
    }
    let linear = match *scale {
        Scale::Block { c, .. } if choices.quarters > 0 => Some((linear::slope(asm, c), linear::bounds(asm, c))),
        _ => None,
    };
    // Both maxima first: the exponentials of one row then fill the latencies of the other's reduction.
    let shifted = [0, 1].map(|half| {
        let row: Vec<F32> = scores.row(half).map(|(_, r)| r).collect();
        let of_block = maximum(asm, &row);
        let of_quad = quad(asm, of_block, op::max_f32);
        match *scale {
            Scale::One { log2, pow2, limit } => {
                shift_one(asm, of_quad, rows.max[half], [log2, pow2, limit], choices.rescale, block)
            }
            Scale::Block { c, offset } => {
                shift_block(asm, of_quad, rows.max[half], (c, linear, offset), choices.rescale, block)
            }
        }
    });
    for (half, row) in shifted.iter().enumerate() {
        if let Some(standing) = rows.standing {
            asm.emit(op::mov(Value::F32, standing[half].c, row.c));
            asm.emit(op::mov(Value::F32, standing[half].negated, row.negated));
        }
        let sum = rows.sum[half];
        exponentiate_row(asm, scores, row, choices, half, |asm, total| {
            asm.emit(match row.factor {
                None => op::mov(Value::F32, sum, total),
                Some(factor) => op::fma_rn_f32(sum, sum, factor, total),
            });
        });
    }
    match shifted.map(|row| row.factor) {
        [Some(a), Some(b)] => Some([a, b]),
        _ => None,
    }
}

/// A row between its maximum and its exponentials.
struct Shifted {
    /// The row's c.
    c: F32,
    /// -M, and the offset.
    negated: F32,
    /// For what is made linear.
    line: Option<Line>,
    /// By how much earlier terms shrink; none in a first block.
    factor: Option<F32>,
}

/// Takes in a block's maximum where maxima are kept as m.
fn shift_one(
    asm: &mut Asm,
    of_block: F32,
    old: F32,
    [log2, pow2, limit]: [F32; 3],
    rescale: Rescale,
    block: Block,
) -> Shifted {
    let max = match block.first {
        true => of_block,
        false => {
            let grown = asm.f32(|d| op::max_f32(d, of_block, old));
            kept_below_threshold(asm, grown, old, Some(log2), rescale)
        }
    };
    // A row of huge magnitude takes the power of two, by which products are exact.
    let magnitude = asm.f32(|d| op::abs_f32(d, max));
    let huge = asm.compare(Cmp::Gt, Num::F32, magnitude, limit);
    let c = asm.f32(|d| op::selp(Value::F32, d, pow2, log2, huge));
    let product = asm.f32(|d| op::mul_rn_f32(d, max, c));
    let shift = shift_or_none(asm, max, product, block);
    let factor = (!block.first).then(|| {
        // Rounded as it was when it was the shift, so that old and new terms agree.
        let old_shift = asm.f32(|d| op::mul_rn_f32(d, old, c));
        let shrink = asm.f32(|d| op::sub_f32(d, old_shift, shift));
        asm.f32(|d| op::ex2_approx(d, shrink))
    });
    asm.emit(op::mov(Value::F32, old, max));
    let negated = asm.f32(|d| op::neg_f32(d, shift));
    Shifted { c, negated, line: None, factor }
}

/// Takes in a block's maximum where maxima are kept as M.
fn shift_block(
    asm: &mut Asm,
    of_block: F32,
    old: F32,
    (c, linear, offset): (F32, Option<(F32, [F32; 2])>, f32),
    rescale: Rescale,
    block: Block,
) -> Shifted {
    let scaled = match linear {
        None => asm.f32(|d| op::mul_f32(d, of_block, c)),
        Some((_, bounds)) => {
            let [a, b] = bounds.map(|by| asm.f32(|d| op::mul_f32(d, of_block, by)));
            asm.f32(|d| op::max_f32(d, a, b))
        }
    };
    let max = match block.first {
        true => scaled,
        false => {
            let grown = asm.f32(|d| op::max_f32(d, scaled, old));
            kept_below_threshold(asm, grown, old, None, rescale)
        }
    };
    let shift = shift_or_none(asm, max, max, block);
    let factor = (!block.first).then(|| {
        let shrink = asm.f32(|d| op::sub_f32(d, old, shift));
        asm.f32(|d| op::ex2_approx(d, shrink))
    });
    asm.emit(op::mov(Value::F32, old, max));
    let negated = asm.f32(|d| op::sub_f32(d, offset, shift));
    let line = linear.map(|(slope, _)| Line::new(asm, slope, shift, offset));
    Shifted { c, negated, line, factor }
}

/// What a row shifts by: minus infinity minus itself is no number, so that a row without a key shifts by nothing.
fn shift_or_none(asm: &mut Asm, max: F32, shift: F32, block: Block) -> F32 {
    if !block.may_be_empty {
        return shift;
    }
    let empty = asm.compare(Cmp::Eq, Num::F32, max, f32::NEG_INFINITY);
    asm.f32(|d| op::selp(Value::F32, d, 0.0, shift, empty))
}

/// Turns a row of S into P and hands on the sum of the lane's part of it, if threads add it up.
fn exponentiate_row(
    asm: &mut Asm,
    scores: &Accumulator,
    shifted: &Shifted,
    choices: Choices,
    half: usize,
    sum: impl FnOnce(&mut Asm, F32),
) {
    let mut chains: Vec<F32> = Vec::with_capacity(CHAINS);
    let row = scores.regs().iter().enumerate().filter(|(i, _)| Accumulator::half(*i) == half);
    for (i, (register, &s)) in row.enumerate() {
        if let Some(line) = shifted.line.filter(|_| choices.is_linear(register)) {
            line.apply(asm, s);
            continue;
        }
        asm.emit(op::fma_rn_f32(s, s, shifted.c, shifted.negated));
        asm.emit(op::ex2_approx(s, s));
        if choices.row_sum == RowSum::TensorCore {
            continue;
        }
        match chains.get(i % CHAINS) {
            Some(&chain) => asm.emit(op::add_f32(chain, chain, s)),
            None => chains.push(asm.f32(|d| op::mov(Value::F32, d, s))),
        }
    }
    if chains.is_empty() {
        return;
    }
    let total = fold(asm, &chains, op::add_f32);
    sum(asm, total);
}

/// The new maximum, or the old one while the new exceeds it by no more than the threshold, in powers of two; maxima times
/// `log2` are, or maxima as they are.
fn kept_below_threshold(asm: &mut Asm, grown: F32, old: F32, log2: Option<F32>, rescale: Rescale) -> F32 {
    let Rescale::Above(threshold) = rescale else { return grown };
    let growth = asm.f32(|d| op::sub_f32(d, grown, old));
    let growth = match log2 {
        Some(log2) => asm.f32(|d| op::mul_f32(d, growth, log2)),
        None => growth,
    };
    let keep = asm.compare(Cmp::Le, Num::F32, growth, threshold.get());
    asm.f32(|d| op::selp(Value::F32, d, old, grown, keep))
}

/// Takes in the maxima and sums of another share of the rows. Returns by what the O so far and that of the share are to be
/// multiplied, for each row.
pub(super) fn take_in(asm: &mut Asm, rows: &Rows, scale: &Scale, max: [F32; 2], sum: [F32; 2]) -> [[F32; 2]; 2] {
    let Scale::One { log2, pow2, limit } = *scale else { return [rows.sum, sum] };
    let block = Block { first: false, may_be_empty: true, reference_stands: false };
    [0, 1].map(|half| {
        let so_far = rows.sum[half];
        let row = shift_one(asm, max[half], rows.max[half], [log2, pow2, limit], Rescale::Always, block);
        let shift = asm.f32(|d| op::mul_rn_f32(d, max[half], row.c));
        let exponent = asm.f32(|d| op::add_f32(d, shift, row.negated));
        let weight = asm.f32(|d| op::ex2_approx(d, exponent));
        let factor = row.factor.unwrap_or(weight);
        let added = asm.f32(|d| op::mul_f32(d, sum[half], weight));
        asm.emit(op::fma_rn_f32(so_far, so_far, factor, added));
        [factor, weight]
    })
}

/// A predicate that holds in the whole warp if every factor of every lane is 1.
pub(super) fn nothing_to_rescale(asm: &mut Asm, factors: [F32; 2]) -> Pred {
    let [a, b] = factors.map(|f| asm.compare(Cmp::Eq, Num::F32, f, 1.0));
    let both = asm.pred(|p| op::and_pred(p, a, b));
    asm.pred(|p| op::vote_sync(Vote::All, p, both, -1))
}

/// Row sums, over the quad or as the tensor cores made them, their inverses (0 for a row without keys) and the log-sum-exp,
/// into `inverse` and `lse`.
pub(super) fn finish(
    asm: &mut Asm,
    rows: &Rows,
    sums: Option<[F32; 2]>,
    scale: &Scale,
    inverse: [F32; 2],
    lse: [F32; 2],
) {
    for half in 0..2 {
        let sum = match sums {
            Some(sums) => sums[half],
            None => quad(asm, rows.sum[half], op::add_f32),
        };
        if let Some(standing) = rows.standing {
            asm.emit(op::mov(Value::F32, standing[half].total, sum));
        }
        let none = asm.compare(Cmp::Eq, Num::F32, sum, 0.0);
        let over = asm.f32(|d| op::rcp_approx(d, sum));
        asm.emit(op::selp(Value::F32, inverse[half], 0.0, over, none));
        let log = asm.f32(|d| op::lg2_approx(d, sum));
        let total = match *scale {
            Scale::One { log2, .. } => asm.f32(|d| op::fma_rn_f32(d, rows.max[half], log2, log)),
            Scale::Block { offset, .. } => {
                let log = asm.f32(|d| op::sub_f32(d, log, offset));
                asm.f32(|d| op::add_f32(d, rows.max[half], log))
            }
        };
        asm.emit(op::mul_f32(lse[half], total, LN_2));
    }
}

fn maximum(asm: &mut Asm, row: &[F32]) -> F32 {
    let chains: Vec<F32> = (0..CHAINS)
        .map(|chain| {
            let mut own = row[chain..].iter().step_by(CHAINS);
            let (first, second) = (own.next(), own.next());
            let start = match (first, second) {
                (Some(&a), Some(&b)) => asm.f32(|d| op::max_f32(d, a, b)),
                _ => row[chain],
            };
            for &s in own {
                asm.emit(op::max_f32(start, start, s));
            }
            start
        })
        .collect();
    fold(asm, &chains, op::max_f32)
}

/// Reduces the chains as a tree.
pub(super) fn fold(asm: &mut Asm, chains: &[F32], combine: impl Fn(F32, F32, F32) -> ptx::Inst + Copy) -> F32 {
    let mut level = chains.to_vec();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match *pair {
                [a, b] => asm.f32(|d| combine(d, a, b)),
                _ => pair[0],
            })
            .collect();
    }
    level[0]
}

/// Reduces over the four lanes that share a row.
pub(super) fn quad(asm: &mut Asm, value: F32, combine: impl Fn(F32, F32, F32) -> ptx::Inst) -> F32 {
    [1, 2].into_iter().fold(value, |value, distance| {
        let other = asm.f32(|d| op::shfl_sync_f(Shuffle::Bfly, d, value, distance, 31, -1));
        asm.f32(|d| combine(d, value, other))
    })
}

/// The lane's first column of a quad's pattern: 2 (l % 4).
pub(super) fn lane_column(asm: &mut Asm, lane: ptx::R32) -> ptx::R32 {
    let in_quad = asm.b32(|d| op::and(Bits::B32, d, lane, 3));
    asm.b32(|d| op::shl(Bits::B32, d, in_quad, Operand::Int(1)))
}
