//! Launches of the forward pass: Q, K, V as singles in, O and the log-sum-exp as singles out, and a reference in double
//! precision. Knows the kernel by the names of its parameters, and what its 8-bit elements are by its instructions. How
//! those are stored is `eight`'s affair.
//!
//! Layouts: Q [batch, query, head, column], K and V [batch, key, KV head, column], log-sum-exp [batch, head, query].

mod eight;

use ptx::{Kernel, ParamKind, TensorElement, TensorMap};

use crate::float;
use crate::launch::{Launch, Tensor, Unrunnable};
use crate::machine::Report;
use eight::{Eight, Stored};

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Problem {
    /// Batch entries.
    pub batch: u32,
    /// Query heads.
    pub heads: u32,
    /// KV heads; they divide the query heads.
    pub kv_heads: u32,
    /// Query rows.
    pub queries: u32,
    /// Key rows.
    pub keys: u32,
    /// Whether row i sees keys up to i + keys - queries only. Must be what the kernel computes.
    pub causal: bool,
    /// What scores are multiplied with; none: one over the root of the head dimension.
    pub scale: Option<f32>,
    /// CTAs of the launch, at most one a tile.
    pub ctas: u32,
    /// Shares of each query tile's keys, of a kernel that splits them; of others one.
    pub shares: u32,
}

impl Problem {
    /// One batch entry with so many heads, queries and keys; not causal, three CTAs, nothing split.
    pub fn new(heads: u32, queries: u32, keys: u32) -> Problem {
        Problem { batch: 1, heads, kv_heads: heads, queries, keys, causal: false, scale: None, ctas: 3, shares: 1 }
    }
}

/// Q, K and V in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// [batch, query, head, column].
    pub q: Vec<f32>,
    /// [batch, key, KV head, column].
    pub k: Vec<f32>,
    /// [batch, key, KV head, column].
    pub v: Vec<f32>,
}

impl Inputs {
    /// Numbers in -1 to 1, the same on every host.
    pub fn noise(forward: Forward, p: &Problem, seed: u32) -> Inputs {
        let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
        let mut fill = |rows: u32, heads: u32, dim: u32| -> Vec<f32> {
            let next = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            };
            (0..p.batch * rows * heads * dim).map(next).collect()
        };
        Inputs {
            q: fill(p.queries, p.heads, forward.dim),
            k: fill(p.keys, p.kv_heads, forward.dim),
            v: fill(p.keys, p.kv_heads, forward.dim_v),
        }
    }

    /// Noise in which the second key outweighs all others by more than an exponential in single precision can hold, for
    /// some rows. Kernels go from the last key to the first.
    pub fn wild(forward: Forward, p: &Problem, seed: u32) -> Inputs {
        let mut inputs = Inputs::noise(forward, p, seed);
        let row = (p.kv_heads * forward.dim) as usize;
        let tokens = inputs.k.chunks_mut(row.max(1)).enumerate();
        for (_, token) in tokens.filter(|(token, _)| *token as u32 % p.keys == 1) {
            token.iter_mut().for_each(|x| *x *= WILD);
        }
        inputs
    }
}

/// How much longer the outstanding key is.
const WILD: f32 = 160.0;

/// O and the log-sum-exp.
#[derive(Debug, Clone, PartialEq)]
pub struct Outputs {
    /// [batch, query, head, column].
    pub o: Vec<f32>,
    /// [batch, head, query].
    pub lse: Vec<f32>,
}

/// The largest differences between two outputs: of O absolute below one and relative above, of the log-sum-exp absolute,
/// since one key more among n adds 1/n to it however large it is. Infinite where one has no number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Of O.
    pub o: f32,
    /// Of the log-sum-exp.
    pub lse: f32,
}

