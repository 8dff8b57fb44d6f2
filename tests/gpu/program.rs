//! Small programs, one for each form of instruction or fault: `tests/filetests/sim/*.ptx`, and how their heads are read.
//!
//! Comments at the head of a file are its launch, a line each:
//!
//! | line | meaning |
//! |---|---|
//! | `what TEXT` | what it is about |
//! | `grid N` | CTAs; 1 if it does not say |
//! | `input NAME TYPE COUNT PATTERN [SEED]` | a buffer that is read; TYPE u16, u32, f32, bf16, f16, e4m3 or e5m2 |
//! | `both NAME TYPE COUNT PATTERN [SEED]` | a buffer that is read and written |
//! | `output NAME BYTES` | a buffer that is written, 0xff before |
//! | `partial BUFFER` | an output of which some bytes stay as they were |
//! | `pointer PARAM BUFFER` | an argument |
//! | `u32 PARAM VALUE` | an argument |
//! | `tensor PARAM BUFFER dims D... strides S...` | a tensor map; strides in bytes, of all dimensions but the first |
//! | `tolerance BUFFER ULPS` | singles that another machine may round otherwise, by so many units of the last place |
//! | `sums truncated` | products of 8-bit elements are added up as the chip does |
//! | `finding KIND...` | the machine must find this, or one of these |
//! | `result BUFFER HASH` | FNV-1a of the buffer afterwards; `TILEWRIGHT_BLESS=1` writes these lines |
//!
//! Patterns: `zeros`, `words` (any bits), `floats` (singles of every class, as bits), `noise` (-1 to 1), `small` (whole
//! numbers of -8 to 8, whose sums are exact in any order).
//!
//! Knows the machine's launch, and nothing of the driver.

use ptx::parse;
use sim::{Float8, Launch, Sums, Tensor};

/// Classes of singles: zeros, subnormals, the least and the greatest normal numbers, infinities, no number, ties.
const FLOATS: [u32; 16] = [
    0,
    0x8000_0000,
    1,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fff_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x3f80_8000,
    0x3f81_8000,
    0x477f_efff,
    0x477f_f000,
    0x3880_0001,
];

/// A program with its launch.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file's name, without `.ptx`.
    pub name: String,
    /// What is run.
    pub module: ptx::Module,
    /// CTAs.
    pub grid: u32,
    /// Global memory, in the order of the file.
    pub buffers: Vec<Buffer>,
    /// Arguments by the names of the parameters.
    pub arguments: Vec<(String, Argument)>,
    /// How products of 8-bit elements are added up.
    pub sums: Sums,
    /// What must be found; nothing if it is empty.
    pub findings: Vec<String>,
}

/// A buffer in global memory.
#[derive(Debug, Clone)]
pub struct Buffer {
    /// Its name.
    pub name: String,
    /// What it holds before.
    pub bytes: Vec<u8>,
    /// What the program does with it.
    pub access: Access,
    /// What it must hold afterwards, by [`hash`]. Nothing of what is only read.
    pub result: Option<u64>,
    /// By how many units of the last place its singles may differ between machines.
    pub ulps: u32,
}

/// What a program does with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Input,
    /// Writes it.
    Output,
    /// Both.
    Both,
}

/// An argument.
#[derive(Debug, Clone)]
pub enum Argument {
    /// The address of a buffer.
    Pointer(String),
    /// A number.
    U32(u32),
    /// A tensor map over a buffer.
    Tensor(Tensor),
}

fn words(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    }
}

fn eight(ty: &str) -> Option<Float8> {
    match ty {
        "e4m3" => Some(Float8::E4m3),
        "e5m2" => Some(Float8::E5m2),
        _ => None,
    }
}

fn fill(ty: &str, count: usize, pattern: &str, seed: u32) -> Option<Vec<u8>> {
    let mut word = words(seed);
    let value = |w: u32| match pattern {
        "noise" => (w >> 8) as f32 / (1 << 23) as f32 - 1.0,
        _ => (w >> 8) as f32 % 17.0 - 8.0,
    };
    let mut out = Vec::new();
    for i in 0..count {
        let w = word();
        let bits = match (pattern, ty) {
            ("zeros", _) => 0,
            ("words", _) => w,
            // Each class once, then any bits that are a number of middling size.
            ("floats", _) => *FLOATS.get((i + seed as usize * 5) % 24).unwrap_or(&(w & 0x80ff_ffff | 0x3f00_0000)),
            ("noise" | "small", "f32") => value(w).to_bits(),
            ("noise" | "small", "bf16") => u32::from(half::bf16::from_f32(value(w)).to_bits()),
            ("noise" | "small", "f16") => u32::from(half::f16::from_f32(value(w)).to_bits()),
            ("noise" | "small", _) => u32::from(eight(ty)?.of_single(value(w))),
            _ => return None,
        };
        let width = match ty {
            "u16" | "bf16" | "f16" => 2,
            _ if eight(ty).is_some() => 1,
            _ => 4,
        };
        out.extend_from_slice(&bits.to_le_bytes()[..width]);
    }
    Some(out)
}

fn tensor(words: &[&str]) -> Option<Tensor> {
    let [buffer, "dims", rest @ ..] = words else { return None };
    let strides = rest.iter().position(|w| *w == "strides")?;
    let numbers = |words: &[&str]| words.iter().map(|w| w.parse().ok()).collect::<Option<Vec<u64>>>();
    Some(Tensor {
        buffer: (*buffer).to_owned(),
        dims: numbers(&rest[..strides])?,
        strides: numbers(&rest[strides + 1..])?,
    })
}

