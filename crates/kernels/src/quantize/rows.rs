//! Q and K: 64 rows of a tile by the rotation, their largest magnitude, and e4m3 to global memory.
//!
//! A tile of several slots is measured from the last to the first, whose product is then there to be stored and whose slot
//! is the first that the producer waits for.

use ptx::qual::{Cmp, Int, MmaK16, Num, Value, Wide};
use ptx::{F32, Label, Operand, R32, R64, op};
use schedule::Granularity;
use tile::descriptor::{Descriptor, Major, SharedOperand};
use tile::{Accumulator, Asm, End, WGMMA_ROWS};

use super::Quantizer;
use super::abi::{Strides, Tensor};
use super::consumer::{Here, Lane};
use super::memory::Tile;
use super::order::Work;
use super::scale::{Largest, Scale};

/// Depth of a k-step.
const K_STEP: u32 = 16;
/// Rows of a warp's part of a product.
const WARP_ROWS: u32 = 16;
/// Rows between a lane's two.
const LANE_ROWS: i32 = 8;

/// A product's operands and result: units of columns side by side.
pub(super) struct Product {
    units: Vec<Accumulator>,
    rotation: SharedOperand,
}

/// One of the tensors that are rounded row by row.
pub(super) struct Rows<'a> {
    pub(super) tensor: &'a Tensor,
    pub(super) tile: &'a Tile,
    operand: SharedOperand,
    strides: Strides,
    /// Rows a head.
    rows: R32,
}

/// 64 rows of a tile, a slot's, which one product takes. The last of a tile ends with it, and so may have rows of the one
/// before.
#[derive(Clone, Copy)]
struct Slab {
    /// Its number; none if there is only one.
    number: Option<R32>,
    /// Its first row in the tile; likewise.
    first: Option<R32>,
}

impl Product {
    pub(super) fn new(asm: &mut Asm, qz: &Quantizer<'_>) -> Product {
        let (columns, unit) = (qz.schedule.columns(), qz.schedule.unit());
        let units = (0..columns / unit).map(|_| Accumulator::new(asm, unit)).collect();
        let rotation = SharedOperand::new(asm, &qz.memory.rotation, Major::K, qz.threads.smem, None);
        Product { units, rotation }
    }

    /// Rows times rotation, all of it: the values without the root of the block's length.
    fn multiply(&self, asm: &mut Asm, qz: &Quantizer<'_>, rows: &SharedOperand, from: Descriptor) {
        asm.comment("rows * rotation");
        let unit = qz.schedule.unit();
        // Columns of 8 to 64 are shapes that there are.
        let Some(shape) = MmaK16::n(unit) else { return };
        let steps = unit / K_STEP;
        asm.emit(op::wgmma_fence());
        let matrices = self.rotation.stage(asm, None);
        for (number, accumulator) in (0..).zip(&self.units) {
            let matrix = self.rotation.behind(asm, matrices, number * qz.memory.rotation.stage_bytes());
            for step in 0..steps {
                let a = rows.k_step(asm, from, number * steps + step);
                let b = self.rotation.k_step(asm, matrix, step);
                asm.emit(qz.format.multiply(shape, accumulator, a, b, step > 0));
            }
        }
        asm.emit(op::wgmma_commit());
        asm.emit(op::wgmma_wait(0));
        let mut apart = 1;
        while apart * unit < qz.schedule.block() {
            asm.comment("sums and differences of units");
            for left in (0..self.units.len()).filter(|unit| unit & apart as usize == 0) {
                self.butterfly(asm, left, left | apart as usize);
            }
            apart *= 2;
        }
    }

    fn butterfly(&self, asm: &mut Asm, left: usize, right: usize) {
        for (&a, &b) in self.units[left].regs().iter().zip(self.units[right].regs()) {
            let sum = asm.f32(|d| op::add_f32(d, a, b));
            asm.emit(op::sub_f32(b, a, b));
            asm.emit(op::mov(Value::F32, a, sum));
        }
    }

    fn measure(&self, asm: &mut Asm, largest: &mut Largest) {
        for unit in &self.units {
            for &value in unit.regs() {
                largest.take(asm, value);
            }
        }
    }
}

