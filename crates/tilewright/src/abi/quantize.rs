//! Parameters of the quantizer.
//!
//! Of each tensor t in `q`, `k`, `v`:
//!
//! | name | type | meaning |
//! |---|---|---|
//! | `t` | tensor map | (D, S, H, B) of what is read |
//! | `t_codes` | u64 | address of the codes: `[B, S, H, D]` for Q and K, `[B, H, D, S]` for V |
//! | `t_code_batch`, `t_code_token`, `t_code_head` | u64 | strides of the codes in bytes; Q and K only |
//! | `t_scales` | u64 | address of f32 scales, `[B, H, blocks]`, `[B, H]` or one |
//! | `t_rows` | u32 | S; Q and K only |
//! | `t_heads` | u32 | H |
//! | `t_tiles` | u32 | tiles of a head |
//! | `t_abreast` | u32 | heads whose tiles of the same rows follow one another: those of a section, or B * H; those of a round |
//! | `t_heads_inverse`, `t_abreast_inverse` | u32 | (2^32 - 1) / them, rounded down |
//! | `t_end` | u32 | one past the tensor's last item, of all tensors |
//!
//! Of those whose tiles share a scale, so that they are read twice or dealt in rounds:
//!
//! | name | type | meaning |
//! |---|---|---|
//! | `t_shares` | u64 | address of four words for each scale, zero before and after the launch |
//! | `t_sharing` | u32 | tiles that share one scale |
//! | `t_section` | u32 | tiles of a section or a round, whole heads |
//! | `t_pair`, `t_pair_inverse` | u32 | tiles of two sections, and (2^32 - 1) / that, rounded down |
//! | `t_sections` | u32 | sections or rounds |
//! | `t_heads_total` | u32 | B * H |
//! | `t_lead_end` | u32 | one past the first section's first reading |
//!
//! And `v_pitch` (u32, bytes from one column of V's codes to the next: keys rounded up to 16), `seed` (u32, of the
//! rotation's signs; kernels that rotate only) and `counter` (u64, address of a zeroed u32 that the kernel leaves zeroed).
//!
//! Of V besides: `v_maxima` (u64, address of a u32 for each of its tiles, zero before and after the launch, where it is
//! dealt in rounds and read once; no address where it is read twice).
//!
//! Items are counted in this order: the first sections of V, K and Q, then the rest of K, Q and V; V has none where it is
//! dealt. The grid has as many blocks as there are SMs, or fewer if their warpgroups outnumber the items. With rounds all
//! blocks must run at the same time.

use ptx::{Kernel, ParamKind};
use runtime::{Argument, Error, Result, TensorMapArg};
use schedule::{Granularity, Quantize};

use crate::layout::Layout;
use crate::{Problem, Strides};

/// Device addresses of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Of Q, K and V of 16 bits. One without elements is not looked at, and neither are its codes and scales.
    pub tensors: [u64; 3],
    /// Of their codes.
    pub codes: [u64; 3],
    /// Of their scales.
    pub scales: [u64; 3],
    /// Of [`Numbers::workspace_bytes`] bytes, zero before the first launch; launches leave them zero.
    pub workspace: u64,
}

/// Names of the tensors, in the order of all arrays here.
pub const TENSORS: [&str; 3] = ["q", "k", "v"];

/// Bytes of a scale's words, and of the counter's room before them.
const WORDS_BYTES: u64 = 16;
/// Bytes of the word of a tile that is dealt.
const WORD_BYTES: u64 = 4;
/// Codes of a row, and keys of V, are filled up to a multiple of this.
const STEP: u64 = 16;

