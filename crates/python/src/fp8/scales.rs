//! Scales of Q, K and V as tensors say them: what shares one is told by their shape.

use pyo3::intern;
use pyo3::prelude::*;
use schedule::fp8::QUERY_SCALE_ROWS;
use tilewright::{ScaleBy, ScaleLayout, ScaleStrides};

use crate::error::InvalidArgument;
use crate::tensor::{Dtype, View};

/// Scales in device memory.
#[derive(Debug)]
pub struct Scales {
    address: u64,
    extents: Vec<u64>,
    strides: Vec<u64>,
    dtype: Dtype,
    device: usize,
    borrowed: bool,
    /// Holds what was borrowed.
    _held: Held,
}

#[derive(Debug)]
#[expect(dead_code, reason = "kept for what it keeps alive")]
enum Held {
    One(View<1>),
    Two(View<2>),
    Three(View<3>),
}

/// The tensor that scales belong to: its name, rows and heads, and how many of its rows share a scale by block.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// `q`, `k` or `v`.
    pub name: &'static str,
    /// B.
    pub batch: u64,
    /// Sq or Sk.
    pub rows: u64,
    /// Hq or Hk.
    pub heads: u64,
    /// Hk.
    pub kv_heads: u64,
    /// Rows of a block; none where the tensor has no scales by block.
    pub block: Option<u32>,
}

impl Owner {
    /// Q, K and V of extents `[B, Sq, Hq, D]` and `[B, Sk, Hk, Dv]`.
    pub fn all([[batch, sq, heads, _], [_, sk, kv_heads, _]]: [[u64; 4]; 2], key_block: Option<u32>) -> [Self; 3] {
        let kv = Self { name: "k", batch, rows: sk, heads: kv_heads, kv_heads, block: key_block };
        [
            Self { name: "q", batch, rows: sq, heads, kv_heads, block: Some(QUERY_SCALE_ROWS) },
            kv,
            Self { name: "v", block: None, ..kv },
        ]
    }

    /// The shapes that scales of it may have, with what they stand for.
    fn shapes(&self) -> Vec<(Vec<u64>, ScaleBy)> {
        let Self { batch, rows, heads, kv_heads, block, .. } = *self;
        let mut all = vec![(vec![1], ScaleBy::Tensor), (vec![batch, kv_heads], ScaleBy::KvHead)];
        if heads != kv_heads {
            all.push((vec![batch, heads], ScaleBy::Head));
        }
        if let Some(block) = block {
            all.push((vec![batch, heads, rows.div_ceil(u64::from(block.max(1)))], ScaleBy::Block(block)));
        }
        all
    }
}

impl Scales {
    /// Asks a tensor for what it is.
    ///
    /// # Errors
    /// More than three dimensions or none, and those of [`View::read_scattered`].
    pub fn read(name: &str, tensor: &Bound<'_, PyAny>, stream: u64) -> PyResult<Self> {
        const MEANING: &str = "[1], [B, Hk] or one for each block of rows";
        let shape = tensor.getattr_opt(intern!(tensor.py(), "shape"))?;
        let Some(rank) = shape.map(|shape| shape.len()).transpose()? else {
            let kind = tensor.get_type().name()?;
            return Err(InvalidArgument::new_err(format!("{name} is a {kind}: give a float32 tensor {MEANING}")));
        };
        macro_rules! of {
            ($held:ident) => {{
                let view = View::read_scattered(name, tensor, MEANING, stream)?;
                Self {
                    address: view.address,
                    extents: view.extents.to_vec(),
                    strides: view.strides.to_vec(),
                    dtype: view.dtype.clone(),
                    device: view.device,
                    borrowed: view.is_borrowed(),
                    _held: Held::$held(view),
                }
            }};
        }
        Ok(match rank {
            1 => of!(One),
            2 => of!(Two),
            3 => of!(Three),
            _ => {
                return Err(InvalidArgument::new_err(format!(
                    "tensor {name} has {rank} dimensions, expected 1 to 3: {MEANING}"
                )));
            }
        })
    }

    /// The address of the first.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Whether the memory belongs to somebody who does not follow the stream's order.
    pub fn is_borrowed(&self) -> bool {
        self.borrowed
    }

    /// How they lie, by their shape.
    ///
    /// # Errors
    /// A shape that the tensor has no scales of, another type, another device.
    pub fn layout(&self, owner: &Owner, home: usize) -> PyResult<ScaleLayout> {
        let Self { extents, strides, dtype, device, .. } = self;
        let name = owner.name;
        if *dtype != Dtype::F32 || *device != home {
            return Err(InvalidArgument::new_err(format!(
                "tensor {name}_scale is of {dtype} on GPU {device}, expected float32 on GPU {home}"
            )));
        }
        let shapes = owner.shapes();
        let Some((_, by)) = shapes.iter().find(|(shape, _)| shape == extents) else {
            let known: Vec<String> = shapes.iter().map(|(shape, by)| format!("{shape:?} ({by})")).collect();
            return Err(InvalidArgument::new_err(format!(
                "tensor {name}_scale has shape {extents:?}, expected {}",
                known.join(" or ")
            )));
        };
        let at = |dimension: usize| strides.get(dimension).copied().unwrap_or(0);
        Ok(ScaleLayout { by: *by, strides: Some(ScaleStrides { batch: at(0), head: at(1), block: at(2) }) })
    }
}
