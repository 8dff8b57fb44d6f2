//! 8-bit elements: how Q, K and V are stored with their scales, and how far O may be from double precision over what is
//! stored.
//!
//! | what | layout |
//! |---|---|
//! | V row by row | [batch, key, KV head, column], as K |
//! | V transposed | [batch, KV head, column, keys up to a multiple of 16], every 16 keys in the order [`ORDER`], zeros behind |
//! | scales of Q | by batch, query head (or KV head where there is one for all rows) and 64 rows |
//! | scales of K | by batch, KV head and key tile |
//! | scales of V | by batch and KV head |
//!
//! Scales are the largest magnitude over the largest number, times a factor that changes from one to the next, so that a
//! wrong one shows. Between them lie elements that are no numbers.

use ptx::{Kernel, Op, ParamKind, TensorElement};

use super::{Difference, Forward, Inputs, Outputs, Problem};
use crate::float8::Float8;
use crate::launch::{Launch, Tensor};

/// The key at each place of 16 in a column of transposed V.
const ORDER: [usize; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];
/// Rows of Q that share a scale.
const QUERY_ROWS: usize = 64;

/// What a kernel does with 8-bit elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Eight {
    format: Float8,
    /// A scale for 64 rows of Q and for a key tile, or one for all rows of a KV head.
    by_block: bool,
    /// V comes row by row.
    pub(super) by_rows: bool,
    /// The tensor cores add up the rows of P, after it is rounded.
    rounded_sums: bool,
    /// Some of P is linear between powers of two.
    pub(super) linear: bool,
}

impl Eight {
    /// Of a kernel whose Q has 8 bits.
    pub(super) fn of(kernel: &Kernel) -> Option<Eight> {
        let ParamKind::Tensor(q) = &kernel.param("q")?.kind else { return None };
        let products = || kernel.insts().map(|(_, i)| i).filter(|i| matches!(i.op, Op::wgmma_ss_f8 | Op::wgmma_rs_f8));
        // The second operand is K or V in every product.
        let format = products().find_map(|i| Float8::of(i.quals.last()?))?;
        let columns = |inst: &ptx::Inst| inst.quals.iter().find_map(|token| ptx::qual::mma_columns(token));
        (q.element == TensorElement::U8).then(|| Eight {
            format,
            by_block: kernel.param("k_scale_block").is_some(),
            by_rows: kernel.region("v_rows").is_some(),
            // Eight columns of ones beside those of V, which are a multiple of 16.
            rounded_sums: products().filter_map(columns).any(|n| n % 16 == 8),
            linear: kernel.insts().any(|(_, i)| i.op == Op::cvt_rn_relu_pair),
        })
    }

    /// Of a row of O, the norm of the difference over the norm of the row: rounding to e4m3 has a deviation of 2.6 %, linear
    /// P 3.1 %, and few keys stray further. Of the log-sum-exp the difference, times the root of the number of keys where
    /// rounded numbers are added.
    pub(super) fn tolerance(self) -> Difference {
        let o = if self.linear { 0.075 } else { 0.06 };
        let lse = match self.rounded_sums {
            true if self.linear => 0.2,
            true => 0.15,
            false => 1e-3,
        };
        Difference { o, lse }
    }

    pub(super) fn difference(self, forward: &Forward, p: &Problem, found: &Outputs, right: &Outputs) -> Difference {
        let rows = |o: &[f32]| -> Vec<Vec<f64>> {
            o.chunks(forward.dim_v as usize).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
        };
        let norm = |row: &mut dyn Iterator<Item = f64>| row.map(|x| x * x).sum::<f64>().sqrt();
        let (found_o, right_o) = (rows(&found.o), rows(&right.o));
        let o = found_o.iter().zip(&right_o).map(|(a, b)| {
            let off = norm(&mut a.iter().zip(b).map(|(a, b)| a - b));
            let of = norm(&mut b.iter().copied());
            match off {
                0.0 => 0.0,
                off if off.is_nan() => f64::INFINITY,
                off => off / of,
            }
        });
        let keys = |index: usize| Forward::seen(p, index % p.queries as usize).max(1) as f32;
        let lse = found.lse.iter().zip(&right.lse).enumerate().map(|(index, (&a, &b))| match a - b {
            _ if a == b => 0.0,
            off if off.is_nan() => f32::INFINITY,
            off if self.rounded_sums => off.abs() * keys(index).sqrt(),
            off => off.abs(),
        });
        Difference { o: o.fold(0.0, f64::max) as f32, lse: lse.fold(0.0, f32::max) }
    }
}

