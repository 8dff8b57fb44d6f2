//! Module to text. Takes only what has been proven; the text is deterministic to the byte.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::module::{Kernel, Line, Module, Param, ParamKind, Region, RegionKind, Role};
use crate::reg::Class;

/// A module that has been judged right. `check::Verified` is the one implementation outside of this crate's tests
/// (the house test holds that), so it is the only road from a module to text.
pub trait Proven {
    /// The judged module.
    fn module(&self) -> &Module;
}

/// The PTX text of a proven module, ending in a newline.
pub fn print(proven: &impl Proven) -> String {
    let mut out = String::with_capacity(1 << 16);
    // Writing to a String cannot fail.
    let _ = module(&mut out, proven.module());
    out
}

fn module(out: &mut String, m: &Module) -> fmt::Result {
    for line in &m.header {
        writeln!(out, "//{}{line}", if line.is_empty() { "" } else { " " })?;
    }
    writeln!(out, ".version {}", m.version())?;
    writeln!(out, ".target {}", Module::TARGET)?;
    writeln!(out, ".address_size 64\n")?;
    if !m.kernel.shared.is_empty() {
        writeln!(out, ".extern .shared .align {} .b8 {}[];\n", Kernel::SHARED_ALIGN, Kernel::SHARED_SYMBOL)?;
    }
    kernel(out, &m.kernel)
}

fn kernel(out: &mut String, k: &Kernel) -> fmt::Result {
    writeln!(out, ".visible .entry {}(", k.name)?;
    for (i, p) in k.params.iter().enumerate() {
        param(out, p, i + 1 == k.params.len())?;
    }
    writeln!(out, ")\n.maxntid {}, 1, 1\n.minnctapersm {}\n{{", k.threads, k.min_ctas)?;
    k.shared.iter().try_for_each(|r| region(out, r))?;
    k.roles.iter().try_for_each(|r| role(out, r))?;
    registers(out, k)?;
    for line in &k.body {
        match line {
            Line::Inst(inst) => writeln!(out, "    {inst}")?,
            Line::Label(label) => writeln!(out, "{label}:")?,
            Line::Comment(text) => writeln!(out, "    // {text}")?,
            Line::Begin(Some(role)) => {
                let name = k.roles.get(*role).map_or("?", |r| r.name.as_str());
                writeln!(out, "\n    //@ begin {name}")?;
            }
            Line::Begin(None) => writeln!(out, "\n    //@ begin all")?,
        }
    }
    writeln!(out, "}}")
}

fn param(out: &mut String, p: &Param, last: bool) -> fmt::Result {
    let comma = if last { "" } else { "," };
    match &p.kind {
        ParamKind::U32 => writeln!(out, "    .param .u32 {}{comma}", p.name),
        ParamKind::U64 => writeln!(out, "    .param .u64 {}{comma}", p.name),
        ParamKind::F32 => writeln!(out, "    .param .f32 {}{comma}", p.name),
        ParamKind::Tensor(t) => {
            let dims: Vec<String> = t.box_dims.iter().map(u32::to_string).collect();
            writeln!(
                out,
                "    .param .align 64 .b8 {}[128]{comma} //@ tensor {} box {} swizzle {}",
                p.name,
                t.element.word(),
                dims.join("x"),
                t.swizzle.word()
            )
        }
    }
}

fn region(out: &mut String, r: &Region) -> fmt::Result {
    write!(out, "    //@ region {} at {} bytes {} stages {} ", r.name, r.offset, r.bytes, r.stages)?;
    match r.kind {
        RegionKind::Tile(s) => writeln!(out, "tile swizzle {}", s.word()),
        RegionKind::Barriers { arrivals } => writeln!(out, "barriers arrivals {arrivals}"),
        RegionKind::Words => writeln!(out, "words"),
    }
}

fn role(out: &mut String, r: &Role) -> fmt::Result {
    write!(out, "    //@ role {} warps {}..{}", r.name, r.warps.start, r.warps.end)?;
    match r.registers {
        Some(n) => writeln!(out, " registers {n}"),
        None => writeln!(out),
    }
}

/// Declares as many registers of each class as the body names.
fn registers(out: &mut String, k: &Kernel) -> fmt::Result {
    let mut counts: BTreeMap<Class, u32> = BTreeMap::new();
    for (_, inst) in k.insts() {
        for r in inst.reads().into_iter().chain(inst.writes()) {
            let n = counts.entry(r.class).or_default();
            *n = (*n).max(r.index + 1);
        }
    }
    for class in Class::ALL {
        if let Some(n) = counts.get(&class) {
            writeln!(out, "    .reg {} {}<{n}>;", class.ptx_type(), class.prefix())?;
        }
    }
    Ok(())
}
