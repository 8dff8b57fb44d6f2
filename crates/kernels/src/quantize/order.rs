//! Which item comes next, and where its tile lies: the producer's arithmetic, once an item.
//!
//! First of all V is dealt, where it is read once: in each round the tiles of so many heads as the grid's warpgroups can hold,
//! at most one to each. What is drawn stands in this order:
//!
//! ```text
//! first section of V, K, Q read for its maximum (those whose scales need it)
//! K, then Q, then V; of each, by blocks:    every tile
//!                    by heads or as a whole: section 1 read, section 0 rounded, section 2 read, section 1 rounded, ...
//! ```
//!
//! In a section, and in what has none, the tiles of the same rows of all heads follow one another: rows of heads lie side
//! by side in `[B, S, H, D]`, and are read as whole pages. A section is as many heads as a few megabytes hold. Between the
//! two readings of a tile lie at most two sections, so the second finds it in the L2 cache, and at least one, so that its
//! maximum is there. Where there is one section, all of Q and K lies between the readings of V.

use ptx::qual::{Cmp, Int, Num, Shr, Value};
use ptx::{Label, R32, Special, op};
use schedule::Quantize;
use tile::Asm;

use super::Quantizer;
use super::abi::{Divisor, Shares, Tensor};

/// What is done with an item's tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Rounded by a scale of its own or one that is waited for.
    Round,
    /// Read for its largest magnitude.
    Measure,
    /// Read once: measured, held until the scale is known, rounded.
    Hold,
}

/// V among the tensors, the last.
pub(super) const V: usize = 2;
/// Binary digits of a kind that say what is done.
const WORK_BITS: u32 = 2;
/// An item without a tile.
pub(super) const NOTHING: i32 = (V as i32 + 1) << WORK_BITS;
/// No item is left.
pub(super) const END: i32 = NOTHING + 1;

/// The number of a kind of item: the tensor's place and what is done.
pub(super) fn kind(tensor: usize, work: Work) -> i32 {
    ((tensor as i32) << WORK_BITS) + work as i32
}

/// An item's tile.
pub(super) struct Item {
    /// [`kind`], [`NOTHING`] or [`END`].
    pub(super) kind: R32,
    /// Tile of its head.
    pub(super) tile: R32,
    /// Head of its batch entry.
    pub(super) head: R32,
    pub(super) batch: R32,
}

impl Item {
    /// The words that a slot says it with.
    pub(super) fn words(&self) -> [R32; 4] {
        [self.kind, self.tile, self.head, self.batch]
    }
}

/// Registers that each part of the order fills in.
struct Found {
    kind: R32,
    /// The first head of those that stand abreast, of all batch entries.
    first: R32,
    /// Tile of those, all heads of one before the next.
    within: R32,
    /// Heads that stand abreast.
    abreast: Divisor,
    /// Heads of a batch entry.
    heads: Divisor,
}

/// Where item number `item` lies.
pub(super) fn decode(asm: &mut Asm, qz: &Quantizer<'_>, item: R32) -> Item {
    let mut divisor = || Divisor { number: asm.new_b32(), inverse: asm.new_b32() };
    let (abreast, heads) = (divisor(), divisor());
    let found = Found { kind: asm.new_b32(), first: asm.new_b32(), within: asm.new_b32(), abreast, heads };
    let done = asm.label("DECODED");
    let tensors = qz.abi.tensors();
    let mut start = None;
    for (number, tensor) in tensors.iter().enumerate().rev() {
        if let Some(shares) = tensor.shares {
            part(asm, item, &mut start, shares.lead_end, &done, |asm, offset| {
                found.all_from(asm, kind(number, Work::Measure), offset);
                found.belongs_to(asm, tensor);
            });
        }
    }
    for number in Quantize::DRAWN {
        let tensor = tensors[number];
        let code = |asm: &mut Asm, offset: R32| {
            found.belongs_to(asm, tensor);
            match tensor.shares {
                None => found.all_from(asm, kind(number, Work::Round), offset),
                Some(shares) => found.in_sections(asm, number, shares, offset),
            }
        };
        match number {
            V => rest(asm, item, start, code),
            _ => part(asm, item, &mut start, tensor.end, &done, code),
        }
    }
    asm.place(&done);
    let (tile, beside) = divide(asm, found.within, found.abreast);
    let any_head = asm.b32(|d| op::add(Int::U32, d, found.first, beside));
    for shares in tensors.iter().enumerate().filter_map(|(number, tensor)| Some((number, tensor.shares?))) {
        end_with_last_head(asm, &found, any_head, shares);
    }
    let (batch, head) = divide(asm, any_head, found.heads);
    Item { kind: found.kind, tile, head, batch }
}

