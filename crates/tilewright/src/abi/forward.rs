//! Parameters of the forward pass.
//!
//! | name | type | meaning |
//! |---|---|---|
//! | `q` | tensor map | (D, Sq, Hq, B) |
//! | `k` | tensor map | (D, Sk, Hk, B) |
//! | `v` | tensor map | (Dv, Sk, Hk, B) |
//! | `o` | tensor map | (Dv, Sq, Hq, B) |
//! | `lse` | u64 | address of f32 `[B, Hq, Sq]` |
//! | `queries`, `keys`, `heads` | u32 | Sq, Sk, Hq |
//! | `group` | u32 | Hq / Hk |
//! | `query_tiles` | u32 | ceil(Sq / rows of a tile) |
//! | `tiles` | u32 | query_tiles * B * Hq, times the shares of each where query tiles are split |
//! | `heads_total` | u32 | B * Hq; longest-first order only |
//! | `section` | u32 | heads whose K and V fill the L2 share of the order; longest-first order only |
//! | `counter` | u64 | address of a zeroed u32 that the kernel leaves zeroed; dynamic grids only |
//! | `shares` | u32 | shares of each query tile's keys; split query tiles only |
//! | `workspace` | u64 | address of a workspace, 16-byte aligned; split query tiles only, not looked at with one share |
//! | `arrivals` | u64 | address of a zeroed u32 for each consumer warpgroup of each query tile, left zeroed; likewise |
//! | `scale_log2` | f32 | scale * log2(e) |
//! | `scale_pow2` | f32 | the power of two nearest to it by ratio; 16-bit elements only |
//!
//! 8-bit elements bring scales, f32, and their strides in elements:
//!
//! | name | type | meaning |
//! |---|---|---|
//! | `q_scales`, `k_scales`, `v_scales` | u64 | their addresses |
//! | `q_scale_batch`, `k_scale_batch`, `v_scale_batch` | u32 | from batch to batch |
//! | `q_scale_head` | u32 | from query head to query head |
//! | `q_scale_kv_head`, `k_scale_kv_head`, `v_scale_kv_head` | u32 | from key head to key head |
//! | `q_scale_block`, `k_scale_block` | u32 | from 64 rows to the next, from key tile to key tile; `scales: block` only |
//!
//! Their V is `(Dv, Sk, Hk, B)` too where it lies by rows, and transposed `(Sk up to 16, Dv, Hk, B)`.
//!
//! The grid has as many blocks as there are SMs, or tiles if they are fewer.

use ptx::{Kernel, Param, ParamKind};
use runtime::{Argument, Error, Result, TensorMapArg};
use schedule::{Order, Schedule, Scheduler, footprint};

use crate::Problem;

pub mod scales;

pub use scales::ScaleAddresses;

/// Device addresses of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Of Q.
    pub q: u64,
    /// Of K; not looked at where there are no keys.
    pub k: u64,
    /// Of V; not looked at where there are no keys.
    pub v: u64,
    /// Of O.
    pub o: u64,
    /// Of LSE.
    pub lse: u64,
}

/// The plain numbers among the parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the module's table says what each name means")]
pub struct Scalars {
    pub queries: u32,
    pub keys: u32,
    pub heads: u32,
    pub group: u32,
    pub heads_total: u32,
    pub query_tiles: u32,
    pub tiles: u32,
    pub section: u32,
    pub shares: u32,
    pub scale_log2: f32,
    pub scale_pow2: f32,
}

/// What a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Map,
    U32,
    U64,
    F32,
}

/// The parameter that tells kernels of 8-bit elements.
const SCALES: &str = "q_scales";

/// Which kernels have a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    /// All.
    Every,
    /// Those of a schedule that asks for it.
    Some,
    /// Those of 16-bit elements.
    Half,
    /// Of those, some.
    SomeHalf,
    /// Those of 8-bit elements.
    Eight,
    /// Of those, some.
    SomeEight,
}

/// Every parameter, and which kernels have it.
const PARAMS: [(&str, Type, Has); 31] = [
    ("q", Type::Map, Has::Every),
    ("k", Type::Map, Has::Every),
    ("v", Type::Map, Has::Every),
    ("o", Type::Map, Has::Every),
    ("lse", Type::U64, Has::Every),
    ("queries", Type::U32, Has::Every),
    ("keys", Type::U32, Has::Every),
    ("heads", Type::U32, Has::Every),
    ("group", Type::U32, Has::Every),
    ("query_tiles", Type::U32, Has::Every),
    ("tiles", Type::U32, Has::Every),
    ("heads_total", Type::U32, Has::Some),
    ("section", Type::U32, Has::Some),
    ("counter", Type::U64, Has::Some),
    ("shares", Type::U32, Has::SomeHalf),
    ("workspace", Type::U64, Has::SomeHalf),
    ("arrivals", Type::U64, Has::SomeHalf),
    ("scale_log2", Type::F32, Has::Every),
    ("scale_pow2", Type::F32, Has::Half),
    (SCALES, Type::U64, Has::Eight),
    ("q_scale_batch", Type::U32, Has::Eight),
    ("q_scale_head", Type::U32, Has::Eight),
    ("q_scale_kv_head", Type::U32, Has::Eight),
    ("q_scale_block", Type::U32, Has::SomeEight),
    ("k_scales", Type::U64, Has::Eight),
    ("k_scale_batch", Type::U32, Has::Eight),
    ("k_scale_kv_head", Type::U32, Has::Eight),
    ("k_scale_block", Type::U32, Has::SomeEight),
    ("v_scales", Type::U64, Has::Eight),
    ("v_scale_batch", Type::U32, Has::Eight),
    ("v_scale_kv_head", Type::U32, Has::Eight),
];