/// A tensor [batch, row, head, column] in 8 bits, with a scale for each batch entry, head and so many rows.
struct Operand {
    bytes: Vec<u8>,
    /// Of batch entry, head and block, as [batch, head, block].
    scales: Vec<f32>,
    shape: [usize; 4],
    /// Rows that share a scale.
    block: usize,
    /// Heads that share one.
    group: usize,
}

impl Operand {
    fn new(values: &[f32], shape: [usize; 4], block: usize, group: usize, format: Float8) -> Operand {
        let [batch, rows, heads, columns] = shape;
        let blocks = rows.div_ceil(block).max(1);
        let mut operand =
            Operand { bytes: Vec::new(), scales: vec![0.0; batch * (heads / group) * blocks], shape, block, group };
        for (at, value) in values.iter().enumerate() {
            let scale = &mut operand.scales[operand_scale(shape, block, group, at / columns)];
            *scale = scale.max(value.abs());
        }
        for (index, scale) in operand.scales.iter_mut().enumerate() {
            let factor = 1.0 + (index * 7 % 11) as f32 / 4.0;
            *scale = if *scale == 0.0 { 1.0 } else { *scale / format.greatest() * factor };
        }
        let stored = |(at, &value): (usize, &f32)| format.of_single(value / operand.scale(at / columns));
        operand.bytes = values.iter().enumerate().map(stored).collect();
        operand
    }

    /// The scale of row `row` of [batch, row, head].
    fn scale(&self, row: usize) -> f32 {
        self.scales[operand_scale(self.shape, self.block, self.group, row)]
    }

    fn values(&self, format: Float8) -> Vec<f32> {
        let columns = self.shape[3];
        let value = |(at, &bits): (usize, &u8)| format.to_single(bits) * self.scale(at / columns);
        self.bytes.iter().enumerate().map(value).collect()
    }

    /// Scales with gaps between them: their bytes, and the strides of batch, head and block.
    fn spread(&self) -> (Vec<u8>, [u32; 3]) {
        let [batch, rows, heads, _] = self.shape;
        let (heads, blocks) = (heads / self.group, rows.div_ceil(self.block).max(1));
        let (of_block, of_head) = (2, 2 * blocks + 1);
        let of_batch = heads * of_head + 3;
        let mut all = vec![f32::NAN; batch * of_batch];
        for (index, &scale) in self.scales.iter().enumerate() {
            let (b, h, n) = (index / (heads * blocks), index / blocks % heads, index % blocks);
            all[b * of_batch + h * of_head + n * of_block] = scale;
        }
        let bytes = all.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        (bytes, [of_batch, of_head, of_block].map(|stride| stride as u32))
    }

    /// The map of (column, row, head, batch). The driver takes no empty dimension; a row of what is no number stands for no
    /// rows.
    fn tensor(&self, name: &str) -> (Vec<u8>, Tensor) {
        let [batch, rows, heads, columns] = self.shape;
        let (rows, row) = (rows.max(1), heads * columns);
        let mut bytes = self.bytes.clone();
        bytes.resize(batch * rows * row, 0x7f);
        let dims = [columns, rows, heads, batch].map(|n| n as u64).to_vec();
        (
            bytes,
            Tensor { buffer: name.to_owned(), dims, strides: [row, columns, row * rows].map(|n| n as u64).to_vec() },
        )
    }