/// What a caller may choose of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Strides of the codes of Q and K in elements; none: `[B, S, H, D]` without gaps.
    pub code_strides: [Option<Strides>; 2],
    /// Chooses the signs of the rotation. Q and K that are multiplied with one another must have the same.
    pub seed: u32,
    /// Bytes of a section of what is read twice. Two readings of a tile lie two sections apart, and what all SMs have drawn
    /// ahead: the default is well within the half of the L2 cache that is near an SM, and enough for the first readings to
    /// be through.
    pub section_bytes: u64,
    /// Whether all blocks may be made to run at the same time (a cooperative launch), so that they can wait for one another:
    /// V is then read once where all tiles of a scale find room on the device, and otherwise twice, as always without it.
    /// The codes are the same. To be turned off beside kernels of other streams that hold SMs for long, such as communication,
    /// which such a launch waits for, and where a context has fewer SMs than its device.
    pub all_at_once: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { code_strides: [None; 2], seed: 0, section_bytes: 8 << 20, all_at_once: true }
    }
}

/// One tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tensor {
    granularity: Granularity,
    rows: u32,
    heads: u32,
    heads_total: u32,
    abreast: u32,
    tiles: u32,
    scales: u64,
    sharing: u32,
    section: u32,
    sections: u32,
    /// Tiles that are dealt and read once.
    dealt: u32,
    lead_end: u32,
    end: u32,
}

/// The plain numbers of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    tensors: [Tensor; 3],
    /// Strides of the codes of Q and K in bytes.
    code_strides: [Strides; 2],
    /// Elements of the codes' rows, of Q and K, and of V.
    code_columns: [u64; 2],
    pitch: u32,
    items: u32,
    blocks: u32,
    seed: u32,
}

/// Holds a kernel against the contract.
///
/// # Errors
/// The first parameter that is unknown or of another type.
pub fn check(kernel: &Kernel) -> std::result::Result<(), String> {
    for param in &kernel.params {
        let (tensor, rest) = param.name.split_once('_').unwrap_or((&param.name, ""));
        let known = match (TENSORS.contains(&tensor), rest) {
            (true, "") => matches!(&param.kind, ParamKind::Tensor(map) if map.box_dims.len() == 4),
            (true, "codes" | "code_batch" | "code_token" | "code_head" | "scales" | "shares") => {
                param.kind == ParamKind::U64
            }
            (
                true,
                "rows" | "heads" | "tiles" | "end" | "sharing" | "section" | "sections" | "heads_total" | "lead_end",
            )
            | (true, "heads_inverse" | "abreast" | "abreast_inverse" | "pair" | "pair_inverse") => {
                param.kind == ParamKind::U32
            }
            (true, "pitch") => tensor == "v" && param.kind == ParamKind::U32,
            (true, "maxima") => tensor == "v" && param.kind == ParamKind::U64,
            (false, "") if tensor == "seed" => param.kind == ParamKind::U32,
            (false, "") if tensor == "counter" => param.kind == ParamKind::U64,
            _ => return Err(format!("the quantizer is not launched with a parameter `{}`", param.name)),
        };
        if !known {
            return Err(format!("parameter `{}` has another type than the quantizer is launched with", param.name));
        }
    }
    let missing = TENSORS.into_iter().chain(["counter"]).find(|name| kernel.param(name).is_none());
    missing.map_or(Ok(()), |name| Err(format!("the kernel has no parameter `{name}`")))
}

