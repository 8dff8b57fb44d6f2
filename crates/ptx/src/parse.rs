//! Text to module: reads back what `print` prints, and says on which line it could not.
//! It reads one statement a line and is no general PTX parser.

use std::fmt;
use std::ops::Range;

use crate::inst::{Guard, Inst};
use crate::module::{
    Kernel, Label, Line, Module, Param, ParamKind, Region, RegionKind, Role, Swizzle, TensorElement, TensorMap,
};
use crate::operand::{Address, Base, Operand, Special};
use crate::reg::{Class, Pred, Reg};
use crate::table::{Kind, Op, Spec};

/// Where and why the text could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// What was not understood.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Reads a printed module.
///
/// # Errors
/// The first line that is no line of a printed module.
pub fn module(text: &str) -> Result<Module, ParseError> {
    let mut m = Module {
        header: Vec::new(),
        kernel: Kernel {
            name: String::new(),
            params: Vec::new(),
            threads: 0,
            min_ctas: 0,
            shared: Vec::new(),
            roles: Vec::new(),
            body: Vec::new(),
        },
    };
    let mut in_header = true;
    for (i, raw) in text.lines().enumerate() {
        let mut line = raw.trim();
        if in_header && let Some(comment) = line.strip_prefix("//") {
            m.header.push(comment.strip_prefix(' ').unwrap_or(comment).to_owned());
            continue;
        }
        in_header = false;
        if line.is_empty() || line == "{" || line == "}" || line == ")" {
            continue;
        }
        statement(&mut m.kernel, &mut line)
            .ok_or_else(|| ParseError { line: i + 1, message: format!("not understood: `{}`", raw.trim()) })?;
    }
    Ok(m)
}

fn statement(k: &mut Kernel, line: &mut &str) -> Option<()> {
    if let Some(meta) = line.strip_prefix("//@ ") {
        return metadata(k, meta);
    }
    if let Some(comment) = line.strip_prefix("//") {
        k.body.push(Line::Comment(comment.strip_prefix(' ').unwrap_or(comment).to_owned()));
        return Some(());
    }
    if line.starts_with('.') {
        return directive(k, line);
    }
    if let Some(label) = line.strip_suffix(':') {
        k.body.push(Line::Label(Label::new(label)));
        return Some(());
    }
    k.body.push(Line::Inst(inst(line)?));
    Some(())
}

fn directive(k: &mut Kernel, line: &str) -> Option<()> {
    let mut words = line.split_whitespace();
    match words.next()? {
        ".version" | ".target" | ".address_size" | ".extern" | ".reg" => {}
        ".visible" => k.name = words.nth(1)?.strip_suffix('(')?.to_owned(),
        ".maxntid" => k.threads = words.next()?.strip_suffix(',')?.parse().ok()?,
        ".minnctapersm" => k.min_ctas = words.next()?.parse().ok()?,
        ".param" => k.params.push(param(line)?),
        _ => return None,
    }
    Some(())
}

fn param(line: &str) -> Option<Param> {
    let (declaration, meta) = line.split_once("//@").map_or((line, ""), |(a, b)| (a, b));
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let last = words.last()?.trim_end_matches(',');
    let kind = match *words.get(1)? {
        ".u32" => ParamKind::U32,
        ".u64" => ParamKind::U64,
        ".f32" => ParamKind::F32,
        ".align" => {
            let meta: Vec<&str> = meta.split_whitespace().collect();
            let ["tensor", element, "box", dims, "swizzle", swizzle] = meta[..] else {
                return None;
            };
            ParamKind::Tensor(TensorMap {
                element: TensorElement::from_word(element)?,
                box_dims: dims.split('x').map(|d| d.parse().ok()).collect::<Option<_>>()?,
                swizzle: Swizzle::from_word(swizzle)?,
            })
        }
        _ => return None,
    };
    let name = last.strip_suffix("[128]").unwrap_or(last).to_owned();
    Some(Param { name, kind })
}

fn metadata(k: &mut Kernel, meta: &str) -> Option<()> {
    let words: Vec<&str> = meta.split_whitespace().collect();
    match words[..] {
        ["region", name, "at", offset, "bytes", bytes, "stages", stages, ref kind @ ..] => k.shared.push(Region {
            name: name.to_owned(),
            offset: offset.parse().ok()?,
            bytes: bytes.parse().ok()?,
            stages: stages.parse().ok()?,
            kind: match kind {
                ["tile", "swizzle", s] => RegionKind::Tile(Swizzle::from_word(s)?),
                ["barriers", "arrivals", n] => RegionKind::Barriers { arrivals: n.parse().ok()? },
                ["words"] => RegionKind::Words,
                _ => return None,
            },
        }),
        ["role", name, "warps", warps, ref registers @ ..] => k.roles.push(Role {
            name: name.to_owned(),
            warps: range(warps)?,
            registers: match registers {
                [] => None,
                ["registers", n] => Some(n.parse().ok()?),
                _ => return None,
            },
        }),
        ["begin", "all"] => k.body.push(Line::Begin(None)),
        ["begin", name] => {
            let role = k.roles.iter().position(|r| r.name == name)?;
            k.body.push(Line::Begin(Some(role)));
        }
        _ => return None,
    }
    Some(())
}

