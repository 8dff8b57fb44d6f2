//! Parameters of the forward pass over 8-bit elements: where scales are, and their strides.

use runtime::{Argument, Error, Result};

use crate::problem::ScaleGrid;
use crate::{Problem, ScaleBy};

/// Device addresses of the scales of Q, K and V, f32. One is not looked at where the problem has 16-bit elements, where it
/// gives the tensor no scales ([`ScaleBy::One`]), and of K and V where there are no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScaleAddresses {
    /// Of Q.
    pub q: u64,
    /// Of K.
    pub k: u64,
    /// Of V.
    pub v: u64,
}

/// Bytes of a scale.
const BYTES: u64 = 4;

/// Strides of Q: batch, query head, KV head, 64 rows; of K: batch, KV head, key tile; of V: batch, KV head.
const STRIDES: [&[&str]; 3] = [
    &["q_scale_batch", "q_scale_head", "q_scale_kv_head", "q_scale_block"],
    &["k_scale_batch", "k_scale_kv_head", "k_scale_block"],
    &["v_scale_batch", "v_scale_kv_head"],
];

/// Every stride by its parameter's name; none for 16-bit elements. Where scales are shared, or there are no keys to have
/// any, strides are 0.
pub fn strides(problem: &Problem) -> Vec<(&'static str, u32)> {
    let Some(grids) = problem.scale_grids() else { return Vec::new() };
    let named = grids.iter().zip(STRIDES).flat_map(|(grid, names)| names.iter().map(|&name| (name, of(grid, name))));
    named.collect()
}

fn of(grid: &ScaleGrid, name: &str) -> u32 {
    let [batch, head, block] = if grid.reach() <= 1 { [0; 3] } else { grid.strides };
    let stride = match (name.rsplit_once("_scale_").map_or("", |(_, what)| what), grid.by) {
        ("batch", _) => batch,
        ("block", _) => block,
        // K and V have no heads but those.
        ("kv_head", ScaleBy::KvHead) => head,
        ("kv_head", _) if grid.name != "q scales" => head,
        ("head", ScaleBy::Head | ScaleBy::Block(_)) => head,
        _ => 0,
    };
    // The problem holds what is used of them below 2^32; a stride of an extent of 1 may be anything.
    u32::try_from(stride).unwrap_or(0)
}

/// Rows of K that share a scale, where the schedule's key tile must be so long.
pub fn key_block(problem: &Problem) -> Option<u32> {
    problem.fp8?.k.by.rows()
}

/// Whether a kernel without scales for blocks of rows serves the problem.
pub fn is_by_head(problem: &Problem) -> bool {
    problem.fp8.is_none_or(|fp8| [fp8.q, fp8.k].iter().all(|scales| scales.by.rows().is_none()))
}

/// The arguments of a launch. `one` is the address of a 1 in device memory, for tensors without scales.
///
/// # Errors
/// [`Error::Misaligned`] with the tensor.
pub fn arguments(problem: &Problem, at: &ScaleAddresses, one: u64) -> Result<Vec<(&'static str, Argument)>> {
    let Some(grids) = problem.scale_grids() else { return Ok(Vec::new()) };
    let mut all = Vec::with_capacity(12);
    let names = ["q_scales", "k_scales", "v_scales"];
    // What no key has is read all the same, by kernels that load it for a whole tile.
    let mut there = at.q;
    for ((grid, given), name) in grids.iter().zip([at.q, at.k, at.v]).zip(names) {
        let address = match grid.by {
            ScaleBy::One => one,
            _ if grid.reach() == 0 => there,
            _ if given == 0 || !given.is_multiple_of(BYTES) => {
                let rule = "an address of f32 scales is not null and a multiple of 4 bytes";
                return Err(Error::Misaligned { tensor: grid.name.into(), address: given, rule });
            }
            _ => given,
        };
        if name == "q_scales" {
            there = address;
        }
        all.push((name, Argument::U64(address)));
    }
    all.extend(strides(problem).into_iter().map(|(name, stride)| (name, Argument::U32(stride))));
    Ok(all)
}

#[cfg(test)]
mod tests;
