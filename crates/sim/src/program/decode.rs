//! From the IR to the machine's own instructions. An instruction that the machine does not know is an error naming it.

use std::collections::HashMap;

use ptx::{Inst, Kernel, Line, Op, Operand};

use super::operands::{Args, Files};
use super::*;
use crate::Unrunnable;

/// Decodes a kernel.
pub(crate) fn decode(kernel: &Kernel) -> Result<Program<'_>, Unrunnable> {
    let files = Files::of(kernel);
    let mut labels = HashMap::new();
    let mut count = 0;
    for line in &kernel.body {
        match line {
            Line::Label(label) => {
                labels.insert(label.name(), count);
            }
            Line::Inst(_) => count += 1,
            _ => {}
        }
    }
    let products = product_registers(kernel, &files);
    let mut code = Vec::with_capacity(count);
    let mut role = None;
    for (line, item) in kernel.body.iter().enumerate() {
        match item {
            Line::Begin(begun) => role = *begun,
            Line::Inst(inst) => {
                let args = Args { inst, files: &files };
                let decoded = instruction(kernel, &args, &labels);
                let decoded = decoded.ok_or_else(|| Unrunnable::Unknown { line, instruction: inst.to_string() })?;
                let guard = inst.guard.map(|g| (g.pred.reg().index, g.negated));
                code.push(Instruction {
                    touches: touched(inst, &decoded, &files, &products),
                    code: decoded,
                    guard,
                    line,
                    role,
                });
            }
            _ => {}
        }
    }
    let regs32 = (files.b32 + files.f32 + files.b16) as usize;
    Ok(Program { kernel, code, regs32, regs64: files.b64 as usize, preds: files.pred as usize })
}

/// Which 32-bit registers are accumulators or A operands of some product.
fn product_registers(kernel: &Kernel, files: &Files) -> Vec<bool> {
    let mut marked = vec![false; (files.b32 + files.f32 + files.b16) as usize];
    for (_, inst) in kernel.insts().filter(|(_, i)| is_product(i)) {
        for operand in &inst.args {
            if let Operand::Vector(regs) = operand {
                regs.iter().for_each(|r| marked[files.number(*r) as usize] = true);
            }
        }
    }
    marked
}

/// Whether an instruction is a product of a warpgroup.
pub(crate) fn is_product(inst: &Inst) -> bool {
    inst.spec().completion == ptx::Completion::WgmmaGroup
}

