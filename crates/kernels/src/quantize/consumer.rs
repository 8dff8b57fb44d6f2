//! A consumer warpgroup's walk over the items of its ring.

use ptx::qual::{Bits, Cmp, Int, Num, Regs, Shr, Shuffle, Value, Wide};
use ptx::{F32, Label, Operand, Pred, R32, Special, op};
use schedule::Granularity;
use tile::{Asm, End, Program, Ring, WARPGROUP};

use super::Quantizer;
use super::abi::{Shares, Tensor};
use super::memory::Bases;
use super::order::{self, Work};
use super::rotation;
use super::rows::{Product, Rows};
use super::scale::Meeting;
use super::shares::Words;
use super::values::Values;

/// Named barrier of the first warpgroup; 0 is the CTA's, and the one after the last warpgroup's that of them all.
const FIRST_BARRIER: u32 = 1;

/// Who a lane is in its warpgroup.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// Warp of the warpgroup.
    pub(super) warp: R32,
    /// Upper of its two rows of a product.
    pub(super) row: R32,
    /// Which quarter of a unit's columns it has.
    pub(super) column: R32,
    /// Holds in one lane of each warp.
    pub(super) leader: Pred,
    /// Holds in one lane of the warpgroup.
    pub(super) first: Pred,
}

/// The item at hand, and where the warpgroup is.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) lane: Lane,
    pub(super) meeting: Meeting,
    pub(super) bases: Bases,
    /// The first warpgroup's ring; `bases` moves it.
    ring: &'a Ring,
    pub(super) end: End,
    pub(super) tile: R32,
    pub(super) head: R32,
    pub(super) batch: R32,
}

/// The consumers' code, entered at `entry`.
pub(super) fn emit(program: &mut Program, qz: &Quantizer<'_>, entry: &Label) {
    let exit = program.exit().clone();
    let consumer = qz.schedule.roles.consumer;
    program.role("consumer", 1..1 + consumer.warpgroups, Some(entry), Regs::Inc, consumer.registers);
    let leader = Program::leader(&mut program.asm, &qz.threads);
    let asm = &mut program.asm;
    rotation::build(asm, qz, FIRST_BARRIER + consumer.warpgroups);
    let Some(ring) = qz.memory.rings.first() else { return };
    let (here, kind) = Here::new(asm, qz, ring, leader);
    let product = Product::new(asm, qz);
    let tiles = [(&qz.abi.q, &qz.memory.q), (&qz.abi.k, &qz.memory.k)];
    let rows: Vec<Rows<'_>> =
        tiles.into_iter().filter_map(|(tensor, tile)| Rows::new(asm, tensor, tile, here.bases.slots)).collect();
    let Some(shares) = qz.abi.v.shares else { return };

    let [next_item, taken] = ["ITEM", "TAKEN"].map(|stem| asm.label(stem));
    asm.place(&next_item);
    here.take(asm, kind);
    asm.place(&taken);
    let ended = asm.compare(Cmp::Eq, Num::U32, kind, order::END);
    asm.jump_if(ended, &exit);
    for (number, rows) in rows.iter().enumerate() {
        let twice = rows.tensor.granularity.needs_two_reads();
        let works: &[Work] = if twice { &[Work::Measure, Work::Round] } else { &[Work::Round] };
        for &work in works {
            let past = asm.label("NOT_THIS");
            let other = asm.compare(Cmp::Ne, Num::U32, kind, order::kind(number, work));
            asm.jump_if(other, &past);
            asm.comment(format!("{}: {work:?}", ["q", "k"][number]).to_lowercase());
            rows.work(asm, qz, &product, &here, work);
            asm.jump(&next_item);
            asm.place(&past);
        }
    }
    let past = asm.label("NOT_THIS");
    let other = asm.compare(Cmp::Ge, Num::U32, kind, order::NOTHING);
    asm.jump_if(other, &past);
    // Found anew for every tile: registers that last are Q's and K's.
    let thread = asm.b32(|d| op::mov_special(d, Special::TidX));
    let thread = asm.b32(|d| op::and(Bits::B32, d, thread, WARPGROUP - 1));
    let values = Values::new(asm, qz, shares, thread);
    values.work(asm, qz, &here, kind, [&taken, &next_item]);
    asm.place(&past);
    asm.comment("nothing in this slot");
    here.release(asm);
    here.advance(asm, 1);
    asm.jump(&next_item);
}

impl<'a> Here<'a> {
    /// Where a warpgroup starts, and the register that says what an item is.
    fn new(asm: &mut Asm, qz: &Quantizer<'_>, ring: &'a Ring, leader: Pred) -> (Here<'a>, R32) {
        let group = asm.b32(|d| op::sub(Int::U32, d, qz.threads.warpgroup, 1));
        let bases = qz.memory.bases(asm, qz.threads.smem, group);
        let warp = asm.b32(|d| op::and(Bits::B32, d, qz.threads.warp, 3));
        let in_warp = asm.b32(|d| op::shr(Shr::U32, d, qz.threads.lane, 2));
        let row = asm.b32(|d| op::mad_lo(Int::U32, d, warp, 16, in_warp));
        let column = asm.b32(|d| op::and(Bits::B32, d, qz.threads.lane, 3));
        let first_warp = asm.compare(Cmp::Eq, Num::U32, warp, 0);
        let first = asm.pred(|p| op::and_pred(p, first_warp, leader));
        let lane = Lane { warp, row, column, leader, first };
        let barrier = asm.b32(|d| op::add(Int::U32, d, group, FIRST_BARRIER));
        let set = asm.b32(|d| op::mov(Value::B32, d, 0));
        let meeting = Meeting { barrier, maxima: bases.maxima, warp, leader, set };
        let end = ring.consumer(asm);
        let (tile, head, batch) = (asm.new_b32(), asm.new_b32(), asm.new_b32());
        (Here { lane, meeting, bases, ring, end, tile, head, batch }, asm.new_b32())
    }

