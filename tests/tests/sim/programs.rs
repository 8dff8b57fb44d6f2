//! Small programs, one for each form of instruction or fault: `tests/filetests/sim/*.ptx`, whose heads
//! `tilewright_tests::gpu::program` reads. The suite `gpu_machine` runs the clean ones on a GPU.

use sim::mutate::{Mutant, mutants};
use sim::{Failure, Machine, Options, Policy};
use std::fs;
use std::path::{Path, PathBuf};
use tilewright_tests::gpu::program::{Buffer, CLEAN, Program};

const FOLDER: &str = "filetests/sim";

fn programs() -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).expect("the folder reads").flatten().map(|e| e.path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| Program::read(&name(path), &fs::read_to_string(path).expect("the file reads"))).collect()
}

fn bless(program: &Program, found: &[(String, u64)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER).join(format!("{}.ptx", program.name));
    let text = fs::read_to_string(&path).expect("the file reads");
    let rest = text.lines().filter(|l| !l.starts_with("// result "));
    let (head, body): (Vec<&str>, Vec<&str>) = rest.partition(|l| l.starts_with("// "));
    let results = found.iter().map(|(name, hash)| format!("// result {name} {hash:016x}"));
    let lines: Vec<String> =
        head.into_iter().map(str::to_owned).chain(results).chain(body.into_iter().map(str::to_owned)).collect();
    fs::write(&path, lines.join("\n") + "\n").expect("the file writes");
}