fn range(text: &str) -> Option<Range<u32>> {
    let (a, b) = text.split_once("..")?;
    Some(a.parse().ok()?..b.parse().ok()?)
}

/// Reads one printed instruction, `;` included.
pub fn inst(text: &str) -> Option<Inst> {
    let text = text.trim().strip_suffix(';')?;
    let (guard, text) = match text.strip_prefix('@') {
        Some(rest) => {
            let (pred, rest) = rest.split_once(' ')?;
            let (negated, pred) = pred.strip_prefix('!').map_or((false, pred), |p| (true, p));
            let r = reg(pred).filter(|r| r.class == Class::Pred)?;
            (Some(Guard { pred: Pred::new(r.index), negated }), rest.trim_start())
        }
        None => (None, text),
    };
    let (mnemonic, rest) = text.split_once(' ').unwrap_or((text, ""));
    let args = split(rest).into_iter().map(operand).collect::<Option<Vec<Operand>>>()?;
    Op::ALL.iter().find_map(|&op| {
        let spec = op.spec();
        let quals = spec.match_mnemonic(mnemonic)?;
        let args = fit(spec, &quals, &args)?;
        Some(Inst { op, quals, args, guard })
    })
}

/// The operands as this row takes them, if it does. A bare name is a label or a symbol by the row's word.
fn fit(spec: &Spec, quals: &[&str], args: &[Operand]) -> Option<Vec<Operand>> {
    if spec.operands.len() != args.len() {
        return None;
    }
    spec.operands
        .iter()
        .zip(args)
        .map(|(o, arg)| {
            let class = |want: Option<Class>, arg: &Operand| match arg {
                Operand::Reg(r) => want == Some(r.class),
                Operand::Int(_) => true,
                Operand::Float(_) => want == Some(Class::F32),
                _ => false,
            };
            let is_reg = matches!(arg, Operand::Reg(_));
            let ok = match o.kind {
                Kind::Reg(c) => is_reg && class(Some(c), arg),
                Kind::Src(c) => class(Some(c), arg),
                Kind::Typed => is_reg && class(spec.typed_class(quals), arg),
                Kind::TypedSrc => class(spec.typed_class(quals), arg),
                Kind::Int => matches!(arg, Operand::Int(_)),
                Kind::At(_) => matches!(arg, Operand::Address(_)),
                Kind::Vec(..) | Kind::TypedVec(_) => matches!(arg, Operand::Vector(_)),
                Kind::Tensor => matches!(arg, Operand::Tensor { .. }),
                Kind::Special => matches!(arg, Operand::Special(_)),
                Kind::Sink => matches!(arg, Operand::Sink),
                Kind::Symbol => matches!(arg, Operand::Symbol(_)),
                Kind::Label => {
                    let Operand::Symbol(name) = arg else {
                        return None;
                    };
                    return Some(Operand::Label(Label::new(name)));
                }
            };
            ok.then(|| arg.clone())
        })
        .collect()
}

/// Splits at commas and bars outside of brackets and braces.
fn split(text: &str) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0u32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            ',' | '|' if depth == 0 => {
                out.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        out.push(text[start..].trim());
    }
    out
}

fn reg(text: &str) -> Option<Reg> {
    // `%rd` before `%r`: the longer prefix first.
    [Class::B64, Class::B32, Class::F32, Class::Pred, Class::B16].into_iter().find_map(|class| {
        let index = text.strip_prefix(class.prefix())?.parse().ok()?;
        Some(Reg { class, index })
    })
}

fn operand(text: &str) -> Option<Operand> {
    if text == "_" {
        return Some(Operand::Sink);
    }
    if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        return Some(Operand::Vector(split(inner).into_iter().map(reg).collect::<Option<_>>()?));
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return bracketed(inner);
    }
    if let Some(hex) = text.strip_prefix("0f") {
        return u32::from_str_radix(hex, 16).ok().map(Operand::Float);
    }
    if let Ok(v) = text.parse() {
        return Some(Operand::Int(v));
    }
    if let Some(s) = Special::ALL.into_iter().find(|s| s.name() == text) {
        return Some(Operand::Special(s));
    }
    if text.starts_with('%') {
        return reg(text).map(Operand::Reg);
    }
    Some(Operand::Symbol(text.to_owned()))
}

fn bracketed(inner: &str) -> Option<Operand> {
    if let [map, coords] = split(inner)[..] {
        let coords = coords.strip_prefix('{')?.strip_suffix('}')?;
        let coords = split(coords).into_iter().map(operand).collect::<Option<_>>()?;
        return Some(Operand::Tensor { map: reg(map)?, coords });
    }
    let (base, offset) = match inner.split_once('+') {
        Some((base, offset)) => (base, offset.parse().ok()?),
        None => (inner, 0),
    };
    let base = if base.starts_with('%') { Base::Reg(reg(base)?) } else { Base::Symbol(base.to_owned()) };
    Some(Operand::Address(Address { base, offset }))
}