impl<'a> Rows<'a> {
    pub(super) fn new(asm: &mut Asm, tensor: &'a Tensor, tile: &'a Tile, slots: R32) -> Option<Rows<'a>> {
        let (strides, rows) = (tensor.code_strides?, tensor.rows?);
        Some(Rows { tensor, tile, strides, rows, operand: SharedOperand::new(asm, &tile.slot, Major::K, slots, None) })
    }

    /// What one item asks for.
    pub(super) fn work(&self, asm: &mut Asm, qz: &Quantizer<'_>, product: &Product, here: &Here<'_>, work: Work) {
        let mut largest = Largest::new(asm);
        let slab = match self.tile.parts() {
            1 => {
                self.multiply(asm, qz, product, &here.end);
                here.release(asm);
                here.advance(asm, 1);
                if work == Work::Measure || self.tensor.shares.is_none() {
                    product.measure(asm, &mut largest);
                }
                Slab { number: None, first: None }
            }
            parts => {
                let slab = Slab::at(asm, parts);
                let again = asm.label("MEASURE_ROWS");
                asm.place(&again);
                slab.go(asm, -1);
                self.multiply_part(asm, qz, product, here, slab);
                product.measure(asm, &mut largest);
                slab.jump_if(asm, Cmp::Ne, 0, &again);
                here.release(asm);
                slab
            }
        };
        let words = self.tensor.shares.map(|shares| here.words(asm, self.tensor, shares));
        let most = match words {
            Some(words) if work == Work::Measure => {
                let most = here.meeting.largest(asm, &largest);
                return words.add(asm, most, here.lane.first);
            }
            Some(words) => words.largest(asm, &here.meeting, here.lane.first),
            None => here.meeting.largest(asm, &largest),
        };
        asm.comment("scale");
        let scale = Scale::of(asm, most, root(qz.schedule.block()));
        self.store_scale(asm, here, scale.stored);
        let base = self.codes(asm, here);
        let [again, stored] = ["ROUND_ROWS", "ROWS_ROUNDED"].map(|stem| asm.label(stem));
        let parts = self.tile.parts();
        if parts > 1 {
            asm.comment("from the first rows, whose product is still there, to the last");
            asm.place(&again);
            slab.find(asm, self.tile);
        }
        self.store(asm, qz, product, here, slab, base, scale);
        if parts > 1 {
            slab.jump_if(asm, Cmp::Eq, parts - 1, &stored);
            slab.go(asm, 1);
            let part = self.multiply_part(asm, qz, product, here, slab);
            here.release_part(asm, &part);
            asm.jump(&again);
            asm.place(&stored);
            here.advance(asm, parts);
        }
    }

    /// The product of a slab in its slot, which is waited for.
    fn multiply_part(&self, asm: &mut Asm, qz: &Quantizer<'_>, product: &Product, here: &Here<'_>, slab: Slab) -> End {
        let part = match slab.number {
            None => here.end,
            Some(number) => here.part(asm, number),
        };
        self.multiply(asm, qz, product, &part);
        part
    }

    fn multiply(&self, asm: &mut Asm, qz: &Quantizer<'_>, product: &Product, part: &End) {
        let from = self.operand.stage(asm, part.stage());
        product.multiply(asm, qz, &self.operand, from);
    }

    fn store_scale(&self, asm: &mut Asm, here: &Here<'_>, scale: F32) {
        match self.tensor.granularity {
            Granularity::Block(_) => {
                let index = here.any_head(asm, self.tensor);
                let index = asm.b32(|d| op::mad_lo(Int::U32, d, index, self.tensor.tiles, here.tile));
                here.store_scale(asm, self.tensor, index, scale, None);
            }
            _ => here.store_shared_scale(asm, self.tensor, scale),
        }
    }

    /// Address of the codes of the item's batch entry and head.
    fn codes(&self, asm: &mut Asm, here: &Here<'_>) -> R64 {
        let batch = along(asm, self.tensor.codes, here.batch, self.strides.batch);
        along(asm, batch, here.head, self.strides.head)
    }

    /// Rounds a slab and stores it: a lane's two rows, unit / 4 neighbouring columns of each unit.
    #[expect(clippy::too_many_arguments, reason = "what, where and by what")]
    fn store(
        &self,
        asm: &mut Asm,
        qz: &Quantizer<'_>,
        product: &Product,
        here: &Here<'_>,
        slab: Slab,
        base: R64,
        scale: Scale,
    ) {
        asm.comment("round and store");
        let past = asm.label("STORED");
        let Lane { row, column, .. } = here.lane;
        let mut first = asm.b32(|d| op::mad_lo(Int::U32, d, here.tile, self.tile.rows, row));
        if let Slab { number: Some(number), first: Some(of_slab) } = slab {
            first = asm.b32(|d| op::add(Int::U32, d, first, of_slab));
            if self.tile.overlaps() {
                let of_warp = asm.b32(|d| op::mad_lo(Int::U32, d, here.lane.warp, WARP_ROWS, of_slab));
                let fresh = asm.b32(|d| op::mul_lo(Int::U32, d, number, WGMMA_ROWS));
                let stored = asm.compare(Cmp::Lt, Num::U32, of_warp, fresh);
                asm.jump_if(stored, &past);
            }
        }
        let unit = qz.schedule.unit();
        let run = asm.b32(|d| op::mul_lo(Int::U32, d, column, unit / 4));
        let wide = asm.b64(|d| op::cvt_u64_u32(d, run));
        let base = asm.b64(|d| op::add(Int::U64, d, base, wide));
        for half in [0, 1] {
            let row = asm.b32(|d| op::add(Int::U32, d, first, LANE_ROWS * half as i32));
            let inside = asm.compare(Cmp::Lt, Num::U32, row, self.rows);
            let at = along(asm, base, row, self.strides.token);
            for (number, accumulator) in (0..).zip(&product.units) {
                let words = row_words(asm, accumulator, half, scale);
                let at = Operand::at(at, (number * unit) as i32);
                let store = match words[..] {
                    [one] => op::st_global(Value::B32, at, one),
                    [_, _] => op::st_global_v(Wide::V2, Value::B32, at, Operand::vector(&words)),
                    _ => op::st_global_v(Wide::V4, Value::B32, at, Operand::vector(&words)),
                };
                asm.emit(store.when(inside));
            }
        }
        asm.place(&past);
    }
}

