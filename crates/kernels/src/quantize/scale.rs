//! From a largest magnitude to a scale, and from magnitudes to their largest.
//!
//! Not-a-numbers take no part in a maximum; an infinity counts as the largest finite number. What is below [`LEAST`] all
//! over counts as zeros: the scale is one and zeros are stored.

use ptx::qual::{Bits, Cmp, Fp8X2, Int, Num, Shuffle, Value, Wide};
use ptx::{F32, Operand, Pred, R32, op};
use tile::{Asm, WARPGROUP};

use super::format::Format;
use super::memory::WORDS_BYTES;

/// The largest e4m3.
const CODE_MAX: f32 = 448.0;
/// Magnitudes below it have no inverse scale in f32: 2^-100.
const LEAST: f32 = 1.0 / (1_u128 << 100) as f32;
/// Running maxima side by side, so that one does not wait for another.
const CHAINS: usize = 4;

/// A scale and its inverse.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// What is stored: codes times this are the values.
    pub(super) stored: F32,
    /// What values are multiplied with.
    pub(super) inverse: F32,
}

impl Scale {
    /// The scale of values whose largest magnitude is `most`; what is stored is `factor` times that.
    pub(super) fn of(asm: &mut Asm, most: F32, factor: f32) -> Scale {
        let finite = asm.f32(|d| op::min_f32(d, most, f32::MAX));
        let zero = asm.compare(Cmp::Lt, Num::F32, finite, LEAST);
        let scale = asm.f32(|d| op::mul_f32(d, finite, 1.0 / CODE_MAX));
        let inverse = asm.f32(|d| op::rcp_rn_f32(d, scale));
        let inverse = asm.f32(|d| op::selp(Value::F32, d, 1.0, inverse, zero));
        let stored = match factor {
            1.0 => scale,
            _ => asm.f32(|d| op::mul_f32(d, scale, factor)),
        };
        let stored = asm.f32(|d| op::selp(Value::F32, d, 1.0, stored, zero));
        Scale { stored, inverse }
    }

    /// Four values as e4m3, the first in the lowest byte.
    pub(super) fn round(&self, asm: &mut Asm, values: [F32; 4]) -> R32 {
        let [a, b, c, d] = values.map(|value| asm.f32(|r| op::mul_f32(r, value, self.inverse)));
        // The first source is the upper half.
        let halves = [(b, a), (d, c)].map(|(high, low)| asm.b16(|r| op::cvt_rn_f8(Fp8X2::E4m3x2, r, high, low)));
        asm.b32(|r| op::mov_pack_b16(r, Operand::vector(&halves)))
    }
}

/// A running maximum of magnitudes.
pub(super) struct Largest {
    chains: [F32; CHAINS],
    next: usize,
}

impl Largest {
    pub(super) fn new(asm: &mut Asm) -> Largest {
        Largest { chains: [0; CHAINS].map(|_| asm.f32(|d| op::mov(Value::F32, d, 0.0))), next: 0 }
    }

    pub(super) fn take(&mut self, asm: &mut Asm, value: F32) {
        let chain = self.chains[self.next % CHAINS];
        self.next += 1;
        let magnitude = asm.f32(|d| op::abs_f32(d, value));
        asm.emit(op::max_f32(chain, chain, magnitude));
    }

    /// The largest of the warp, in every lane.
    pub(super) fn of_warp(&self, asm: &mut Asm) -> F32 {
        let [a, b, c, d] = self.chains;
        let mut most = largest(asm, [a, b, c, d]);
        for distance in [16, 8, 4, 2, 1] {
            let other = asm.f32(|r| op::shfl_sync_f(Shuffle::Bfly, r, most, distance, 31, -1));
            most = asm.f32(|r| op::max_f32(r, most, other));
        }
        most
    }
}

/// A running maximum of magnitudes of pairs of 16-bit elements, which hold it exactly.
pub(super) struct LargestPair {
    format: Format,
    chains: [R32; CHAINS],
    next: usize,
}

impl LargestPair {
    pub(super) fn new(asm: &mut Asm, format: Format) -> LargestPair {
        LargestPair { format, chains: [0; CHAINS].map(|_| asm.b32(|d| op::mov(Value::B32, d, 0))), next: 0 }
    }

    pub(super) fn take(&mut self, asm: &mut Asm, pair: R32) {
        let chain = self.chains[self.next % CHAINS];
        self.next += 1;
        let magnitudes = self.format.magnitudes(asm, pair);
        self.format.raise(asm, chain, magnitudes);
    }

    /// The same of single elements.
    pub(super) fn singles(&self, asm: &mut Asm) -> Largest {
        let mut largest = Largest::new(asm);
        for pair in self.chains {
            for value in self.format.unpack(asm, pair) {
                largest.take(asm, value);
            }
        }
        largest
    }
}

fn largest(asm: &mut Asm, [a, b, c, d]: [F32; 4]) -> F32 {
    let ab = asm.f32(|r| op::max_f32(r, a, b));
    let cd = asm.f32(|r| op::max_f32(r, c, d));
    asm.f32(|r| op::max_f32(r, ab, cd))
}

/// Where the warps of a warpgroup tell one another their maxima.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    /// A named barrier of the warpgroup's own.
    pub(super) barrier: R32,
    /// Address of both sets of maxima.
    pub(super) maxima: R32,
    /// Warp of the warpgroup.
    pub(super) warp: R32,
    /// Holds in one lane of each warp.
    pub(super) leader: Pred,
    /// Bytes to the set that comes next.
    pub(super) set: R32,
}

impl Meeting {
    /// The largest of the warpgroup, in every thread. Sets alternate, so that one meeting's reads need not be waited for by
    /// the next one's writes: between them and the writes after next lies a barrier.
    pub(super) fn largest(&self, asm: &mut Asm, largest_of: &Largest) -> F32 {
        let mine = largest_of.of_warp(asm);
        let set = asm.b32(|d| op::add(Int::U32, d, self.maxima, self.set));
        let at = asm.b32(|d| op::mad_lo(Int::U32, d, self.warp, 4, set));
        asm.emit(op::st_shared(Value::F32, Operand::at(at, 0), mine).when(self.leader));
        asm.emit(op::bar_sync(self.barrier, WARPGROUP));
        let all = [0; 4].map(|_| asm.new_f32());
        asm.emit(op::ld_shared_v(Wide::V4, Value::F32, Operand::vector(&all), Operand::at(set, 0)));
        asm.emit(op::xor(Bits::B32, self.set, self.set, WORDS_BYTES));
        largest(asm, all)
    }

    /// What one lane knows, `who`, in every thread.
    pub(super) fn told(&self, asm: &mut Asm, value: F32, who: Pred) -> F32 {
        let set = asm.b32(|d| op::add(Int::U32, d, self.maxima, self.set));
        asm.emit(op::st_shared(Value::F32, Operand::at(set, 0), value).when(who));
        asm.emit(op::bar_sync(self.barrier, WARPGROUP));
        let told = asm.new_f32();
        asm.emit(op::ld_shared(Value::F32, told, Operand::at(set, 0)));
        asm.emit(op::xor(Bits::B32, self.set, self.set, WORDS_BYTES));
        told
    }
}