impl Program {
    /// Reads the text of a file of that name. One that is not understood is a fault of the tests.
    pub fn read(name: &str, text: &str) -> Program {
        let module = parse::module(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let header = module.header.clone();
        let mut program = Program {
            name: name.to_owned(),
            module,
            grid: 1,
            buffers: Vec::new(),
            arguments: Vec::new(),
            sums: Sums::Single,
            findings: Vec::new(),
        };
        // What names a buffer may stand before it.
        let (later, first): (Vec<&String>, Vec<&String>) =
            header.iter().partition(|line| line.starts_with("tolerance ") || line.starts_with("partial "));
        for line in first.into_iter().chain(later) {
            let words: Vec<&str> = line.split_whitespace().collect();
            program.line(&words).unwrap_or_else(|| panic!("{name}: `{line}` is not understood"));
        }
        program
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["what", ..] => {}
            ["grid", ctas] => self.grid = ctas.parse().ok()?,
            [kind @ ("input" | "both"), name, ty, count, pattern, seed @ ..] => {
                let seed = seed.first().map_or(Some(0), |s| s.parse().ok())?;
                let access = if *kind == "both" { Access::Both } else { Access::Input };
                self.buffer(name, access, fill(ty, count.parse().ok()?, pattern, seed)?);
            }
            ["output", name, bytes] => self.buffer(name, Access::Output, vec![0xff; bytes.parse().ok()?]),
            ["partial", name] => drop(self.written(name)?),
            ["tolerance", name, ulps] => self.written(name)?.ulps = ulps.parse().ok()?,
            ["result", name, hash] => self.written(name)?.result = Some(u64::from_str_radix(hash, 16).ok()?),
            ["pointer", param, buffer] => {
                self.arguments.push(((*param).to_owned(), Argument::Pointer((*buffer).to_owned())));
            }
            ["u32", param, value] => self.arguments.push(((*param).to_owned(), Argument::U32(value.parse().ok()?))),
            ["tensor", param, rest @ ..] => self.arguments.push(((*param).to_owned(), Argument::Tensor(tensor(rest)?))),
            ["sums", "truncated"] => self.sums = Sums::Truncated,
            ["finding", kinds @ ..] => self.findings = kinds.iter().map(|&kind| kind.to_owned()).collect(),
            _ => return None,
        }
        Some(())
    }

    fn buffer(&mut self, name: &str, access: Access, bytes: Vec<u8>) {
        self.buffers.push(Buffer { name: name.to_owned(), bytes, access, result: None, ulps: 0 });
    }

    fn written(&mut self, name: &str) -> Option<&mut Buffer> {
        self.buffers.iter_mut().find(|b| b.name == name && b.access != Access::Input)
    }

    /// The buffers that are written, and so compared.
    pub fn results(&self) -> impl Iterator<Item = &Buffer> {
        self.buffers.iter().filter(|b| b.access != Access::Input)
    }

    /// The launch on the machine.
    pub fn launch(&self) -> Launch {
        let launch = self.buffers.iter().fold(Launch::new(self.grid), |launch, b| match b.access {
            Access::Input => launch.input(&b.name, b.bytes.clone()),
            Access::Output => launch.output(&b.name, b.bytes.len()),
            Access::Both => launch.both(&b.name, b.bytes.clone()),
        });
        self.arguments.iter().fold(launch, |launch, (param, argument)| match argument {
            Argument::Pointer(buffer) => launch.pointer(param, buffer),
            Argument::U32(value) => launch.u32(param, *value),
            Argument::Tensor(tensor) => launch.tensor(param, tensor.clone()),
        })
    }

    /// A buffer of 16-bit or 8-bit numbers, as it is before.
    pub fn numbers(&self, buffer: &str) -> Option<Vec<f64>> {
        let ty = self
            .module
            .header
            .iter()
            .find_map(|line| line.strip_prefix("input ")?.strip_prefix(buffer)?.split(' ').nth(1))?;
        let found = self.buffers.iter().find(|b| b.name == buffer)?;
        if let Some(format) = eight(ty) {
            return Some(found.bytes.iter().map(|&bits| f64::from(format.to_single(bits))).collect());
        }
        let value = |b: &[u8]| match ty {
            "f16" => half::f16::from_le_bytes([b[0], b[1]]).to_f64(),
            _ => half::bf16::from_le_bytes([b[0], b[1]]).to_f64(),
        };
        Some(found.bytes.chunks_exact(2).map(value).collect())
    }
}

macro_rules! embedded {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../filetests/sim/", $name, ".ptx")))),*]
    };
}

/// The programs in which nothing is to be found, by name, so that a suite needs no file beside it.
pub const CLEAN: &[(&str, &str)] = embedded![
    "approximate"
    "atomics"
    "barriers"
    "bytes"
    "compare"
    "convert"
    "convert_eight"
    "copy_swizzle_128"
    "copy_swizzle_32"
    "copy_swizzle_64"
    "copy_swizzle_none"
    "diverge"
    "floats"
    "handed_over"
    "integers"
    "matrices"
    "maxima"
    "pairs"
    "registers"
    "shuffle"
    "singles"
    "transpose_eight"
    "truncated_e4m3"
    "truncated_e5m2"
    "vectors"
    "wgmma_negated"
    "wgmma_negated_eight"
    "wgmma_rs_bf16"
    "wgmma_rs_e4m3"
    "wgmma_rs_e5m2"
    "wgmma_rs_f16"
    "wgmma_ss_bf16_n128"
    "wgmma_ss_bf16_n8"
    "wgmma_ss_bf16_transposed"
    "wgmma_ss_e4m3_n136"
    "wgmma_ss_e4m3_n8"
    "wgmma_ss_e5m2_n24"
    "wgmma_ss_f16_n128"
    "wgmma_ss_f16_n8"
    "wgmma_ss_f16_transposed"
    "wgmma_wide"
    "wide_integers"
];