    /// The map of (key, column, head, batch).
    fn transposed(&self, name: &str) -> (Vec<u8>, Tensor) {
        let [batch, rows, heads, columns] = self.shape;
        let padded = rows.next_multiple_of(ORDER.len()).max(ORDER.len());
        let mut bytes = vec![0; batch * heads * columns * padded];
        for (at, stored) in bytes.iter_mut().enumerate() {
            let (place, column, h, b) =
                (at % padded, at / padded % columns, at / padded / columns % heads, at / padded / columns / heads);
            let key = place / ORDER.len() * ORDER.len() + ORDER[place % ORDER.len()];
            if key < rows {
                *stored = self.bytes[((b * rows + key) * heads + h) * columns + column];
            }
        }
        let dims = [padded, columns, heads, batch].map(|n| n as u64).to_vec();
        let strides = [padded, padded * columns, padded * columns * heads].map(|n| n as u64).to_vec();
        (bytes, Tensor { buffer: name.to_owned(), dims, strides })
    }
}

/// Which scale is of row `row` of [batch, row, head].
fn operand_scale([_, rows, heads, _]: [usize; 4], block: usize, group: usize, row: usize) -> usize {
    let blocks = rows.div_ceil(block).max(1);
    let (b, i, h) = (row / (rows * heads), row / heads % rows, row % heads / group);
    (b * (heads / group) + h) * blocks + i / block
}

/// Q, K and V as a kernel takes them.
pub(super) struct Stored {
    eight: Eight,
    q: Operand,
    k: Operand,
    v: Operand,
}

impl Stored {
    pub(super) fn new(eight: Eight, forward: &Forward, p: &Problem, inputs: &Inputs) -> Stored {
        let shape = |rows: u32, heads: u32, dim: u32| [p.batch, rows, heads, dim].map(|n| n as usize);
        let group = (p.heads / p.kv_heads.max(1)).max(1) as usize;
        let (q, k) = (shape(p.queries, p.heads, forward.dim), shape(p.keys, p.kv_heads, forward.dim));
        let v = shape(p.keys, p.kv_heads, forward.dim_v);
        let all = usize::MAX / 2;
        let (q_block, k_block, shared) = match eight.by_block {
            true => (QUERY_ROWS, forward.columns as usize, 1),
            false => (all, all, group),
        };
        Stored {
            eight,
            q: Operand::new(&inputs.q, q, q_block, shared, eight.format),
            k: Operand::new(&inputs.k, k, k_block, 1, eight.format),
            v: Operand::new(&inputs.v, v, all, 1, eight.format),
        }
    }

    /// What is stored, as numbers.
    pub(super) fn values(&self) -> [Vec<f32>; 3] {
        [&self.q, &self.k, &self.v].map(|operand| operand.values(self.eight.format))
    }

    pub(super) fn arguments(&self, launch: Launch) -> Launch {
        let v = if self.eight.by_rows { self.v.tensor("V") } else { self.v.transposed("V") };
        let mut launch = launch;
        for (name, (bytes, tensor)) in [("q", self.q.tensor("Q")), ("k", self.k.tensor("K")), ("v", v)] {
            launch = launch.input(&tensor.buffer, bytes).tensor(name, tensor);
        }
        let (q, [q_batch, q_head, q_block]) = self.q.spread();
        let (k, [k_batch, k_head, k_block]) = self.k.spread();
        let (v, [v_batch, v_head, _]) = self.v.spread();
        // One scale for the query heads that share a KV head is found by that.
        let (q_head, q_kv_head) = if self.eight.by_block { (q_head, 0) } else { (0, q_head) };
        if self.eight.by_block {
            launch = launch.u32("q_scale_block", q_block).u32("k_scale_block", k_block);
        }
        launch
            .input("QS", q)
            .input("KS", k)
            .input("VS", v)
            .pointer("q_scales", "QS")
            .u32("q_scale_batch", q_batch)
            .u32("q_scale_head", q_head)
            .u32("q_scale_kv_head", q_kv_head)
            .pointer("k_scales", "KS")
            .u32("k_scale_batch", k_batch)
            .u32("k_scale_kv_head", k_head)
            .pointer("v_scales", "VS")
            .u32("v_scale_batch", v_batch)
            .u32("v_scale_kv_head", v_head)
    }
}