impl Outputs {
    /// How far these are from what is right.
    pub fn difference(&self, right: &Outputs) -> Difference {
        let one = |a: f32, b: f32| match a - b {
            _ if a == b => 0.0,
            off if off.is_nan() => f32::INFINITY,
            off => off.abs(),
        };
        let o = self.o.iter().zip(&right.o).map(|(&a, &b)| one(a, b) / b.abs().max(1.0)).fold(0.0, f32::max);
        let lse = self.lse.iter().zip(&right.lse).map(|(&a, &b)| one(a, b)).fold(0.0, f32::max);
        Difference { o, lse }
    }
}

/// What a forward kernel says of itself by its parameters and shared memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forward {
    /// Query rows of a tile.
    pub rows: u32,
    /// Key rows of a block.
    pub columns: u32,
    /// Columns of Q and K.
    pub dim: u32,
    /// Columns of V and O.
    pub dim_v: u32,
    /// Element type of O, and of Q, K and V where they have 16 bits.
    element: TensorElement,
    /// Where they have 8.
    eight: Option<Eight>,
}

fn tensor<'k>(kernel: &'k Kernel, name: &str) -> Result<&'k TensorMap, Unrunnable> {
    match kernel.param(name).map(|p| &p.kind) {
        Some(ParamKind::Tensor(map)) if map.box_dims.len() == 4 => Ok(map),
        _ => Err(Unrunnable::Problem(format!("it has no tensor map `{name}` of four dimensions"))),
    }
}

impl Forward {
    /// Reads a kernel.
    ///
    /// # Errors
    /// What of the contract the kernel lacks.
    pub fn of(kernel: &Kernel) -> Result<Forward, Unrunnable> {
        let (q, k) = (tensor(kernel, "q")?, tensor(kernel, "k")?);
        let width = |region: &str, map: &TensorMap| {
            let found = kernel.region(region).map(|r| r.stage_bytes() / (map.box_dims[1] * map.element.bytes()).max(1));
            found.ok_or_else(|| Unrunnable::Problem(format!("it has no shared memory `{region}`")))
        };
        let (v, eight) = (tensor(kernel, "v")?, Eight::of(kernel));
        let dim_v = match eight {
            None => width("v", v)?,
            Some(eight) if eight.by_rows => width("v_rows", v)?,
            Some(_) => v.box_dims[1],
        };
        let element = tensor(kernel, "o")?.element;
        Ok(Forward { rows: q.box_dims[1], columns: k.box_dims[1], dim: width("k", k)?, dim_v, element, eight })
    }

    fn encode(self, values: &[f32]) -> Vec<u8> {
        let half = |&v: &f32| match self.element {
            TensorElement::F16 => float::to_f16(v),
            _ => float::to_bf16(v),
        };
        values.iter().flat_map(|v| half(v).to_le_bytes()).collect()
    }

    /// The differences that rounding explains: 2^-7 (bf16) or 2^-10 (f16) for O, a ten-thousandth for the log-sum-exp.
    /// What [`Forward::difference`] measures of 8-bit elements is in [`eight`].
    pub fn tolerance(self) -> Difference {
        let o = if self.element == TensorElement::F16 { 1.0 / 1024.0 } else { 1.0 / 128.0 };
        self.eight.map_or(Difference { o, lse: 1e-4 }, Eight::tolerance)
    }

    /// Whether [`Forward::tolerance`] holds where few keys of a row count: not of linear P, whose errors it takes for the mean
    /// of many.
    pub fn bounds_hold_of_few_keys(self) -> bool {
        !self.eight.is_some_and(|eight| eight.linear)
    }

    /// How far outputs are from what is right.
    pub fn difference(self, p: &Problem, found: &Outputs, right: &Outputs) -> Difference {
        match self.eight {
            None => found.difference(right),
            Some(eight) => eight.difference(&self, p, found, right),
        }
    }

    /// How many keys query row `i` sees.
    fn seen(p: &Problem, i: usize) -> usize {
        let (queries, keys) = (p.queries as usize, p.keys as usize);
        if p.causal { (i + 1 + keys).saturating_sub(queries).min(keys) } else { keys }
    }

