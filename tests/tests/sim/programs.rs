//! Small programs, one for each form of instruction or fault: `tests/filetests/sim/*.ptx`.
//!
//! Comments at the head of a file are its launch, a line each:
//!
//! | line | meaning |
//! |---|---|
//! | `what TEXT` | what it is about |
//! | `grid N` | CTAs; 1 if it does not say |
//! | `input NAME TYPE COUNT PATTERN [SEED]` | a buffer that is read; TYPE u16, u32, f32, bf16 or f16 |
//! | `both NAME TYPE COUNT PATTERN [SEED]` | a buffer that is read and written |
//! | `output NAME BYTES` | a buffer that is written, 0xff before |
//! | `pointer PARAM BUFFER` | an argument |
//! | `tensor PARAM BUFFER dims D... strides S...` | a tensor map; strides in bytes, of all dimensions but the first |
//! | `tolerance BUFFER ULPS` | singles that another machine may round otherwise |
//! | `finding KIND...` | the machine must find this, or one of these |
//! | `result BUFFER HASH` | FNV-1a of the buffer afterwards; `TILEWRIGHT_BLESS=1` writes these lines |
//!
//! Patterns: `zeros`, `words` (any bits), `floats` (singles of every class, as bits), `noise` (-1 to 1), `small` (whole
//! numbers of -8 to 8, whose sums are exact in any order).

use ptx::parse;
use sim::{Failure, Launch, Machine, Options, Policy, Tensor};
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "filetests/sim";

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
pub struct Program {
    pub path: PathBuf,
    pub text: String,
    pub module: ptx::Module,
    pub launch: Launch,
    /// What must be found; nothing if it is empty.
    pub findings: Vec<String>,
    /// Buffers that are compared, with their recorded hashes.
    pub results: Vec<(String, Option<u64>)>,
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
            _ => return None,
        };
        let width = if matches!(ty, "u16" | "bf16" | "f16") { 2 } else { 4 };
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
    /// Reads a file.
    pub fn read(path: &Path) -> Program {
        let text = fs::read_to_string(path).expect("the file reads");
        let module = parse::module(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let grid = module.header.iter().find_map(|l| l.strip_prefix("grid ")?.parse().ok()).unwrap_or(1);
        let mut program = Program {
            path: path.to_owned(),
            text,
            module,
            launch: Launch::new(grid),
            findings: Vec::new(),
            results: Vec::new(),
        };
        for line in program.module.header.clone() {
            let words: Vec<&str> = line.split_whitespace().collect();
            program.line(&words).unwrap_or_else(|| panic!("{}: `{line}` is not understood", path.display()));
        }
        program
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        let launch = std::mem::take(&mut self.launch);
        self.launch = match words {
            ["what", ..] | ["grid" | "tolerance", ..] | ["partial", _] => launch,
            [kind @ ("input" | "both"), name, ty, count, pattern, seed @ ..] => {
                let seed = seed.first().map_or(Some(0), |s| s.parse().ok())?;
                let bytes = fill(ty, count.parse().ok()?, pattern, seed)?;
                if *kind == "both" {
                    self.results.push(((*name).to_owned(), None));
                    launch.both(name, bytes)
                } else {
                    launch.input(name, bytes)
                }
            }
            ["output", name, bytes] => {
                self.results.push(((*name).to_owned(), None));
                launch.output(name, bytes.parse().ok()?)
            }
            ["pointer", param, buffer] => launch.pointer(param, buffer),
            ["tensor", param, rest @ ..] => launch.tensor(param, tensor(rest)?),
            ["finding", kinds @ ..] => {
                self.findings = kinds.iter().map(|&kind| kind.to_owned()).collect();
                launch
            }
            ["result", name, hash] => {
                let result = self.results.iter_mut().find(|(n, _)| n == name)?;
                result.1 = Some(u64::from_str_radix(hash, 16).ok()?);
                launch
            }
            _ => return None,
        };
        Some(())
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

fn programs() -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).expect("the folder reads").flatten().map(|e| e.path()).collect();
    paths.sort();
    paths.iter().map(|path| Program::read(path)).collect()
}

fn bless(program: &Program, found: &[(String, u64)]) {
    let rest = program.text.lines().filter(|l| !l.starts_with("// result "));
    let (head, body): (Vec<&str>, Vec<&str>) = rest.partition(|l| l.starts_with("// "));
    let results = found.iter().map(|(name, hash)| format!("// result {name} {hash:016x}"));
    let lines: Vec<String> =
        head.into_iter().map(str::to_owned).chain(results).chain(body.into_iter().map(str::to_owned)).collect();
    fs::write(&program.path, lines.join("\n") + "\n").expect("the file writes");
}

