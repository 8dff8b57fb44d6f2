//! Attention for Hopper GPUs, from kernels that Rust generated: [`Problem`] -> [`Plan`] -> run.
//!
//! ```no_run
//! use tilewright::cudarc::driver::CudaContext;
//! use tilewright::half::bf16;
//! use tilewright::{Inputs, Outputs, Problem, Tilewright};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = CudaContext::new(0)?;
//! let stream = context.new_stream()?;
//! let attention = Tilewright::new(&context)?;
//!
//! // Q [2, 1024, 16, 128] against K and V [2, 1024, 4, 128]: query heads share key heads by fours.
//! let problem = Problem::builder().batch(2).queries(1024).heads(16).kv_heads(4).head_dim(128).causal(true).build()?;
//! let plan = attention.plan(&problem)?;
//! println!("{}", plan.explain());
//!
//! let (q, k) = (stream.alloc_zeros::<bf16>(2 * 1024 * 16 * 128)?, stream.alloc_zeros::<bf16>(2 * 1024 * 4 * 128)?);
//! let v = stream.clone_dtod(&k)?;
//! let mut o = stream.alloc_zeros::<bf16>(2 * 1024 * 16 * 128)?;
//! let mut lse = stream.alloc_zeros::<f32>(2 * 16 * 1024)?;
//! plan.run(&stream, Inputs { q: &q, k: &k, v: &v }, Outputs { o: &mut o, lse: &mut lse })?;
//! # Ok(())
//! # }
//! ```
//!
//! # Conventions
//!
//! - Q `[B, Sq, Hq, D]`, K `[B, Sk, Hk, D]`, V `[B, Sk, Hk, Dv]`, O `[B, Sq, Hq, Dv]`, in elements, with any strides
//!   over a contiguous last dimension: `[B, H, S, D]` is a choice of [`Strides`], not a copy. Rows start on 16-byte
//!   boundaries.
//! - Query head g reads key head floor(g / (Hq / Hk)).
//! - Causal is aligned at the bottom right: query i sees key j when j <= i + Sk - Sq.
//! - A row that sees no key gives O = 0 and LSE = -inf.
//! - LSE is the natural logarithm of the sum of exp(scale * q.k), f32 `[B, Hq, Sq]` contiguous, and always written.
//! - The scale is 1/sqrt(D) unless given.
//! - Of 8-bit elements a code times its scale is the number; [`Fp8`] says how scales and V lie. Scales are finite and above
//!   zero. They are read on the device: one that is no number spoils what it is a factor of ([`Plan::run_fp8`]).
//!
//! # What this crate must not know
//!
//! How a schedule is lowered (`kernels`), proven (`check`) or loaded (`runtime`): it chooses one and passes arguments.

pub mod abi;
mod cache;
mod eight_element;
mod engine;
pub mod error;
mod fp8;
mod half_element;
mod layout;
mod plan;
pub mod policy;
mod problem;
mod quantizer;
mod raw;
pub mod reference;
mod registry;
mod run;

pub use cudarc;
pub use eight_element::{E4m3, E5m2, Eight};
pub use engine::Tilewright;
pub use fp8::{CacheInputs, CacheOptions, Fp8CachePlan, Fp8Options, Fp8Plan, PreparedFp8, ScalesOf};
pub use half;
pub use half_element::Half;
pub use layout::Strides;
pub use plan::Plan;
pub use policy::{Tuning, TuningError};
pub use problem::{Accumulation, Fp8, Problem, ProblemBuilder, ScaleBy, ScaleLayout, ScaleStrides};
pub use quantizer::{PreparedQuantizer, QuantizeOptions, QuantizePointers, Quantized, Quantizer};
pub use raw::{PreparedPlan, RawPointers, ScalePointers};
pub use registry::{Entry, Lowered, Registry, derived};
pub use run::{Fp8Inputs, Inputs, Outputs, Scales};
pub use runtime::{CUstream, Error, LoadReport, Result};
pub use schedule::{Element, Granularities, Granularity, Output, Quantize, Rotation, Values};
