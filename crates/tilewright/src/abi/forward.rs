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
//! | `scale_pow2` | f32 | the power of two nearest to it by ratio |
//!
//! The grid has as many blocks as there are SMs, or tiles if they are fewer.

use ptx::{Kernel, Param, ParamKind};
use runtime::{Argument, Error, Result, TensorMapArg};
use schedule::{Order, Schedule, Scheduler, footprint};

use crate::Problem;

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

/// Every parameter, and whether each kernel has it.
const PARAMS: [(&str, Type, bool); 19] = [
    ("q", Type::Map, true),
    ("k", Type::Map, true),
    ("v", Type::Map, true),
    ("o", Type::Map, true),
    ("lse", Type::U64, true),
    ("queries", Type::U32, true),
    ("keys", Type::U32, true),
    ("heads", Type::U32, true),
    ("group", Type::U32, true),
    ("query_tiles", Type::U32, true),
    ("tiles", Type::U32, true),
    ("heads_total", Type::U32, false),
    ("section", Type::U32, false),
    ("counter", Type::U64, false),
    ("shares", Type::U32, false),
    ("workspace", Type::U64, false),
    ("arrivals", Type::U64, false),
    ("scale_log2", Type::F32, true),
    ("scale_pow2", Type::F32, true),
];

/// Holds a kernel against the contract.
///
/// # Errors
/// The first parameter that is missing, unknown or of another type.
pub fn check(kernel: &Kernel) -> std::result::Result<(), String> {
    for (name, _, always) in PARAMS {
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
        match PARAMS.iter().find(|(known, ..)| known == name) {
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

/// Query heads whose K and V together fill the share of L2 that the order names.
fn section(problem: &Problem, schedule: &Schedule, heads_total: u32) -> u32 {
    let Order::LongestFirst { l2_bytes } = schedule.grid.order else { return 1 };
    let row = u128::from(problem.head_dim.qk) + u128::from(problem.head_dim.v);
    let kv_head = u128::from(problem.keys) * row * u128::from(problem.element.bytes());
    let heads = (u128::from(l2_bytes) * u128::from(problem.group())).checked_div(kv_head).unwrap_or(u128::MAX);
    heads.clamp(1, u128::from(heads_total.max(1))) as u32
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

/// The four tensors. Where there are no keys, K and V are one row of Q's memory, which is never read.
pub fn tensors(problem: &Problem, at: &Addresses) -> [Tensor; 4] {
    let bytes = problem.element.bytes();
    let [q, k, v, o] = problem.layouts();
    [(q, at.q), (k, at.k), (v, at.v), (o, at.o)].map(|(layout, address)| {
        let ([b, s, h, d], strides) = (layout.extents, layout.strides);
        if s == 0 {
            return (layout.name, at.q, [d, 1, 1, 1], [0; 3]);
        }
        (layout.name, address, [d, s, h, b], [strides.token, strides.head, strides.batch].map(|stride| stride * bytes))
    })
}

/// All arguments of a launch but those of [`memory`], in the order of the table. Encodes the tensor maps; nothing is put on the
/// device.
///
/// # Errors
/// Those of [`scalars`]; [`Error::Misaligned`], [`Error::Stride`] and [`Error::Shape`] of the tensor maps;
/// [`Error::Misaligned`] for LSE.
pub fn arguments(
    params: &[Param],
    problem: &Problem,
    scalars: &Scalars,
    at: &Addresses,
) -> Result<Vec<(&'static str, Argument)>> {
    if at.lse == 0 || !at.lse.is_multiple_of(4) {
        let rule = "an address of f32 values is not null and a multiple of 4 bytes";
        return Err(Error::Misaligned { tensor: "lse".into(), address: at.lse, rule });
    }
    let has = |name: &str| params.iter().any(|param| param.name == name);
    let mut all = Vec::with_capacity(PARAMS.len());
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
    all.push(("scale_pow2", Argument::F32(scalars.scale_pow2)));
    Ok(all)
}

#[cfg(test)]
mod tests;