impl Numbers {
    /// The numbers for a problem's Q, K and V under a schedule, on a device that runs so many blocks at a time.
    ///
    /// # Errors
    /// [`Error::HeadDim`] and [`Error::Element`] where problem and schedule differ; [`Error::Stride`] for strides that
    /// codes cannot have; [`Error::Shape`] above 2^31 - 1 items.
    pub fn new(problem: &Problem, schedule: &Quantize, options: &Options, sms: u32) -> Result<Numbers> {
        let Options { code_strides, seed, section_bytes, all_at_once } = *options;
        if problem.element != schedule.element {
            let reason = format!("the quantizer {} reads {}", schedule.name, schedule.element);
            return Err(Error::Element { found: problem.element.to_string(), reason });
        }
        if problem.head_dim != schedule.head_dim {
            let (asked, element) = (problem.head_dim.to_string(), problem.element.to_string());
            let supported = format!("{}, which is what the quantizer {} reads", schedule.head_dim, schedule.name);
            return Err(Error::HeadDim { asked, element, supported });
        }
        let code_columns = [schedule.columns(), schedule.value_columns()].map(u64::from);
        let [q, k, v, _] = problem.layouts();
        let scales = schedule.scales;
        let strides =
            [strides_of(&q, code_strides[0], code_columns[0])?, strides_of(&k, code_strides[1], code_columns[0])?];
        let (q_rows, k_rows) = (scales.q.rows(), scales.k.rows());
        let groups = schedule.roles.consumer.warpgroups;
        let mut tensors = [
            Tensor::new(&q, scales.q, q_rows, section_bytes)?,
            Tensor::new(&k, scales.k, k_rows, section_bytes)?,
            Tensor::new(&v, scales.v, schedule.value_keys(), section_bytes)?.held(if all_at_once {
                sms.saturating_mul(groups)
            } else {
                0
            })?,
        ];
        let mut items = 0;
        for tensor in tensors.iter_mut().rev() {
            items += tensor.lead();
            tensor.lead_end = limit("items", items)?;
        }
        for tensor in Quantize::DRAWN {
            items += tensors[tensor].rest();
            tensors[tensor].end = limit("items", items)?;
        }
        let pitch = limit("keys", problem.keys.next_multiple_of(STEP))?;
        let items = limit("items", items + u64::from(tensors[2].dealt))?;
        let blocks = sms.min(items.div_ceil(groups)).max(1);
        Ok(Numbers { tensors, code_strides: strides, code_columns, pitch, items, blocks, seed })
    }

    /// Items of all tensors; none: nothing is launched.
    pub fn items(&self) -> u32 {
        self.items
    }

    /// Blocks of a launch.
    pub fn grid(&self) -> [u32; 3] {
        [self.blocks, 1, 1]
    }

    /// Whether blocks wait for blocks that may start after them, so that all must run at the same time.
    pub fn all_at_once(&self) -> bool {
        let v = &self.tensors[2];
        v.rounds() > 0 && v.sharing > 1
    }

    /// Tiles of V that are dealt, each read once; none: they are read twice.
    pub fn dealt(&self) -> u32 {
        self.tensors[2].dealt
    }

    /// Strides of the codes of Q and K in elements.
    pub fn code_strides(&self) -> [Strides; 2] {
        self.code_strides
    }

    /// Elements that the codes of Q, K and V reach from their bases on.
    pub fn code_elements(&self, problem: &Problem) -> [u64; 3] {
        let [q, k, v, _] = problem.layouts();
        let rows = |layout: Layout, strides: Strides| {
            let [b, s, h, _] = layout.extents;
            Layout { extents: [b, s, h, self.code_columns[0]], strides, ..layout }.reach().unwrap_or(u64::MAX)
        };
        let [b, _, h, _] = v.extents;
        let [of_q, of_k] = self.code_strides;
        [rows(q, of_q), rows(k, of_k), b * h * self.code_columns[1] * u64::from(self.pitch)]
    }

    /// Scales of Q, K and V.
    pub fn scale_elements(&self) -> [u64; 3] {
        self.tensors.map(|tensor| tensor.scales)
    }

    /// Bytes of the workspace: the counter, words for each scale that many tiles share, and one for each tile that is dealt.
    pub fn workspace_bytes(&self) -> u64 {
        self.words_at(3) + (WORD_BYTES * u64::from(self.tensors[2].dealt)).next_multiple_of(WORDS_BYTES)
    }

    /// Where the words of a tensor start in the workspace.
    fn words_at(&self, tensor: usize) -> u64 {
        let before = self.tensors[..tensor].iter().filter(|t| t.granularity.needs_two_reads());
        WORDS_BYTES + before.map(|t| t.scales * WORDS_BYTES).sum::<u64>()
    }

