//! Codes and scales as the quantizer writes them, to hold it against.
//!
//! Every step after the rotation is the kernel's own arithmetic in f32, so codes of what is not rotated are the same to
//! the bit. The rotation's sums are taken in f64 here and in another order by a kernel, so that those codes may be neighbours.

use schedule::Granularity;

use super::super::{Rotation, e4m3, slice};
use crate::{Half, Strides};

/// Magnitudes below it have no inverse scale in f32: a block of them counts as zeros.
const LEAST: f32 = 1.0 / (1_u128 << 100) as f32;
/// Codes of a row are filled up with zeros to a multiple of this, and those of V's keys.
const STEP: u64 = 16;

/// What the quantizer writes of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    /// e4m3.
    pub codes: Vec<u8>,
    /// A value is its code times its scale.
    pub scales: Vec<f32>,
}

/// A tensor `[B, S, H, D]` in host memory.
#[derive(Debug, Clone, Copy)]
pub struct Rounded<'a, T> {
    /// Its elements.
    pub data: &'a [T],
    /// Extents of `[B, S, H, D]`.
    pub extents: [u64; 4],
    /// Where rows are.
    pub strides: Strides,
}

impl<T: Half> Rounded<'_, T> {
    /// A row in f32, rotated but for the root, which is the second number.
    fn row(&self, [b, s, h]: [u64; 3], rotation: Option<Rotation>) -> (Vec<f32>, f32) {
        let dim = self.extents[3] as usize;
        let row = slice(self.data, self.strides.row(b, s, h), dim as u32);
        let Some(rotation) = rotation else { return (row.iter().map(|x| x.widen()).collect(), 1.0) };
        let mut row: Vec<f64> = row.iter().map(|&x| x.into()).collect();
        rotation.apply_unscaled(&mut row);
        let root = (1.0 / (Rotation::block(dim) as f64).sqrt()) as f32;
        (row.into_iter().map(|x| x as f32).collect(), root)
    }

    /// The scale that a row has, by number, and how many there are.
    fn share(&self, [b, s, h]: [u64; 3], granularity: Granularity) -> (usize, usize) {
        let [batch, tokens, heads, _] = self.extents;
        let (share, shares) = match granularity {
            Granularity::Block(rows) => {
                let blocks = tokens.div_ceil(rows.into());
                ((b * heads + h) * blocks + s / u64::from(rows), batch * heads * blocks)
            }
            Granularity::Head => (b * heads + h, batch * heads),
            _ => (0, 1),
        };
        let shares = if tokens == 0 { 0 } else { shares };
        (share as usize, shares as usize)
    }

    fn places(&self) -> impl Iterator<Item = [u64; 3]> + use<T> {
        let [batch, tokens, heads, _] = self.extents;
        (0..batch).flat_map(move |b| (0..tokens).flat_map(move |s| (0..heads).map(move |h| [b, s, h])))
    }
}

/// Codes `[B, S, H, D]` of Q or K, D rounded up to 16, and scales `[B, H, blocks]`, `[B, H]` or one.
///
/// # Panics
/// If the buffer is shorter than extents and strides reach.
pub fn rows<T: Half>(tensor: &Rounded<'_, T>, rotation: Option<Rotation>, granularity: Granularity) -> Codes {
    let dim = tensor.extents[3];
    let (scales, inverses) = scales(tensor, rotation, granularity);
    let mut codes = Vec::new();
    for place in tensor.places() {
        let inverse = inverses[tensor.share(place, granularity).0];
        codes.extend(tensor.row(place, rotation).0.iter().map(|value| e4m3::encode(value * inverse)));
        codes.extend((dim..dim.next_multiple_of(STEP)).map(|_| 0));
    }
    Codes { codes, scales }
}

/// Codes `[B, H, D, S]` of V, D and S rounded up to 16, the keys in [`key_order`]; and scales `[B, H]` or one.
///
/// # Panics
/// As [`rows`].
pub fn values<T: Half>(tensor: &Rounded<'_, T>, granularity: Granularity) -> Codes {
    let [batch, tokens, heads, dim] = tensor.extents;
    let (columns, pitch) = (dim.next_multiple_of(STEP), tokens.next_multiple_of(STEP));
    let (scales, inverses) = scales(tensor, None, granularity);
    let mut codes = vec![0; (batch * heads * columns * pitch) as usize];
    for place in tensor.places() {
        let [b, s, h] = place;
        let inverse = inverses[tensor.share(place, granularity).0];
        for (column, value) in (0..).zip(tensor.row(place, None).0) {
            let at = ((b * heads + h) * columns + column) * pitch + key_order(s);
            codes[at as usize] = e4m3::encode(value * inverse);
        }
    }
    Codes { codes, scales }
}

/// Where a key of the transposed V stands: within every 16 the order is 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14,
/// 15, which is that of the A fragment that P is packed into.
pub fn key_order(key: u64) -> u64 {
    let (pair, high, odd) = (key >> 1 & 3, key >> 3 & 1, key & 1);
    key / STEP * STEP + 4 * pair + 2 * high + odd
}

/// Scales, and what values are multiplied with.
fn scales<T: Half>(
    tensor: &Rounded<'_, T>,
    rotation: Option<Rotation>,
    granularity: Granularity,
) -> (Vec<f32>, Vec<f32>) {
    let shares = tensor.share([0; 3], granularity).1;
    let mut most = vec![0.0_f32; shares];
    let mut root = 1.0;
    for place in tensor.places() {
        let (row, factor) = tensor.row(place, rotation);
        root = factor;
        // f32::max leaves not-a-numbers out.
        let of_row = row.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
        let of_share = &mut most[tensor.share(place, granularity).0];
        *of_share = of_share.max(of_row);
    }
    let scale = |most: f32| match most.min(f32::MAX) {
        zero if zero < LEAST => (1.0, 1.0),
        finite => {
            let scale = finite * (1.0 / e4m3::MAX);
            (scale * root, 1.0 / scale)
        }
    };
    most.into_iter().map(scale).unzip()
}