/// The tile of V that a round deals to a warpgroup: the heads of a round stand abreast, and a block's warpgroups take tiles
/// that lie apart, so that a round with fewer tiles than warpgroups leaves some of every block free.
pub(super) fn dealt(asm: &mut Asm, qz: &Quantizer<'_>, shares: Shares, round: R32, group: R32) -> Item {
    let v = &qz.abi.v;
    let [block, blocks] = [Special::CtaidX, Special::NctaidX].map(|what| asm.b32(|d| op::mov_special(d, what)));
    let place = asm.b32(|d| op::mad_lo(Int::U32, d, blocks, group, block));
    let (tile, beside) = divide(asm, place, v.abreast);
    let any_head = asm.b32(|d| op::mad_lo(Int::U32, d, round, v.abreast.number, beside));
    let free = asm.compare(Cmp::Ge, Num::U32, place, shares.section);
    let past = asm.compare(Cmp::Ge, Num::U32, any_head, shares.heads);
    let none = asm.pred(|p| op::or_pred(p, free, past));
    let hold = kind(V, Work::Hold);
    let kind = asm.b32(|d| op::selp(Value::B32, d, NOTHING, hold, none));
    let (batch, head) = divide(asm, any_head, v.heads);
    Item { kind, tile, head, batch }
}

/// The last section may have fewer heads than the others.
fn end_with_last_head(asm: &mut Asm, found: &Found, any_head: R32, (number, shares): (usize, Shares)) {
    let past = asm.compare(Cmp::Ge, Num::U32, any_head, shares.heads);
    let of_tensor = asm.b32(|d| op::shr(Shr::U32, d, found.kind, WORK_BITS));
    let mine = asm.compare(Cmp::Eq, Num::U32, of_tensor, number as u32);
    let over = asm.pred(|p| op::and_pred(p, past, mine));
    asm.emit(op::selp(Value::B32, found.kind, NOTHING, found.kind, over));
}

/// One part of the order: from where the part before ends (`start`) to `end`.
fn part(asm: &mut Asm, item: R32, start: &mut Option<R32>, end: R32, done: &Label, code: impl FnOnce(&mut Asm, R32)) {
    let past = asm.label("LATER_ITEM");
    let later = asm.compare(Cmp::Ge, Num::U32, item, end);
    asm.jump_if(later, &past);
    rest(asm, item, *start, code);
    asm.jump(done);
    asm.place(&past);
    *start = Some(end);
}

/// The last part of the order, from where the part before ends.
fn rest(asm: &mut Asm, item: R32, start: Option<R32>, code: impl FnOnce(&mut Asm, R32)) {
    let offset = match start {
        None => item,
        Some(start) => asm.b32(|d| op::sub(Int::U32, d, item, start)),
    };
    code(asm, offset);
}

/// Quotient and remainder, without the many steps of a division: the quotient by the inverse is right or one too small.
fn divide(asm: &mut Asm, n: R32, by: Divisor) -> (R32, R32) {
    let u32 = Int::U32;
    let near = asm.b32(|d| op::mul_hi(u32, d, n, by.inverse));
    let whole = asm.b32(|d| op::mul_lo(u32, d, near, by.number));
    let left = asm.b32(|d| op::sub(u32, d, n, whole));
    let small = asm.compare(Cmp::Ge, Num::U32, left, by.number);
    let more = asm.b32(|d| op::add(u32, d, near, 1));
    let less = asm.b32(|d| op::sub(u32, d, left, by.number));
    let quotient = asm.b32(|d| op::selp(Value::B32, d, more, near, small));
    (quotient, asm.b32(|d| op::selp(Value::B32, d, less, left, small)))
}

impl Found {
    fn belongs_to(&self, asm: &mut Asm, tensor: &Tensor) {
        for (to, from) in [(self.abreast, tensor.abreast), (self.heads, tensor.heads)] {
            asm.emit(op::mov(Value::B32, to.number, from.number));
            asm.emit(op::mov(Value::B32, to.inverse, from.inverse));
        }
    }

    /// Tile number `offset` of those from the first head on.
    fn all_from(&self, asm: &mut Asm, kind: i32, offset: R32) {
        asm.emit(op::mov(Value::B32, self.kind, kind));
        asm.emit(op::mov(Value::B32, self.first, 0));
        asm.emit(op::mov(Value::B32, self.within, offset));
    }

    /// Pairs of a section read and the one before rounded; the last section is rounded alone.
    fn in_sections(&self, asm: &mut Asm, number: usize, shares: Shares, offset: R32) {
        let u32 = Int::U32;
        let (before, within) = divide(asm, offset, shares.pair);
        let next = asm.b32(|d| op::add(u32, d, before, 1));
        let first_half = asm.compare(Cmp::Lt, Num::U32, within, shares.section);
        let paired = asm.compare(Cmp::Lt, Num::U32, next, shares.sections);
        let measures = asm.pred(|p| op::and_pred(p, first_half, paired));
        // What is rounded stands in the second half of its pair.
        let back = asm.b32(|d| op::sub(u32, d, within, shares.section));
        asm.emit(op::selp(Value::B32, self.within, within, back, first_half));
        let section = asm.b32(|d| op::selp(Value::B32, d, next, before, measures));
        asm.emit(op::mul_lo(u32, self.first, section, self.abreast.number));
        let (measure, round) = (kind(number, Work::Measure), kind(number, Work::Round));
        asm.emit(op::selp(Value::B32, self.kind, measure, round, measures));
    }
}