    /// Every number by its parameter's name.
    pub fn named(&self) -> Vec<(String, Argument)> {
        let mut all = Vec::new();
        for (name, tensor) in TENSORS.into_iter().zip(self.tensors) {
            let mut push = |what: &str, value: u32| all.push((format!("{name}_{what}"), Argument::U32(value)));
            let mut divisor = |what: &str, number: u32| {
                push(what, number);
                push(&format!("{what}_inverse"), u32::MAX / number.max(1));
            };
            divisor("heads", tensor.heads);
            divisor("abreast", tensor.abreast);
            if tensor.granularity.needs_two_reads() {
                divisor("pair", 2 * tensor.section);
            }
            push("tiles", tensor.tiles);
            push("end", tensor.end);
            if name != "v" {
                push("rows", tensor.rows);
            }
            if tensor.granularity.needs_two_reads() {
                push("sharing", tensor.sharing);
                push("section", tensor.section);
                push("sections", tensor.sections);
                push("heads_total", tensor.heads_total);
                push("lead_end", tensor.lead_end);
            }
        }
        for (name, Strides { batch, token, head }) in TENSORS.into_iter().zip(self.code_strides) {
            for (what, stride) in [("batch", batch), ("token", token), ("head", head)] {
                all.push((format!("{name}_code_{what}"), Argument::U64(stride)));
            }
        }
        all.push(("v_pitch".into(), Argument::U32(self.pitch)));
        all.push(("seed".into(), Argument::U32(self.seed)));
        all
    }

    /// All arguments of a launch of the kernel. Encodes the tensor maps; nothing is put on the device.
    ///
    /// # Errors
    /// [`Error::Misaligned`], [`Error::Stride`] and [`Error::Shape`] of the tensor maps; [`Error::Misaligned`] for codes
    /// (16 bytes), scales (4) and workspace (16).
    pub fn arguments(&self, kernel: &Kernel, problem: &Problem, at: &Addresses) -> Result<Vec<(String, Argument)>> {
        let [q, k, v, _] = problem.layouts();
        let layouts = [q, k, v];
        for (t, name) in TENSORS.into_iter().enumerate().filter(|(t, _)| !layouts[*t].is_empty()) {
            aligned(&format!("{name} codes"), at.codes[t], STEP, "codes start on a 16-byte boundary, not at null")?;
            aligned(&format!("{name} scales"), at.scales[t], 4, "scales start on a 4-byte boundary, not at null")?;
        }
        let mut all = self.named();
        all.retain(|(name, _)| kernel.param(name).is_some());
        aligned(
            "workspace",
            at.workspace,
            WORDS_BYTES,
            "the workspace's address is not null and a multiple of 16 bytes",
        )?;
        all.push(("counter".into(), Argument::U64(at.workspace)));
        let maxima = if self.dealt() > 0 { at.workspace + self.words_at(3) } else { 0 };
        all.push(("v_maxima".into(), Argument::U64(maxima)));
        let first = (0..3).find(|&t| !layouts[t].is_empty()).unwrap_or(0);
        for (t, name) in TENSORS.into_iter().enumerate() {
            let layout = layouts[t];
            if let Some(ParamKind::Tensor(spec)) = kernel.param(name).map(|param| &param.kind) {
                let ([b, s, h, d], strides) = (layout.extents, layout.strides);
                let map = match layout.is_empty() {
                    // Never read: one row of a tensor that is there.
                    true => TensorMapArg::encode(name, spec, at.tensors[first], &[d, 1, 1, 1], &[0; 3])?,
                    false => {
                        let strides = [strides.token, strides.head, strides.batch].map(|s| s * problem.element.bytes());
                        TensorMapArg::encode(name, spec, at.tensors[t], &[d, s, h, b], &strides)?
                    }
                };
                all.push((name.into(), map.into()));
            }
            all.push((format!("{name}_codes"), Argument::U64(at.codes[t])));
            all.push((format!("{name}_scales"), Argument::U64(at.scales[t])));
            if self.tensors[t].granularity.needs_two_reads() {
                all.push((format!("{name}_shares"), Argument::U64(at.workspace + self.words_at(t))));
            }
        }
        Ok(all)
    }
}