fn touched(inst: &Inst, code: &Code, files: &Files, products: &[bool]) -> Vec<u32> {
    if matches!(code, Code::Product(_)) {
        return Vec::new();
    }
    let mut out: Vec<u32> = inst
        .reads()
        .into_iter()
        .chain(inst.writes())
        .filter(|r| !matches!(r.class, ptx::Class::B64 | ptx::Class::Pred))
        .map(|r| files.number(r))
        .filter(|&n| products[n as usize])
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

fn instruction(kernel: &Kernel, a: &Args<'_>, labels: &HashMap<&str, usize>) -> Option<Code> {
    let qual = |i: usize| a.inst.quals.get(i).copied().unwrap_or("");
    let wide = a.inst.spec().typed_class(&a.inst.quals) == Some(ptx::Class::B64);
    Some(match a.inst.op {
        Op::setp => compare(a, qual(0), qual(1))?,
        Op::selp if wide => Code::Select64(a.reg(0)?, a.s64(1)?, a.s64(2)?, a.reg(3)?),
        Op::selp => Code::Select32(a.reg(0)?, a.s32(1)?, a.s32(2)?, a.reg(3)?),
        Op::and_pred => Code::Pred { d: a.reg(0)?, a: a.sp(1)?, b: a.sp(2)?, or: false, negate: false },
        Op::or_pred => Code::Pred { d: a.reg(0)?, a: a.sp(1)?, b: a.sp(2)?, or: true, negate: false },
        Op::not_pred => Code::Pred { d: a.reg(0)?, a: a.sp(1)?, b: a.sp(1)?, or: false, negate: true },
        Op::mov_pred => Code::Pred { d: a.reg(0)?, a: a.sp(1)?, b: a.sp(1)?, or: false, negate: false },
        Op::mov if wide => Code::Mov64(a.reg(0)?, a.s64(1)?),
        Op::mov | Op::mov_bits | Op::mov_float => Code::Mov32(a.reg(0)?, a.s32(1)?),
        Op::mov_special => Code::Special(a.reg(0)?, special(a.raw(1)?)?),
        Op::mov_shared if a.param(1) == Some(Kernel::SHARED_SYMBOL) => {
            Code::Mov32(a.reg(0)?, S32::I(crate::shared::SHARED_BASE))
        }
        Op::mov_param => Code::MapAddress(a.reg(0)?, param(kernel, a.param(1)?)?),
        Op::cvta_param => Code::MapGeneric(a.reg(0)?, a.reg(1)?),
        Op::mov_pack => match a.regs(1)?[..] {
            [low, high] => Code::Pack(a.reg(0)?, low, high),
            _ => return None,
        },
        Op::mov_pack_b16 => match a.regs(1)?[..] {
            [low, high] => Code::Pack16(a.reg(0)?, low, high),
            _ => return None,
        },
        Op::mov_unpack_b16 => match a.regs(0)?[..] {
            [low, high] => Code::Unpack16(low, high, a.reg(1)?),
            _ => return None,
        },
        Op::prmt => Code::Permute(a.reg(0)?, a.s32(1)?, a.s32(2)?, a.s32(3)?),
        Op::cvt_u64_u32 => Code::Widen(a.reg(0)?, a.reg(1)?),
        Op::cvt_rn_pair => Code::CvtPair(half(qual(0))?, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::cvt_rn_relu_pair => Code::CvtReluPair(half(qual(0))?, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::cvt_rn_half => Code::CvtHalf(half(qual(0))?, a.reg(0)?, a.s32(1)?),
        Op::cvt_f32_half => Code::CvtSingle(half(qual(0))?, a.reg(0)?, a.reg(1)?),
        Op::cvt_rn_f8 => Code::CvtPair8(Float8::of(qual(0))?, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::abs_pair => Code::AbsPair(a.reg(0)?, a.reg(1)?),
        Op::max_pair => Code::MaxPair(half(qual(0))?, a.reg(0)?, a.reg(1)?, a.reg(2)?),
        Op::cvt_f16_f8 => Code::CvtHalves(Float8::of(qual(0))?, a.reg(0)?, a.reg(1)?),
        Op::add_f32 => Code::Float2(Float2::Add, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::sub_f32 => Code::Float2(Float2::Sub, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::mul_f32 | Op::mul_rn_f32 => Code::Float2(Float2::Mul, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::div_rn_f32 => Code::Float2(Float2::Div, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::min_f32 => Code::Float2(Float2::Min, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::max_nan_f32 => Code::Float2(Float2::MaxNan, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::max_f32 => Code::Float2(Float2::Max, a.reg(0)?, a.s32(1)?, a.s32(2)?),
        Op::fma_rn_f32 => Code::Fma(a.reg(0)?, a.s32(1)?, a.s32(2)?, a.s32(3)?),
        Op::neg_f32 => Code::Float1(Float1::Neg, a.reg(0)?, a.s32(1)?),
        Op::abs_f32 => Code::Float1(Float1::Abs, a.reg(0)?, a.s32(1)?),
        Op::rcp_rn_f32 => Code::Float1(Float1::Inverse, a.reg(0)?, a.s32(1)?),
        Op::rcp_approx => Code::Float1(Float1::Rcp, a.reg(0)?, a.s32(1)?),
        Op::ex2_approx => Code::Float1(Float1::Ex2, a.reg(0)?, a.s32(1)?),
        Op::lg2_approx => Code::Float1(Float1::Lg2, a.reg(0)?, a.s32(1)?),
        Op::ld_param_b32 | Op::ld_param_f32 => Code::Param(a.reg(0)?, param(kernel, a.param(1)?)?),
        Op::ld_param_b64 => Code::Param64(a.reg(0)?, param(kernel, a.param(1)?)?),
        Op::ld_shared | Op::ld_shared_v => Code::LoadShared(a.moved(0)?, a.shared(1)?),
        Op::st_shared | Op::st_shared_v => Code::StoreShared(a.moved(1)?, a.shared(0)?),
        Op::ld_global | Op::ld_global_v => Code::LoadGlobal { regs: a.moved(0)?, at: a.global(1)?, constant: false },
        Op::ld_global_nc | Op::ld_global_nc_v | Op::ld_global_once_v => {
            Code::LoadGlobal { regs: a.moved(0)?, at: a.global(1)?, constant: true }
        }
        Op::st_global | Op::st_global_v => Code::StoreGlobal(a.moved(1)?, a.global(0)?),
        Op::ld_acquire => Code::LoadAcquire(a.reg(0)?, a.global(1)?),
        Op::st_release => Code::StoreRelease(a.reg(1)?, a.global(0)?),
        Op::atom_add => Code::Atomic(Atomic::Add, Some(a.reg(0)?), a.global(1)?, a.s32(2)?),
        Op::atom_inc => Code::Atomic(Atomic::Inc, Some(a.reg(0)?), a.global(1)?, a.s32(2)?),
        Op::atom_max => Code::Atomic(Atomic::Max, Some(a.reg(0)?), a.global(1)?, a.s32(2)?),
        Op::atom_exch => Code::Atomic(Atomic::Exchange, Some(a.reg(0)?), a.global(1)?, a.s32(2)?),
        Op::red_add => Code::Atomic(Atomic::Add, None, a.global(0)?, a.s32(1)?),
        Op::red_max => Code::Atomic(Atomic::Max, None, a.global(0)?, a.s32(1)?),
        Op::red_and => Code::Atomic(Atomic::And, None, a.global(0)?, a.s32(1)?),
        Op::fence_gpu => Code::FenceGpu,
        Op::stmatrix => Code::StoreMatrix { regs: a.regs(1)?, at: a.shared(0)?, transposed: false },
        Op::stmatrix_t => Code::StoreMatrix { regs: a.regs(1)?, at: a.shared(0)?, transposed: true },
        Op::ldmatrix => Code::LoadMatrix { regs: a.regs(0)?, at: a.shared(1)?, transposed: false },
        Op::ldmatrix_t => Code::LoadMatrix { regs: a.regs(0)?, at: a.shared(1)?, transposed: true },
        Op::shfl_sync | Op::shfl_sync_f => Code::Shuffle {
            mode: match qual(0) {
                "idx" => Shuffle::Idx,
                "bfly" => Shuffle::Bfly,
                "up" => Shuffle::Up,
                _ => Shuffle::Down,
            },
            d: a.reg(0)?,
            a: a.reg(1)?,
            b: a.s32(2)?,
            c: a.int(3)? as u32,
            mask: a.int(4)? as u32,
        },
        Op::vote_sync => Code::Vote { all: qual(0) == "all", d: a.reg(0)?, a: a.reg(1)?, mask: a.int(2)? as u32 },
        Op::elect_sync => Code::Elect { d: a.reg(1)?, mask: a.int(2)? as u32 },
        Op::bar_warp_sync => Code::SyncWarp(a.int(0)? as u32),
        Op::bar_sync_all => Code::Bar { id: a.s32(0)?, threads: None, wait: true },
        Op::bar_sync => Code::Bar { id: a.s32(0)?, threads: Some(a.s32(1)?), wait: true },
        Op::bar_arrive => Code::Bar { id: a.s32(0)?, threads: Some(a.s32(1)?), wait: false },
        Op::mbarrier_init => Code::BarrierInit { at: a.shared(0)?, count: a.int(1)? as u32 },
        Op::mbarrier_arrive => Code::BarrierArrive { at: a.shared(1)?, count: 1, bytes: None },
        Op::mbarrier_arrive_n => Code::BarrierArrive { at: a.shared(1)?, count: a.int(2)? as u32, bytes: None },
        Op::mbarrier_expect_tx => Code::BarrierArrive { at: a.shared(1)?, count: 1, bytes: Some(a.s32(2)?) },
        Op::mbarrier_try_wait => Code::BarrierWait { d: a.reg(0)?, at: a.shared(1)?, parity: a.s32(2)? },
        Op::fence_mbarrier_init => Code::FenceBarrierInit,
        Op::fence_proxy_async => Code::FenceAsync,
        Op::prefetch_tensormap => Code::Nothing,
        Op::tensor_load | Op::tensor_load_hint => {
            let (map, coords) = a.tensor(1)?;
            Code::Copy(Box::new(Copy { map, coords, shared: a.shared(0)?, barrier: Some(a.shared(2)?) }))
        }
        Op::tensor_store => {
            let (map, coords) = a.tensor(0)?;
            Code::Copy(Box::new(Copy { map, coords, shared: a.shared(1)?, barrier: None }))
        }
        Op::bulk_commit => Code::CopyCommit,
        Op::bulk_wait => Code::CopyWait { left: a.int(0)? as u32, read: false },
        Op::bulk_wait_read => Code::CopyWait { left: a.int(0)? as u32, read: true },
        Op::wgmma_fence => Code::ProductFence,
        Op::wgmma_commit => Code::ProductCommit,
        Op::wgmma_wait => Code::ProductWait { left: a.int(0)? as u32 },
        Op::wgmma_ss_bf16 | Op::wgmma_rs_bf16 => product(a, [Element::Half(Half::Bf16); 2])?,
        Op::wgmma_ss_f16 | Op::wgmma_rs_f16 => product(a, [Element::Half(Half::F16); 2])?,
        Op::wgmma_ss_f8 | Op::wgmma_rs_f8 => {
            product(a, [Element::Eight(Float8::of(qual(1))?), Element::Eight(Float8::of(qual(2))?)])?
        }
        Op::setmaxnreg => Code::SetRegisters { count: a.int(0)? as u32, inc: qual(0) == "inc" },
        Op::bra => match a.raw(0)? {
            Operand::Label(label) => Code::Branch(*labels.get(label.name())?),
            _ => return None,
        },
        Op::ret => Code::Return,
        _ => integer(a, wide)?,
    })
}

fn half(token: &str) -> Option<Half> {
    match token {
        "bf16" | "bf16x2" => Some(Half::Bf16),
        "f16" | "f16x2" => Some(Half::F16),
        _ => None,
    }
}

fn integer(a: &Args<'_>, wide: bool) -> Option<Code> {
    let signed = a.inst.quals.first().is_some_and(|q| q.starts_with('s'));
    let either = |unsigned, of_signed| if signed { of_signed } else { unsigned };
    let op = match a.inst.op {
        Op::add => Bin::Add,
        Op::sub => Bin::Sub,
        Op::mul_lo => Bin::Mul,
        Op::mul_hi => either(Bin::MulHiU, Bin::MulHiS),
        Op::div => either(Bin::DivU, Bin::DivS),
        Op::rem => either(Bin::RemU, Bin::RemS),
        Op::min => either(Bin::MinU, Bin::MinS),
        Op::max => either(Bin::MaxU, Bin::MaxS),
        Op::and => Bin::And,
        Op::or => Bin::Or,
        Op::xor => Bin::Xor,
        Op::shl => Bin::Shl,
        Op::shr => either(Bin::ShrU, Bin::ShrS),
        Op::mad_lo if wide => return Some(Code::Mad64(a.reg(0)?, a.s64(1)?, a.s64(2)?, a.s64(3)?)),
        Op::mad_lo => return Some(Code::Mad32(a.reg(0)?, a.s32(1)?, a.s32(2)?, a.s32(3)?)),
        Op::mul_wide_u32 => return Some(Code::MadWide(a.reg(0)?, a.s32(1)?, a.s32(2)?, S64::I(0))),
        Op::mad_wide_u32 => return Some(Code::MadWide(a.reg(0)?, a.s32(1)?, a.s32(2)?, a.s64(3)?)),
        _ => return None,
    };
    let shift = matches!(op, Bin::Shl | Bin::ShrU | Bin::ShrS);
    Some(match (wide, shift) {
        (true, true) => Code::Shift64(op, a.reg(0)?, a.s64(1)?, a.s32(2)?),
        (true, false) => Code::Bin64(op, a.reg(0)?, a.s64(1)?, a.s64(2)?),
        (false, _) => Code::Bin32(op, a.reg(0)?, a.s32(1)?, a.s32(2)?),
    })
}

fn compare(a: &Args<'_>, cmp: &str, num: &str) -> Option<Code> {
    let cmp = match cmp {
        "eq" => Cmp::Eq,
        "ne" => Cmp::Ne,
        "lt" => Cmp::Lt,
        "le" => Cmp::Le,
        "gt" => Cmp::Gt,
        _ => Cmp::Ge,
    };
    let num = match num {
        "u64" => return Some(Code::Setp64(cmp, a.reg(0)?, a.s64(1)?, a.s64(2)?)),
        "f32" => Num::Float,
        "s32" => Num::Signed,
        _ => Num::Unsigned,
    };
    Some(Code::Setp32(cmp, num, a.reg(0)?, a.s32(1)?, a.s32(2)?))
}

fn product(a: &Args<'_>, elements: [Element; 2]) -> Option<Code> {
    let columns = ptx::qual::mma_columns(a.inst.quals.first()?)? as usize;
    let at = |name: &str| a.inst.spec().operands.iter().position(|o| o.name == name);
    // A row without the immediate takes K-major operands alone.
    let transposed = |name: &str| at(name).map_or(Some(false), |i| Some(a.int(i)? != 0));
    let operand = match a.raw(1)? {
        Operand::Vector(_) => OperandA::Registers(a.regs(1).filter(|r| r.len() == 4)?),
        _ => OperandA::Shared { descriptor: a.reg(1)?, transposed: transposed("trans_a")? },
    };
    Some(Code::Product(Box::new(Product {
        columns,
        elements,
        d: a.regs(0).filter(|r| r.len() == columns / 2)?,
        a: operand,
        b: a.reg(2)?,
        b_transposed: transposed("trans_b")?,
        scale_d: a.sp(3)?,
        negate_a: a.int(4)? < 0,
        negate_b: a.int(5)? < 0,
    })))
}

fn special(operand: &Operand) -> Option<Special> {
    let Operand::Special(s) = operand else { return None };
    Some(match s {
        ptx::Special::TidX => Special::Tid,
        ptx::Special::NtidX => Special::Ntid,
        ptx::Special::CtaidX => Special::Ctaid,
        ptx::Special::NctaidX => Special::Nctaid,
        ptx::Special::LaneId => Special::Lane,
        // A launch without clusters: every CTA is a cluster of its own.
        ptx::Special::ClusterCtaRank => Special::Zero,
        _ => return None,
    })
}

fn param(kernel: &Kernel, name: &str) -> Option<usize> {
    kernel.params.iter().position(|p| p.name == name)
}
