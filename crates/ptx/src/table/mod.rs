//! The instruction table: what every row says, and how its mnemonic is filled in and recognised.
//! The rows themselves are in `rows`.

mod rows;

pub use rows::{Op, op};

use crate::module::Version;
use crate::reg::Class;

/// Whether an operand is read, written or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Read and written (an accumulator).
    Update,
}

/// State space of an address operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Shared memory of the CTA, 32-bit addresses.
    Shared,
    /// Global memory, 64-bit addresses.
    Global,
    /// Kernel parameters, by name.
    Param,
    /// A generic 64-bit address (of a tensor map).
    Generic,
}

/// How many registers a vector operand has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Len {
    /// Exactly so many.
    Fixed(usize),
    /// 2 or 4, by the `v2`/`v4` qualifier.
    Wide,
    /// 1, 2 or 4, by the `x1`/`x2`/`x4` qualifier.
    Matrices,
    /// N/2 for a wgmma shape with N columns: an f32 accumulator.
    Accumulator,
}

/// What may stand in an operand's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A register of the class.
    Reg(Class),
    /// A register of the class or an immediate.
    Src(Class),
    /// A register of the class that the type qualifier names.
    Typed,
    /// A register of that class or an immediate.
    TypedSrc,
    /// An integer immediate.
    Int,
    /// An address in the space.
    At(Space),
    /// A vector of registers of the class.
    Vec(Class, Len),
    /// A vector of registers of the class that the type qualifier names.
    TypedVec(Len),
    /// A tensor map with the coordinates of a box.
    Tensor,
    /// A branch target.
    Label,
    /// A special register.
    Special,
    /// A symbol as a value.
    Symbol,
    /// `_`.
    Sink,
}

/// Which proxy the instruction's memory accesses go through (PTX ISA, "Proxies").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proxy {
    /// Touches no memory.
    Nothing,
    /// Ordinary accesses.
    Generic,
    /// Tensor and bulk copies, and wgmma's reads of shared memory.
    Async,
}

/// How the completion of the instruction is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Completion {
    /// Complete when the next instruction of the thread runs.
    Now,
    /// By transaction bytes on an mbarrier.
    Mbarrier,
    /// By `cp.async.bulk.commit_group` and `wait_group` of the issuing thread.
    BulkGroup,
    /// By `wgmma.commit_group` and `wait_group` of the warpgroup.
    WgmmaGroup,
}

/// One operand of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperandSpec {
    /// The manual's name for it.
    pub name: &'static str,
    /// Read, written or both.
    pub access: Access,
    /// What may stand there.
    pub kind: Kind,
    /// Separated from the operand before it by `|` instead of a comma.
    pub piped: bool,
}

/// One row: everything known of an instruction.
#[derive(Debug)]
pub struct Spec {
    /// The mnemonic with `{slot}`s for its qualifiers.
    pub pattern: &'static str,
    /// The tokens that each slot takes, in order.
    pub slots: &'static [&'static [&'static str]],
    /// The operands, in order.
    pub operands: &'static [OperandSpec],
    /// The least PTX version.
    pub version: Version,
    /// True if only an architecture-specific target (`sm_90a`) has it.
    pub arch_specific: bool,
    /// The proxy of its memory accesses.
    pub proxy: Proxy,
    /// How its completion is observed.
    pub completion: Completion,
    /// The manual's section.
    pub section: &'static str,
}

impl Spec {
    /// The mnemonic with its slots filled in, in order.
    pub fn mnemonic_with(&self, quals: &[&str]) -> String {
        let mut out = String::with_capacity(self.pattern.len() + 8);
        let mut quals = quals.iter();
        for part in self.parts() {
            match part {
                Part::Text(t) => out.push_str(t),
                Part::Slot => out.push_str(quals.next().copied().unwrap_or("?")),
            }
        }
        out
    }

    /// The qualifier tokens of a mnemonic, if it is one of this row.
    pub fn match_mnemonic(&self, mnemonic: &str) -> Option<Vec<&'static str>> {
        fn go(
            parts: &[Part<'_>],
            slots: &[&'static [&'static str]],
            rest: &str,
            found: &mut Vec<&'static str>,
        ) -> bool {
            match parts.split_first() {
                None => rest.is_empty(),
                Some((Part::Text(t), tail)) => match rest.strip_prefix(t) {
                    Some(after) => go(tail, slots, after, found),
                    None => false,
                },
                Some((Part::Slot, tail)) => {
                    let Some((tokens, more)) = slots.split_first() else {
                        return false;
                    };
                    for token in *tokens {
                        if let Some(after) = rest.strip_prefix(token) {
                            found.push(token);
                            if go(tail, more, after, found) {
                                return true;
                            }
                            found.pop();
                        }
                    }
                    false
                }
            }
        }
        let mut found = Vec::new();
        let parts: Vec<Part<'_>> = self.parts().collect();
        go(&parts, self.slots, mnemonic, &mut found).then_some(found)
    }

    /// The register class that the type qualifier names, if the row has one.
    pub fn typed_class(&self, quals: &[&str]) -> Option<Class> {
        quals.iter().rev().find_map(|q| match *q {
            "b16" => Some(Class::B16),
            "u32" | "s32" | "b32" | "bf16x2" | "f16x2" => Some(Class::B32),
            "u64" | "s64" | "b64" => Some(Class::B64),
            "f32" => Some(Class::F32),
            "pred" => Some(Class::Pred),
            _ => None,
        })
    }

    /// The number of registers of a vector operand, given the qualifiers.
    pub fn vector_len(&self, len: Len, quals: &[&str]) -> Option<usize> {
        match len {
            Len::Fixed(n) => Some(n),
            Len::Wide | Len::Matrices => quals.iter().find_map(|q| match *q {
                "x1" => Some(1),
                "v2" | "x2" => Some(2),
                "v4" | "x4" => Some(4),
                _ => None,
            }),
            Len::Accumulator => quals.iter().find_map(|q| crate::qual::mma_columns(q)).map(|n| n as usize / 2),
        }
    }

    fn parts(&self) -> impl Iterator<Item = Part<'static>> {
        let mut rest = self.pattern;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            if let Some(after) = rest.strip_prefix('{') {
                let end = after.find('}').map_or(after.len(), |i| i + 1);
                rest = &after[end..];
                return Some(Part::Slot);
            }
            let end = rest.find('{').unwrap_or(rest.len());
            let (text, after) = rest.split_at(end);
            rest = after;
            Some(Part::Text(text))
        })
    }
}

enum Part<'a> {
    Text(&'a str),
    Slot,
}