impl Tensor {
    fn new(layout: &Layout, granularity: Granularity, tile_rows: u32, section_bytes: u64) -> Result<Tensor> {
        let [batch, rows, heads, dim] = layout.extents;
        let (total, tiles) = (batch * heads, rows.div_ceil(tile_rows.into()));
        let abreast = match granularity {
            Granularity::Tensor | Granularity::Block(_) => total,
            // 16-bit elements.
            _ => section_bytes.checked_div(rows * dim * 2).unwrap_or(1).clamp(1, total.max(1)),
        };
        let (scales, sharing) = match granularity {
            Granularity::Block(_) => (total * tiles, tiles),
            Granularity::Head => (total, tiles),
            _ => (1, tiles * total),
        };
        Ok(Tensor {
            granularity,
            rows: limit("rows", rows)?,
            heads: limit("heads", heads.max(1))?,
            heads_total: limit("heads in all batches", total)?,
            abreast: limit("heads of a section", abreast.max(1))?,
            tiles: limit("tiles", tiles.max(1))?,
            scales: if layout.is_empty() { 0 } else { scales },
            sharing: limit("tiles of a scale", sharing)?,
            section: limit("tiles of a section", if layout.is_empty() { 0 } else { abreast * tiles })?,
            sections: limit("sections", total.div_ceil(abreast.max(1)))?,
            dealt: 0,
            lead_end: 0,
            end: 0,
        })
    }

    /// Read once, if all tiles of a scale find room: `room` tiles are dealt in a round, of whole heads.
    fn held(self, room: u32) -> Result<Tensor> {
        if self.heads_total == 0 || self.sharing == 0 || self.sharing > room {
            return Ok(self);
        }
        let abreast = match self.granularity {
            Granularity::Tensor => self.heads_total,
            _ => (room / self.tiles).min(self.heads_total),
        };
        let dealt = limit("tiles", u64::from(self.heads_total) * u64::from(self.tiles))?;
        let (section, sections) = (abreast * self.tiles, self.heads_total.div_ceil(abreast));
        Ok(Tensor { abreast, section, sections, dealt, ..self })
    }

    /// Rounds that it is dealt in; none if it is not.
    fn rounds(&self) -> u32 {
        if self.dealt > 0 { self.sections } else { 0 }
    }

    /// Items of the first section's first reading.
    fn lead(&self) -> u64 {
        if self.granularity.needs_two_reads() && self.dealt == 0 { self.section.into() } else { 0 }
    }

    /// Items after all tensors' first.
    fn rest(&self) -> u64 {
        match self.granularity {
            Granularity::Block(_) => self.scales,
            _ if self.dealt > 0 => 0,
            _ => u64::from(self.section) * (2 * u64::from(self.sections)).saturating_sub(1),
        }
    }
}

/// Strides of codes in elements, which are bytes.
fn strides_of(layout: &Layout, given: Option<Strides>, columns: u64) -> Result<Strides> {
    let [b, s, h, _] = layout.extents;
    let strides = given.unwrap_or(Strides::contiguous(s, h, columns));
    let codes = Layout { extents: [b, s, h, columns], strides, ..*layout };
    codes.check(1)?;
    if !codes.is_empty() {
        codes.check_apart(1)?;
    }
    Ok(strides)
}

fn limit(what: &str, found: u64) -> Result<u32> {
    match u32::try_from(found) {
        Ok(fits) if fits <= i32::MAX as u32 => Ok(fits),
        _ => Err(Error::Shape(format!("the quantizer has {found} {what}, the limit is 2^31 - 1"))),
    }
}

fn aligned(tensor: &str, address: u64, bytes: u64, rule: &'static str) -> Result<()> {
    if address != 0 && address.is_multiple_of(bytes) {
        return Ok(());
    }
    Err(Error::Misaligned { tensor: tensor.into(), address, rule })
}

#[cfg(test)]
mod tests;