    /// Singles as the kernel will see them.
    pub fn round(self, values: &[f32]) -> Vec<f32> {
        self.decode(&self.encode(values))
    }

    fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let single = |b: &[u8]| match self.element {
            TensorElement::F16 => float::from_f16(u16::from_le_bytes([b[0], b[1]])),
            _ => float::from_bf16(u16::from_le_bytes([b[0], b[1]])),
        };
        bytes.chunks_exact(2).map(single).collect()
    }

    /// The launch of a problem.
    ///
    /// # Errors
    /// What does not fit the kernel.
    pub fn launch(self, kernel: &Kernel, p: &Problem, inputs: &Inputs) -> Result<Launch, Unrunnable> {
        let refuse = |why: &str| Err(Unrunnable::Problem(why.to_owned()));
        if p.heads == 0 || p.kv_heads == 0 || !p.heads.is_multiple_of(p.kv_heads) || p.batch == 0 || p.queries == 0 {
            return refuse("heads must be a multiple of KV heads, and there must be something to compute");
        }
        let len = |rows: u32, heads: u32, dim: u32| (p.batch * rows * heads * dim) as usize;
        let lengths =
            [len(p.queries, p.heads, self.dim), len(p.keys, p.kv_heads, self.dim), len(p.keys, p.kv_heads, self.dim_v)];
        if lengths != [inputs.q.len(), inputs.k.len(), inputs.v.len()] {
            return refuse("Q, K and V have other sizes than the problem says");
        }
        let map = |buffer: &str, rows: u32, heads: u32, dim: u32| {
            // The driver takes no empty dimension; one row of nothing stands for no rows.
            let dims = [dim, rows.max(1), heads, p.batch].map(u64::from).to_vec();
            let row = u64::from(heads * dim) * 2;
            Tensor {
                buffer: buffer.to_owned(),
                dims,
                strides: vec![row, u64::from(dim) * 2, row * u64::from(rows.max(1))],
            }
        };
        let filled = |values: &[f32], heads: u32, dim: u32| {
            let mut bytes = self.encode(values);
            bytes.resize(bytes.len().max((p.batch * heads * dim * 2) as usize), 0xff);
            bytes
        };
        let stored = self.eight.map(|eight| Stored::new(eight, &self, p, inputs));
        let tiles_of_head = p.queries.div_ceil(self.rows);
        let heads_total = p.heads * p.batch;
        let query_tiles = tiles_of_head * heads_total;
        let splits = kernel.param("shares").is_some();
        if p.shares == 0 || p.shares > 1 && !splits {
            return refuse("the kernel does not split query tiles");
        }
        let tiles = query_tiles * p.shares;
        let scale_log2 = p.scale.unwrap_or(1.0 / (self.dim as f32).sqrt()) * std::f32::consts::LOG2_E;
        let launch = Launch::new(p.ctas.clamp(1, tiles));
        let launch = match &stored {
            Some(stored) => stored.arguments(launch),
            None => launch
                .input("Q", self.encode(&inputs.q))
                .input("K", filled(&inputs.k, p.kv_heads, self.dim))
                .input("V", filled(&inputs.v, p.kv_heads, self.dim_v))
                .tensor("q", map("Q", p.queries, p.heads, self.dim))
                .tensor("k", map("K", p.keys, p.kv_heads, self.dim))
                .tensor("v", map("V", p.keys, p.kv_heads, self.dim_v))
                .f32("scale_pow2", nearest_power(scale_log2)),
        };
        let mut launch = launch
            .output("O", len(p.queries, p.heads, self.dim_v) * 2)
            .output("LSE", (heads_total * p.queries) as usize * 4)
            .tensor("o", map("O", p.queries, p.heads, self.dim_v))
            .pointer("lse", "LSE")
            .u32("queries", p.queries)
            .u32("keys", p.keys)
            .u32("heads", p.heads)
            .u32("group", p.heads / p.kv_heads)
            .u32("query_tiles", tiles_of_head)
            .u32("tiles", tiles)
            .f32("scale_log2", scale_log2);
        if kernel.param("counter").is_some() {
            launch = launch.both("COUNTER", vec![0; 4]).pointer("counter", "COUNTER");
        }
        if kernel.param("section").is_some() {
            // Two sections, so that both bounds of the order are tried.
            launch = launch.u32("heads_total", heads_total).u32("section", heads_total.div_ceil(2));
        }
        if splits {
            let warpgroups = kernel.threads / 128 - 1;
            // Of every thread its accumulators of O, and the maxima and sums of its two rows.
            let share = warpgroups * 128 * (self.dim_v / 2 + 4) * 4;
            launch = launch
                .u32("shares", p.shares)
                .output("WORKSPACE", (tiles * share) as usize)
                .pointer("workspace", "WORKSPACE")
                .both("ARRIVALS", vec![0; (query_tiles * warpgroups * 4) as usize])
                .pointer("arrivals", "ARRIVALS");
        }
        Ok(launch)
    }

    /// O and the log-sum-exp of a run.
    pub fn outputs(self, report: &Report) -> Option<Outputs> {
        Some(Outputs { o: self.decode(report.buffer("O")?), lse: report.singles("LSE")? })
    }

    /// What a run left counting: the next launch finds its counters at zero.
    pub fn left_counting(report: &Report) -> Option<String> {
        let counts = |name: &&str| report.buffer(name).is_some_and(|words| words.iter().any(|&byte| byte != 0));
        ["COUNTER", "ARRIVALS"].iter().find(|name| counts(name)).map(|name| format!("{name} is not back at zero"))
    }

    /// The same in double precision, of inputs rounded as the kernel sees them.
    pub fn reference(self, p: &Problem, inputs: &Inputs) -> Outputs {
        let [q, k, v] = match self.eight {
            Some(eight) => Stored::new(eight, &self, p, inputs).values(),
            None => [&inputs.q, &inputs.k, &inputs.v].map(|values| self.round(values)),
        };
        let (dim, dim_v) = (self.dim as usize, self.dim_v as usize);
        let [heads, kv_heads, queries, keys] = [p.heads, p.kv_heads, p.queries, p.keys].map(|n| n as usize);
        let scale = f64::from(p.scale.unwrap_or(1.0 / (self.dim as f32).sqrt()));
        let mut o = vec![0.0; p.batch as usize * queries * heads * dim_v];
        let mut lse = vec![f32::NEG_INFINITY; p.batch as usize * heads * queries];
        for (index, sum) in lse.iter_mut().enumerate() {
            let (b, h, i) = (index / (heads * queries), index / queries % heads, index % queries);
            let seen = Forward::seen(p, i);
            let row = &q[((b * queries + i) * heads + h) * dim..][..dim];
            let kv = |j: usize| (b * keys + j) * kv_heads + h / (heads / kv_heads);
            let score = |j: usize| {
                let key = &k[kv(j) * dim..][..dim];
                scale * row.iter().zip(key).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>()
            };
            let scores: Vec<f64> = (0..seen).map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let total: f64 = weights.iter().sum();
            let out = &mut o[((b * queries + i) * heads + h) * dim_v..][..dim_v];
            for (column, out) in out.iter_mut().enumerate() {
                let value: f64 =
                    weights.iter().enumerate().map(|(j, w)| w * f64::from(v[kv(j) * dim_v + column])).sum();
                *out = if seen == 0 { 0.0 } else { (value / total) as f32 };
            }
            *sum = if seen == 0 { f32::NEG_INFINITY } else { (max + total.ln()) as f32 };
        }
        Outputs { o, lse }
    }
}

/// The power of two nearest to a positive number, by ratio.
fn nearest_power(value: f32) -> f32 {
    2f32.powi(value.log2().round() as i32)
}