/// Holds a kernel against the contract.
///
/// # Errors
/// The first parameter that is missing, unknown or of another type.
pub fn check(kernel: &Kernel) -> std::result::Result<(), String> {
    let eight = kernel.param(SCALES).is_some();
    for (name, _, has) in PARAMS {
        let always = match has {
            Has::Every => true,
            Has::Half => !eight,
            Has::Eight => eight,
            Has::Some | Has::SomeHalf | Has::SomeEight => false,
        };
        if always && kernel.param(name).is_none() {
            return Err(format!("the kernel has no parameter `{name}`, which the forward pass is launched with"));
        }
    }
    for Param { name, kind } in &kernel.params {
        let found = match kind {
            ParamKind::Tensor(map) if map.box_dims.len() == 4 => Type::Map,
            ParamKind::U32 => Type::U32,
            ParamKind::U64 => Type::U64,
            ParamKind::F32 => Type::F32,
            ParamKind::Tensor(_) => return Err(format!("tensor map `{name}` does not have 4 dimensions")),
        };
        match PARAMS
            .iter()
            .find(|(known, _, has)| known == name && !(eight && matches!(has, Has::Half | Has::SomeHalf)))
        {
            Some((_, wanted, _)) if *wanted == found => {}
            Some(_) => {
                return Err(format!("parameter `{name}` has another type than the forward pass is launched with"));
            }
            None => return Err(format!("the forward pass is not launched with a parameter `{name}`")),
        }
    }
    Ok(())
}

/// The plain numbers for a problem under a schedule, with query tiles in one piece.
///
/// # Errors
/// [`Error::Shape`] above 2^31 - 1 heads of all batches or tiles.
pub fn scalars(problem: &Problem, schedule: &Schedule) -> Result<Scalars> {
    let limit = |what: &str, found: u64| match u32::try_from(found) {
        Ok(fits) if fits <= i32::MAX as u32 => Ok(fits),
        _ => Err(Error::Shape(format!("{problem} has {found} {what}, the limit is 2^31 - 1"))),
    };
    let heads_total = limit("heads in all batches", problem.batch * problem.heads)?;
    let query_tiles = problem.queries.div_ceil(u64::from(schedule.tile.rows));
    let scale_log2 = problem.scale * std::f64::consts::LOG2_E;
    Ok(Scalars {
        queries: limit("queries", problem.queries)?,
        keys: limit("keys", problem.keys)?,
        heads: limit("heads", problem.heads)?,
        group: limit("heads a key head", problem.group())?,
        heads_total,
        query_tiles: limit("query tiles", query_tiles)?,
        tiles: limit("query tiles in all heads", query_tiles * u64::from(heads_total))?,
        section: section(problem, schedule, heads_total),
        shares: 1,
        scale_log2: scale_log2 as f32,
        scale_pow2: scale_log2.log2().round().exp2() as f32,
    })
}

/// Query heads whose K and V together fill the share of L2 that the order names, and no more than it says.
fn section(problem: &Problem, schedule: &Schedule, heads_total: u32) -> u32 {
    let Order::LongestFirst { l2_bytes, heads: most } = schedule.grid.order else { return 1 };
    let row = u128::from(problem.head_dim.qk) + u128::from(problem.head_dim.v);
    let kv_head = u128::from(problem.keys) * row * u128::from(problem.element.bytes());
    let heads = (u128::from(l2_bytes) * u128::from(problem.group())).checked_div(kv_head).unwrap_or(u128::MAX);
    let most = most.map_or(heads_total, |most| most.get().min(heads_total));
    heads.clamp(1, u128::from(most.max(1))) as u32
}

impl Scalars {
    /// The same with each query tile in so many shares; in one where they would be too many tiles.
    #[must_use]
    pub fn split(self, shares: u32) -> Self {
        match self.tiles.checked_mul(shares) {
            Some(tiles) if shares > 1 && tiles <= i32::MAX as u32 => Self { tiles, shares, ..self },
            _ => self,
        }
    }
}