    /// Waits for the next item. What it is goes through a shuffle, so that the assembler knows it the same in all lanes.
    pub(super) fn take(&self, asm: &mut Asm, kind: R32) {
        self.ring.ready(asm, self.bases.barriers, &self.end);
        let at = self.bases.words_of(asm, self.end.stage());
        let loaded = [0; 4].map(|_| asm.new_b32());
        asm.emit(op::ld_shared_v(Wide::V4, Value::B32, Operand::vector(&loaded), at));
        for (to, from) in [kind, self.tile, self.head, self.batch].into_iter().zip(loaded) {
            asm.emit(op::shfl_sync(Shuffle::Idx, to, from, 0, 31, -1));
        }
        // Every lane has read the words before one of them gives the slot back.
        asm.emit(op::bar_warp_sync(-1));
    }

    /// The place of a further slot of the item, waited for.
    pub(super) fn part(&self, asm: &mut Asm, number: impl Into<Operand>) -> End {
        let part = self.ring.ahead(asm, &self.end, number);
        self.ring.ready(asm, self.bases.barriers, &part);
        part
    }

    /// The places of its slots, all of them waited for.
    pub(super) fn parts(&self, asm: &mut Asm, parts: u32) -> Vec<End> {
        (0..parts).map(|number| if number == 0 { self.end } else { self.part(asm, number) }).collect()
    }

    /// The stage of the slot that has a number of the item's.
    pub(super) fn stage_of(&self, asm: &mut Asm, number: R32) -> Option<R32> {
        self.ring.ahead(asm, &self.end, number).stage()
    }

    /// Gives the item's only slot back, when products have read it or nobody has.
    pub(super) fn release(&self, asm: &mut Asm) {
        self.release_part(asm, &self.end);
    }

    /// Gives one of its slots back.
    pub(super) fn release_part(&self, asm: &mut Asm, part: &End) {
        self.ring.release(asm, self.bases.barriers, part, self.lane.leader);
    }

    /// Gives slots back when every lane of the warp has read its part, and goes to the next item. Loads that are under way
    /// hold back neither an arrival nor the copy after it, which is of another proxy: they end before the fence does.
    pub(super) fn release_together(&self, asm: &mut Asm, parts: &[End]) {
        asm.emit(op::fence_proxy_async());
        asm.emit(op::bar_warp_sync(-1));
        for part in parts {
            self.release_part(asm, part);
        }
        self.advance(asm, parts.len() as u32);
    }

    /// The same place with the item's words in registers of their own, for when the next item is taken.
    pub(super) fn kept(&self, asm: &mut Asm) -> Here<'a> {
        let [tile, head, batch] = [0; 3].map(|_| asm.new_b32());
        let kept = Here { tile, head, batch, ..*self };
        self.keep(asm, &kept);
        kept
    }

    /// Keeps the item's words there.
    pub(super) fn keep(&self, asm: &mut Asm, kept: &Here<'_>) {
        for (to, from) in [(kept.tile, self.tile), (kept.head, self.head), (kept.batch, self.batch)] {
            asm.emit(op::mov(Value::B32, to, from));
        }
    }

    /// Goes so many slots on.
    pub(super) fn advance(&self, asm: &mut Asm, slots: u32) {
        self.ring.advance_by(asm, &self.end, slots);
    }

    /// The head, counted over all batch entries.
    pub(super) fn any_head(&self, asm: &mut Asm, tensor: &Tensor) -> R32 {
        asm.b32(|d| op::mad_lo(Int::U32, d, self.batch, tensor.heads.number, self.head))
    }

    /// What the tiles of the item's scale share.
    pub(super) fn words(&self, asm: &mut Asm, tensor: &Tensor, shares: Shares) -> Words {
        let index = match tensor.granularity {
            Granularity::Tensor => asm.b32(|d| op::mov(Value::B32, d, 0)),
            _ => self.any_head(asm, tensor),
        };
        Words::of(asm, shares, index)
    }

    /// Stores a scale that several tiles have, in the first of them.
    pub(super) fn store_shared_scale(&self, asm: &mut Asm, tensor: &Tensor, scale: F32) {
        let head = self.any_head(asm, tensor);
        let (index, place) = match tensor.granularity {
            Granularity::Tensor => {
                let zero = asm.b32(|d| op::mov(Value::B32, d, 0));
                (zero, asm.b32(|d| op::or(Bits::B32, d, self.tile, head)))
            }
            _ => (head, self.tile),
        };
        let first_tile = asm.compare(Cmp::Eq, Num::U32, place, 0);
        self.store_scale(asm, tensor, index, scale, Some(first_tile));
    }

    /// Stores a scale in one thread, where the predicate holds.
    pub(super) fn store_scale(&self, asm: &mut Asm, tensor: &Tensor, index: R32, scale: F32, only: Option<Pred>) {
        let stores = match only {
            None => self.lane.first,
            Some(only) => asm.pred(|p| op::and_pred(p, self.lane.first, only)),
        };
        let at = asm.b64(|d| op::mad_wide_u32(d, index, 4, tensor.scales));
        asm.emit(op::st_global(Value::F32, Operand::at(at, 0), scale).when(stores));
    }
}
