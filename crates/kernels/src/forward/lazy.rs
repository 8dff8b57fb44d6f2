//! Softmax of a block by the maxima at hand, where O is corrected only above a threshold: exponents are made at once, and
//! compared with the largest that P may have. Where one passes it, in some row of the warp, the row's maximum is raised to
//! its largest score and the exponents are lowered. Otherwise nothing is compared across lanes and no row is reduced.
//!
//! Exponents are compared as whole numbers, three an instruction: of floats above zero the bits are in their order, and
//! those of the others are below. What is no number is above all, and stays.
//!
//! A maximum too low is found so, one too high is not: a row must have seen a score before.

use ptx::qual::{Cmp, Int, Num, Value, Vote};
use ptx::{F32, Pred, R32, op};
use schedule::{RowSum, fp8};
use tile::{Accumulator, Asm};

use super::linear::{self, Line};
use super::polynomial;
use super::softmax::{Choices, Rows, fold, quad};

/// Chains that registers are reduced in.
const CHAINS: usize = 3;

/// What a step did to the maxima.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    /// Holds in warps whose maxima stand.
    pub(super) stands: Pred,
    /// By how much earlier terms shrink where they do not.
    pub(super) factors: [F32; 2],
}

/// Exponents of P of one kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// As the exponential unit takes them.
    Unit,
    /// As `linear` does.
    Linear,
}

/// The registers of a block, by what becomes of them.
struct Exponents<'a> {
    scores: &'a Accumulator,
    choices: Choices,
    offset: f32,
}

/// Turns S into P by the maxima at hand; none if the schedule does not go by them. `always` gives factors of 1 where they
/// stand.
pub(super) fn update(
    asm: &mut Asm,
    rows: &Rows,
    scores: &Accumulator,
    (c, offset): (F32, f32),
    choices: Choices,
    always: bool,
) -> Option<Outcome> {
    let factors = rows.factors?;
    let exponents = Exponents { scores, choices, offset };
    exponents.make(asm, rows, c);
    let kinds: Vec<Pred> = exponents.kinds().map(|kind| exponents.within(asm, kind)).collect();
    let within = reduce(asm, &kinds, |asm, a, b| asm.pred(|p| op::and_pred(p, a, b)));
    let stands = asm.pred(|p| op::vote_sync(Vote::All, p, within, -1));
    if always {
        factors.iter().for_each(|&factor| asm.emit(op::mov(Value::F32, factor, 1.0)));
    }
    let done = asm.label("MAXIMA_STAND");
    asm.jump_if(stands, &done);
    asm.comment("higher maxima");
    for (half, factor) in factors.into_iter().enumerate() {
        exponents.raise(asm, rows, half, factor);
    }
    asm.place(&done);
    for half in 0..2 {
        let own: Vec<F32> = exponents.of(half, Kind::Unit).collect();
        for (i, &x) in own.iter().enumerate() {
            match polynomial::takes(choices.eighths(), i) {
                true => polynomial::exp2(asm, x),
                false => asm.emit(op::ex2_approx(x, x)),
            }
        }
        if choices.row_sum() == RowSum::Threads {
            let total = reduce(asm, &own, |asm, a, b| asm.f32(|d| op::add_f32(d, a, b)));
            asm.emit(op::add_f32(rows.sum[half], rows.sum[half], total));
        }
    }
    Some(Outcome { stands, factors })
}