/// Bytes that a launch leaves the parts of O in: none where query tiles are in one piece.
pub fn workspace_bytes(schedule: &Schedule, scalars: &Scalars) -> u64 {
    match scalars.shares {
        0 | 1 => 0,
        _ => u64::from(scalars.tiles) * footprint::share_bytes(schedule),
    }
}

/// Bytes of the counters that a launch finds zeroed and leaves so: of tiles, in the first [`COUNTER_BYTES`], and behind
/// them of shares that arrived. None where the kernel counts nothing.
pub fn counter_bytes(schedule: &Schedule, scalars: &Scalars) -> u64 {
    let warpgroups = u64::from(schedule.roles.consumer.warpgroups);
    match scalars.shares {
        0 | 1 if schedule.grid.scheduler == Scheduler::Static => 0,
        0 | 1 => COUNTER_BYTES,
        shares => COUNTER_BYTES + u64::from(scalars.tiles / shares) * warpgroups * 4,
    }
}

/// Bytes from the counter of tiles to those of shares: what no two launches share.
const COUNTER_BYTES: u64 = 64;

/// What of these addresses of counters and workspace the kernel is launched with.
pub fn memory(params: &[Param], counters: u64, workspace: u64) -> Vec<(&'static str, Argument)> {
    let all = [("counter", counters), ("arrivals", counters + COUNTER_BYTES), ("workspace", workspace)];
    let wanted = |name: &str| params.iter().any(|param| param.name == name);
    all.into_iter().filter(|(name, _)| wanted(name)).map(|(name, at)| (name, Argument::U64(at))).collect()
}

/// Blocks of a launch.
pub fn grid(scalars: &Scalars, sms: u32) -> [u32; 3] {
    [sms.min(scalars.tiles), 1, 1]
}

/// A tensor as its map wants it: name, address, extents innermost first, byte strides of the outer dimensions.
pub type Tensor = (&'static str, u64, [u64; 4], [u64; 3]);

/// The four tensors. Where there are no keys, K and V are one row of Q's memory, of
/// transposed V one element, which is never read.
pub fn tensors(problem: &Problem, at: &Addresses) -> [Tensor; 4] {
    let (layouts, bytes, at_all) = (problem.layouts(), problem.element_bytes(), [at.q, at.k, at.v, at.o]);
    [0, 1, 2, 3].map(|tensor| {
        let (layout, bytes) = (layouts[tensor], bytes[tensor]);
        let ([b, s, h, d], strides) = (layout.extents, layout.strides);
        if layout.is_empty() {
            // Kernels load from past key 0, which transposed V has along its rows.
            return (layout.name, at.q, [d.max(1), 1, 1, 1], [0; 3]);
        }
        let strides = [strides.token, strides.head, strides.batch].map(|stride| stride * bytes);
        (layout.name, at_all[tensor], [d, s, h, b], strides)
    })
}

/// All arguments of a launch but those of [`memory`], in the order of the table. Encodes the tensor maps; nothing is put on the
/// device.
///
/// # Errors
/// Those of [`scalars`]; [`Error::Misaligned`], [`Error::Stride`] and [`Error::Shape`] of the tensor maps;
/// [`Error::Misaligned`] for LSE and scales.
pub fn arguments(
    params: &[Param],
    problem: &Problem,
    scalars: &Scalars,
    at: &Addresses,
    scales: &ScaleAddresses,
    one: u64,
) -> Result<Vec<(&'static str, Argument)>> {
    if at.lse == 0 || !at.lse.is_multiple_of(4) {
        let rule = "an address of f32 values is not null and a multiple of 4 bytes";
        return Err(Error::Misaligned { tensor: "lse".into(), address: at.lse, rule });
    }
    let has = |name: &str| params.iter().any(|param| param.name == name);
    let mut all = Vec::with_capacity(PARAMS.len());
    all.extend(scales::arguments(problem, scales, one)?.into_iter().filter(|(name, _)| has(name)));
    for (name, address, dims, strides) in tensors(problem, at) {
        let map = params.iter().find_map(|param| match &param.kind {
            ParamKind::Tensor(spec) if param.name == name => Some(spec),
            _ => None,
        });
        if let Some(spec) = map {
            all.push((name, TensorMapArg::encode(name, spec, address, &dims, &strides)?.into()));
        }
    }
    all.push(("lse", Argument::U64(at.lse)));
    all.extend(
        [
            ("queries", scalars.queries),
            ("keys", scalars.keys),
            ("heads", scalars.heads),
            ("group", scalars.group),
            ("query_tiles", scalars.query_tiles),
            ("tiles", scalars.tiles),
        ]
        .map(|(name, value)| (name, Argument::U32(value))),
    );
    for (name, value) in
        [("heads_total", scalars.heads_total), ("section", scalars.section), ("shares", scalars.shares)]
    {
        if has(name) {
            all.push((name, Argument::U32(value)));
        }
    }
    all.push(("scale_log2", Argument::F32(scalars.scale_log2)));
    if problem.fp8.is_none() {
        all.push(("scale_pow2", Argument::F32(scalars.scale_pow2)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