impl Slab {
    fn at(asm: &mut Asm, number: u32) -> Slab {
        Slab { number: Some(asm.b32(|d| op::mov(Value::B32, d, number))), first: Some(asm.new_b32()) }
    }

    /// Finds its first row in the tile.
    fn find(&self, asm: &mut Asm, tile: &Tile) {
        let (Some(number), Some(first)) = (self.number, self.first) else { return };
        let even = asm.b32(|d| op::mul_lo(Int::U32, d, number, WGMMA_ROWS));
        asm.emit(op::min(Int::U32, first, even, tile.last_row()));
    }

    /// Goes so many slabs on.
    fn go(&self, asm: &mut Asm, slabs: i32) {
        if let Some(number) = self.number {
            asm.emit(op::add(Int::S32, number, number, slabs));
        }
    }

    fn jump_if(&self, asm: &mut Asm, cmp: Cmp, number: u32, to: &Label) {
        if let Some(mine) = self.number {
            let holds = asm.compare(cmp, Num::U32, mine, number);
            asm.jump_if(holds, to);
        }
    }
}

/// One of the lane's rows of a unit, rounded: its columns in order, four to a word.
fn row_words(asm: &mut Asm, accumulator: &Accumulator, half: usize, scale: Scale) -> Vec<R32> {
    let row: Vec<F32> = accumulator.row(half).map(|(_, value)| value).collect();
    row.as_chunks().0.iter().map(|four| scale.round(asm, *four)).collect()
}

/// `base + index * stride`.
fn along(asm: &mut Asm, base: R64, index: R32, stride: R64) -> R64 {
    let wide = asm.b64(|d| op::cvt_u64_u32(d, index));
    asm.b64(|d| op::mad_lo(Int::U64, d, wide, stride, base))
}

/// What a product leaves out: one over the root of the block's length.
fn root(block: u32) -> f32 {
    (1.0 / f64::from(block).sqrt()) as f32
}