#[test]
fn small_programs_give_what_they_gave_before() {
    let policies = [Policy::Orderly, Policy::Random, Policy::Late, Policy::Early];
    for program in programs() {
        let name = program.path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut kinds = Vec::new();
        for seed in 0..12 {
            let options = Options { policy: policies[seed as usize % 4], ..Options::seeded(seed) };
            match (Machine::run_kernel(&program.module.kernel, &program.launch, &options), &program.findings[..]) {
                (Ok(report), []) => {
                    let of = |buffer: &String| hash(report.buffer(buffer).expect("a buffer of the launch"));
                    let found: Vec<(String, u64)> = program.results.iter().map(|(n, _)| (n.clone(), of(n))).collect();
                    if seed == 0 && std::env::var_os("TILEWRIGHT_BLESS").is_some() {
                        bless(&program, &found);
                        break;
                    }
                    for ((buffer, was), (_, is)) in program.results.iter().zip(&found) {
                        assert_eq!(*was, Some(*is), "{name} seed {seed}: {buffer} changed");
                    }
                }
                (Ok(_), _) => {}
                (Err(Failure::Found(found)), [_, ..]) => kinds.push(format!("{:?}", found.finding.kind)),
                (Err(failure), _) => panic!("{name} seed {seed}: {failure}"),
            }
        }
        if let wanted @ [_, ..] = &program.findings[..] {
            assert!(!kinds.is_empty(), "{name}: nothing was found");
            assert!(kinds.iter().all(|kind| wanted.contains(kind)), "{name}: {kinds:?}, not {wanted:?}");
        }
    }
}

/// A buffer of 16-bit numbers, as the file says it is filled.
fn numbers(program: &Program, buffer: &str) -> Vec<f64> {
    let line = |l: &String| l.strip_prefix(&format!("input {buffer} ")).map(str::to_owned);
    let line = program.module.header.iter().find_map(line).expect("an input");
    let words: Vec<&str> = line.split_whitespace().collect();
    let [ty, count, pattern, seed] = words[..] else { panic!("{line}") };
    let bytes = fill(ty, count.parse().expect("a count"), pattern, seed.parse().expect("a seed")).expect("a pattern");
    let value = |b: &[u8]| match ty {
        "f16" => half::f16::from_le_bytes([b[0], b[1]]).to_f64(),
        _ => half::bf16::from_le_bytes([b[0], b[1]]).to_f64(),
    };
    bytes.chunks_exact(2).map(value).collect()
}

#[test]
fn products_of_small_numbers_are_exact() {
    let mut count = 0;
    for program in programs() {
        let name = program.path.file_stem().expect("a name").to_string_lossy().into_owned();
        if !name.starts_with("wgmma") {
            continue;
        }
        // What the file says of itself: A is 64 x 64; B is n x 64, or 64 x its width where it is transposed.
        let steps = program.module.kernel.insts().filter(|(_, i)| i.mnemonic().starts_with("wgmma.mma_async")).count();
        let (_, inst) = program.module.kernel.insts().find(|(_, i)| i.arg("trans_b").is_some()).expect("a product");
        let n = ptx::qual::MmaK16::columns(inst.quals[0]).expect("a shape") as usize;
        let transposed = inst.arg("trans_b") == Some(&ptx::Operand::Int(1));
        let (first, sign) = if name == "wgmma_negated" { (1.0, -1.0) } else { (0.0, 1.0) };
        let (a, b) = (numbers(&program, "A"), numbers(&program, "B"));
        let report = Machine::run_kernel(&program.module.kernel, &program.launch, &Options::default());
        let out = report.expect("it is clean").singles("out").expect("an output");
        for (at, value) in out.iter().enumerate() {
            let (i, t) = (at / 128, at % 128);
            let row = t / 32 * 16 + t % 32 / 4 + 8 * (i >> 1 & 1);
            let column = 8 * (i >> 2) + 2 * (t % 4) + (i & 1);
            let of_b = |k: usize| if transposed { b[k * (b.len() / 64) + column] } else { b[column * 64 + k] };
            let sum: f64 = (0..16 * steps).map(|k| a[row * 64 + k] * of_b(k)).sum();
            assert_eq!(f64::from(*value), first + sign * sum, "{name}: row {row}, column {column}");
        }
        assert_eq!(out.len(), 64 * n);
        count += 1;
    }
    assert!(count >= 8, "{count} products");
}