impl Exponents<'_> {
    fn kind(&self, register: usize) -> Kind {
        if self.choices.is_linear(register) { Kind::Linear } else { Kind::Unit }
    }

    /// The kinds that there are.
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        let has = |kind| (0..self.scores.regs().len()).any(|i| self.kind(i) == kind);
        [Kind::Unit, Kind::Linear].into_iter().filter(move |&kind| has(kind)).collect::<Vec<_>>().into_iter()
    }

    /// The registers of one of the lane's rows of one kind.
    fn of(&self, half: usize, kind: Kind) -> impl Iterator<Item = F32> {
        let all = self.scores.regs().iter().enumerate();
        all.filter(move |(i, _)| Accumulator::half(*i) == half && self.kind(*i) == kind).map(|(_, &x)| x)
    }

    /// Makes exponents of scores.
    fn make(&self, asm: &mut Asm, rows: &Rows, c: F32) {
        let slope = self.kinds().any(|kind| kind == Kind::Linear).then(|| linear::slope(asm, c));
        let units = rows.max.map(|max| asm.f32(|d| op::sub_f32(d, self.offset, max)));
        let lines = slope.map(|slope| rows.max.map(|max| Line::new(asm, slope, max, self.offset)));
        for (i, &score) in self.scores.regs().iter().enumerate() {
            let half = Accumulator::half(i);
            match (self.kind(i), &lines) {
                (Kind::Linear, Some(lines)) => lines[half].apply(asm, score),
                _ => asm.emit(op::fma_rn_f32(score, score, c, units[half])),
            }
        }
    }

    /// A predicate that holds if no exponent of a kind passes the largest that P may have.
    fn within(&self, asm: &mut Asm, kind: Kind) -> Pred {
        let limit = match kind {
            Kind::Unit => fp8::MOST_EXPONENT,
            Kind::Linear => linear::of_exponent(fp8::MOST_EXPONENT),
        };
        let bits: Vec<R32> = (0..2)
            .flat_map(|half| self.of(half, kind).collect::<Vec<_>>())
            .map(|x| asm.b32(|d| op::mov_bits(d, x)))
            .collect();
        let most = reduce(asm, &bits, |asm, a, b| asm.b32(|d| op::max(Int::S32, d, a, b)));
        asm.compare(Cmp::Le, Num::S32, most, limit.to_bits())
    }

    /// Raises the maximum of one of the lane's rows if an exponent passes the largest.
    fn raise(&self, asm: &mut Asm, rows: &Rows, half: usize, factor: F32) {
        let of_kinds: Vec<F32> = self
            .kinds()
            .map(|kind| {
                let own: Vec<F32> = self.of(half, kind).collect();
                let most = reduce(asm, &own, |asm, a, b| asm.f32(|d| op::max_f32(d, a, b)));
                if kind == Kind::Linear { linear::exponent(asm, most) } else { most }
            })
            .collect();
        let of_lane = fold(asm, &of_kinds, op::max_f32);
        let of_row = quad(asm, of_lane, op::max_f32);
        let passes = asm.compare(Cmp::Gt, Num::F32, of_row, fp8::MOST_EXPONENT);
        let above = asm.f32(|d| op::sub_f32(d, of_row, self.offset));
        let down = asm.f32(|d| op::selp(Value::F32, d, above, 0.0, passes));
        let shrink = asm.f32(|d| op::neg_f32(d, down));
        asm.emit(op::ex2_approx(factor, shrink));
        asm.emit(op::add_f32(rows.max[half], rows.max[half], down));
        if self.choices.row_sum() == RowSum::Threads {
            asm.emit(op::mul_f32(rows.sum[half], rows.sum[half], factor));
        }
        for x in self.of(half, Kind::Unit) {
            asm.emit(op::sub_f32(x, x, down));
        }
        for w in self.of(half, Kind::Linear) {
            linear::lower(asm, w, down);
        }
    }
}

/// Reduces registers in chains, so that an instruction of three operands can take two of a chain at once.
fn reduce<R: Copy>(asm: &mut Asm, all: &[R], combine: impl Fn(&mut Asm, R, R) -> R) -> R {
    let chains: Vec<R> = (0..CHAINS.min(all.len()))
        .map(|chain| {
            let own = all[chain + 1..].iter().skip(CHAINS - 1).step_by(CHAINS);
            own.fold(all[chain], |most, &next| combine(asm, most, next))
        })
        .collect();
    chains[1..].iter().fold(chains[0], |most, &chain| combine(asm, most, chain))
}
