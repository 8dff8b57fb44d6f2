//! `generated/manifest.toml`: what each kernel holds, counted from the module and not from its text.

use crate::house::hash;
use anyhow::{Context, Result};
use ptx::{Completion, Module, Op, Operand, RegionKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const HEAD: &str = "# What the kernels of this folder hold; written by cargo xtask gen.\n\n";

/// All entries, by name.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// One a kernel.
    #[serde(default)]
    pub kernel: Vec<Entry>,
}

/// One kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The kernel's name; its file is `<name>.ptx`.
    pub name: String,
    /// Hash of the schedule's text.
    pub schedule: String,
    /// Hash of the file.
    pub file: String,
    /// Length of the file in bytes.
    pub bytes: usize,
    /// Threads of a block.
    pub threads: u32,
    /// mbarriers in shared memory.
    pub mbarriers: u32,
    /// Named barriers whose number stands in the code.
    pub named_barriers: Vec<i64>,
    /// Operations on named barriers whose number is computed.
    pub computed_barriers: usize,
    /// Registers per thread that each role asks for; absent where it keeps those of the entry.
    pub registers: BTreeMap<String, u32>,
    /// Bytes of shared memory by region, all stages, and in all.
    pub shared: BTreeMap<String, u32>,
    /// Instructions in the text, by kind.
    pub instructions: Counts,
}

/// How often each kind of instruction stands in the text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// All of them.
    pub all: usize,
    /// Matrix products of a warpgroup.
    pub wgmma: usize,
    /// Tensor copies, loads and stores.
    pub tensor_copies: usize,
    /// Base-2 exponentials.
    pub ex2: usize,
    /// Operations on mbarriers.
    pub mbarrier: usize,
    /// Operations on named barriers.
    pub named_barrier: usize,
}

impl Manifest {
    /// Reads a manifest.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("generated/manifest.toml is unreadable; mend: cargo xtask gen")
    }

    /// The manifest's text.
    pub fn text(&self) -> Result<String> {
        Ok(format!("{HEAD}{}", toml::to_string(self)?))
    }
}

impl Entry {
    /// The entry of a kernel that was printed to `text`, by the hash of its schedule.
    pub fn new(schedule: u64, module: &Module, text: &str) -> Self {
        let kernel = &module.kernel;
        let mut shared: BTreeMap<String, u32> =
            kernel.shared.iter().map(|region| (region.name.clone(), region.bytes)).collect();
        shared.insert("total".to_owned(), kernel.shared_bytes());
        let barriers = kernel.shared.iter().filter(|region| matches!(region.kind, RegionKind::Barriers { .. }));
        let registers =
            kernel.roles.iter().filter_map(|role| role.registers.map(|count| (role.name.clone(), count))).collect();
        let stated: BTreeSet<i64> = barrier_numbers(module)
            .filter_map(|number| if let Operand::Int(number) = number { Some(*number) } else { None })
            .collect();
        Self {
            name: kernel.name.clone(),
            schedule: format!("{schedule:016x}"),
            file: hash(text.as_bytes()),
            bytes: text.len(),
            threads: kernel.threads,
            mbarriers: barriers.map(|region| region.bytes / schedule::target::MBARRIER_BYTES as u32).sum(),
            named_barriers: stated.into_iter().collect(),
            computed_barriers: barrier_numbers(module).filter(|number| !matches!(number, Operand::Int(_))).count(),
            registers,
            shared,
            instructions: Counts::of(module),
        }
    }
}

impl Counts {
    fn of(module: &Module) -> Self {
        let mut counts = Self::default();
        for (_, inst) in module.kernel.insts() {
            counts.all += 1;
            let of_kind = match inst.op {
                Op::ex2_approx => &mut counts.ex2,
                op if is_mbarrier(op) => &mut counts.mbarrier,
                op if is_named_barrier(op) => &mut counts.named_barrier,
                op if op.spec().completion == Completion::WgmmaGroup => &mut counts.wgmma,
                _ if inst.args.iter().any(|arg| matches!(arg, Operand::Tensor { .. })) => &mut counts.tensor_copies,
                _ => continue,
            };
            *of_kind += 1;
        }
        counts
    }
}

fn is_mbarrier(op: Op) -> bool {
    matches!(
        op,
        Op::mbarrier_init
            | Op::mbarrier_arrive
            | Op::mbarrier_arrive_n
            | Op::mbarrier_expect_tx
            | Op::mbarrier_try_wait
    )
}

fn is_named_barrier(op: Op) -> bool {
    matches!(op, Op::bar_sync_all | Op::bar_sync | Op::bar_arrive)
}

/// The first operand of every operation on a named barrier.
fn barrier_numbers(module: &Module) -> impl Iterator<Item = &Operand> {
    module.kernel.insts().filter(|(_, inst)| is_named_barrier(inst.op)).filter_map(|(_, inst)| inst.args.first())
}

#[cfg(test)]
mod tests {
    use super::{Entry, Manifest};
    use ptx::{Kernel, Line, Module, R32, Region, RegionKind, Role, op};

    fn module() -> Module {
        let lines = [op::bar_sync_all(0), op::bar_sync(3, 128), op::bar_arrive(R32::new(0), 128), op::ret()];
        Module {
            header: Vec::new(),
            kernel: Kernel {
                name: "k".into(),
                params: Vec::new(),
                threads: 256,
                min_ctas: 1,
                shared: vec![
                    Region { name: "q".into(), offset: 0, bytes: 2048, stages: 2, kind: RegionKind::Words },
                    Region {
                        name: "full".into(),
                        offset: 2048,
                        bytes: 16,
                        stages: 2,
                        kind: RegionKind::Barriers { arrivals: 1 },
                    },
                ],
                roles: vec![
                    Role { name: "producer".into(), warps: 0..4, registers: Some(24) },
                    Role { name: "rest".into(), warps: 4..8, registers: None },
                ],
                body: lines.into_iter().map(Line::Inst).collect(),
            },
        }
    }

    fn entry() -> Entry {
        let schedule = templates::all().into_iter().next().expect("a schedule ships");
        Entry::new(schedule.hash(), &module(), "text")
    }

    #[test]
    fn an_entry_counts_what_the_module_holds() {
        let entry = entry();
        assert_eq!((entry.bytes, entry.threads, entry.mbarriers), (4, 256, 2));
        assert_eq!((entry.named_barriers, entry.computed_barriers), (vec![0, 3], 1));
        assert_eq!((entry.instructions.all, entry.instructions.named_barrier), (4, 3));
        assert_eq!(entry.registers.into_iter().collect::<Vec<_>>(), [("producer".to_owned(), 24)]);
        assert_eq!(entry.shared.get("total"), Some(&2064));
    }

    #[test]
    fn the_text_reads_back() {
        let manifest = Manifest { kernel: vec![entry()] };
        let text = manifest.text().expect("a manifest serialises");
        assert_eq!(Manifest::parse(&text).expect("its text parses"), manifest);
        assert!(Manifest::parse("kernel = 3").is_err());
    }
}