#[test]
fn small_programs_give_what_they_gave_before() {
    let policies = [Policy::Orderly, Policy::Random, Policy::Late, Policy::Early];
    for program in programs() {
        let name = &program.name;
        let mut kinds = Vec::new();
        for seed in 0..12 {
            let options = Options { policy: policies[seed as usize % 4], sums: program.sums, ..Options::seeded(seed) };
            match (Machine::run_kernel(&program.module.kernel, &program.launch(), &options), &program.findings[..]) {
                (Ok(report), []) => {
                    let of = |buffer: &str| schedule::fnv1a(report.buffer(buffer).expect("a buffer of the launch"));
                    let found: Vec<(String, u64)> = program.results().map(|b| (b.name.clone(), of(&b.name))).collect();
                    if seed == 0 && std::env::var_os("TILEWRIGHT_BLESS").is_some() {
                        bless(&program, &found);
                        break;
                    }
                    for (buffer, (_, is)) in program.results().zip(&found) {
                        assert_eq!(buffer.result, Some(*is), "{name} seed {seed}: {} changed", buffer.name);
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

#[test]
fn every_clean_program_is_embedded() {
    let clean: Vec<String> = programs().into_iter().filter(|p| p.findings.is_empty()).map(|p| p.name).collect();
    let embedded: Vec<&str> = CLEAN.iter().map(|(name, _)| *name).collect();
    assert_eq!(embedded, clean, "`CLEAN` of tests/gpu/program.rs lists the clean programs by name");
}

#[test]
fn products_of_small_numbers_are_exact() {
    let mut count = 0;
    for program in programs() {
        let name = &program.name;
        if !name.starts_with("wgmma") {
            continue;
        }
        // What the file says of itself: A is 64 x its width; B is n x that, or that x its own width where it is transposed.
        let steps = program.module.kernel.insts().filter(|(_, i)| i.mnemonic().starts_with("wgmma.mma_async")).count();
        let (_, inst) = program.module.kernel.insts().find(|(_, i)| i.arg("scale_d").is_some()).expect("a product");
        let n = ptx::qual::mma_columns(inst.quals[0]).expect("a shape") as usize;
        let depth = if inst.quals[0].ends_with("k32") { 32 } else { 16 };
        let transposed = inst.arg("trans_b") == Some(&ptx::Operand::Int(1));
        let (first, sign) = if name.starts_with("wgmma_negated") { (1.0, -1.0) } else { (0.0, 1.0) };
        let [a, b] = ["A", "B"].map(|buffer| program.numbers(buffer).expect("an input"));
        let width = a.len() / 64;
        let report = Machine::run_kernel(&program.module.kernel, &program.launch(), &Options::default());
        let out = report.expect("it is clean").singles("out").expect("an output");
        for (at, value) in out.iter().enumerate() {
            let (i, t) = (at / 128, at % 128);
            let row = t / 32 * 16 + t % 32 / 4 + 8 * (i >> 1 & 1);
            let column = 8 * (i >> 2) + 2 * (t % 4) + (i & 1);
            let of_b = |k: usize| if transposed { b[k * (b.len() / width) + column] } else { b[column * width + k] };
            let sum: f64 = (0..depth * steps).map(|k| a[row * width + k] * of_b(k)).sum();
            assert_eq!(f64::from(*value), first + sign * sum, "{name}: row {row}, column {column}");
        }
        assert_eq!(out.len(), 64 * n);
        count += 1;
    }
    assert!(count >= 14, "{count} products");
}

/// What neither the verifier nor the machine has against a mutant of a program, as line, operator and text.
fn survives(program: &Program, mutant: &Mutant) -> Option<String> {
    let module = ptx::Module { kernel: mutant.kernel.clone(), ..program.module.clone() };
    let lives = check::verify(module).is_ok()
        && (0..12).all(|seed| {
            let policy = [Policy::Random, Policy::Late, Policy::Early][seed as usize % 3];
            let options = Options { policy, shrink: 0, limit: 100_000, ..Options::seeded(seed) };
            let run = Machine::run_kernel(&mutant.kernel, &program.launch(), &options);
            run.is_ok_and(|report| {
                let right = |b: &Buffer| report.buffer(&b.name).map(schedule::fnv1a) == b.result;
                program.results().all(right)
            })
        });
    (lives && mutant.equivalent.is_none()).then(|| format!("line {}, {}: {}", mutant.line, mutant.operator, mutant.was))
}

#[test]
fn spoiled_hand_overs_are_found() {
    let all = programs();
    let survivors = |name: &str| {
        let program = all.iter().find(|p| p.name == name).expect("the program");
        let mutants = mutants(&program.module.kernel);
        assert!(mutants.len() > 4, "{name}: {} mutants", mutants.len());
        mutants.iter().filter_map(|mutant| survives(program, mutant)).collect::<Vec<String>>()
    };
    // The copier may as well wait for the release of the other stage, which comes after that of its own.
    let later = "wrong barrier: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10+10264], %r11;";
    let mut alive = survivors("transpose_eight");
    alive.retain(|mutant| !mutant.ends_with(later));
    assert_eq!(alive, Vec::<String>::new());
    assert_eq!(survivors("handed_over"), Vec::<String>::new());
}

/// Which of 16 keys stands where in a transposed tile, so that four neighbours of an accumulator's rows become four bytes
/// of the A operand.
const KEYS: [usize; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];

#[test]
fn a_tile_transposed_by_its_producer_multiplies_with_keys_in_the_order_of_accumulators() {
    let program = programs().into_iter().find(|p| p.name == "transpose_eight").expect("the program");
    let [a, v] = ["A", "V"].map(|buffer| program.numbers(buffer).expect("an input"));
    for seed in 0..8 {
        let report = Machine::run_kernel(&program.module.kernel, &program.launch(), &Options::seeded(seed));
        let out = report.expect("it is clean").singles("out").expect("an output");
        for (at, value) in out.iter().enumerate() {
            let (i, t) = (at / 128, at % 128);
            let row = t / 32 * 16 + t % 32 / 4 + 8 * (i >> 1 & 1);
            let column = 8 * (i >> 2) + 2 * (t % 4) + (i & 1);
            let key = |k: usize| k / 16 * 16 + KEYS[k % 16];
            let block = |b: usize| (0..32).map(move |k| (k, (32 * b + key(k)) * 64 + column));
            let sum: f64 = (0..5).flat_map(block).map(|(k, of_v)| a[row * 32 + k] * v[of_v]).sum();
            assert_eq!(f64::from(*value), sum, "row {row}, column {column}, seed {seed}");
        }
    }
}
