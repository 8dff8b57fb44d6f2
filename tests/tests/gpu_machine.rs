//! The machine in software against the chip: what `sim` says that PTX means is what a Hopper does.
//!
//! - `program::*`: each clean program of `tests/filetests/sim` with the launch of its head. Every buffer that it writes
//!   is held to the machine's hash to the bit, or within the units of the last place that its head allows.
//! - `forward::*`: each shipped forward kernel on ragged shapes. The chip's O and log-sum-exp are held to the machine's
//!   run of the very same kernel, and to double precision, within the tolerance of `sim::forward`.

use std::process::ExitCode;
use std::sync::Arc;

use half::{bf16, f16};
use runtime::cudarc::driver::CudaStream;
use runtime::{Argument, Kernel, TensorMapArg};
use schedule::{Element, Output as OutputType, Schedule, Variant};
use sim::forward::{Difference, Forward, Inputs, Outputs, Problem};
use sim::{Machine, Options, Policy, Sums};
use tilewright::reference::{Output, Rows};
use tilewright::{Entry, Half, Plan};
use tilewright_tests::gpu::call::{Answer, build, run};
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::{Gpu, Guarded};
use tilewright_tests::gpu::eight::{Coded, call, machine as on_machine, measure, problem_of, whole as whole_of};
use tilewright_tests::gpu::program::{self, Access, Buffer, CLEAN, Program};
use tilewright_tests::gpu::suite::{self, Case, cpu, gpu};

/// Queries and keys: a last tile and a last block that are not full; under a causal mask also rows that see nothing.
const SHAPES: [(u32, u32); 2] = [(200, 333), (333, 200)];
/// Heads of both, each with keys of its own.
const HEADS: u32 = 2;

fn main() -> ExitCode {
    let programs = CLEAN.iter().map(|&(name, text)| Program::read(name, text));
    let mut cases = vec![
        cpu("every_program_is_verified", every_program_is_verified),
        cpu("units_of_the_last_place_are_counted", units_of_the_last_place_are_counted),
    ];
    cases.extend(programs.map(|p| gpu(format!("program::{}", p.name), move |gpu| small(gpu, &p))));
    cases.extend(templates::all().into_iter().map(by_schedule));
    suite::main(cases)
}

fn verified(program: &Program) -> Result<check::Verified, String> {
    check::verify(program.module.clone()).map_err(|findings| {
        let lines: Vec<String> = findings.iter().map(|finding| format!("  {finding}")).collect();
        format!("{} is not verified:\n{}", program.name, lines.join("\n"))
    })
}

fn every_program_is_verified() {
    let programs = CLEAN.iter().map(|&(name, text)| Program::read(name, text));
    let faults: Vec<String> = programs.filter_map(|program| verified(&program).err()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Runs a small program on both.
fn small(gpu: &Gpu, program: &Program) {
    let verified = verified(program).unwrap_or_else(|why| panic!("{why}"));
    let options = Options { policy: Policy::Orderly, sums: program.sums, ..Options::default() };
    let machine = Machine::run(&verified, &program.launch(), &options).unwrap_or_else(|why| panic!("{why}"));
    let kernel = Kernel::load(gpu.attention.device(), &verified).unwrap_or_else(|why| panic!("{why}"));
    let chip = launch(gpu, program, &Arc::new(kernel));
    let mut off = Vec::new();
    for (buffer, chip) in program.buffers.iter().zip(&chip) {
        // What is only read stays as it was.
        let right = machine.buffer(&buffer.name).expect("a buffer of the launch");
        let stated = buffer.result.unwrap_or_else(|| schedule::fnv1a(&buffer.bytes));
        assert_eq!(schedule::fnv1a(right), stated, "{}: the machine gives not what the head states", buffer.name);
        let same = if buffer.ulps == 0 {
            schedule::fnv1a(chip) == stated
        } else {
            farthest(chip, right) <= u64::from(buffer.ulps)
        };
        if !same {
            off.push(difference(buffer, chip, right));
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
}

/// Runs a program on the chip and gives its buffers afterwards, all of whose surroundings were left alone.
fn launch(gpu: &Gpu, program: &Program, kernel: &Arc<Kernel>) -> Vec<Vec<u8>> {
    let stream = &gpu.stream;
    let memory: Vec<Guarded<u8>> = program.buffers.iter().map(|buffer| upload(stream, buffer)).collect();
    let address = |name: &str| {
        let at = program.buffers.iter().position(|buffer| buffer.name == name).expect("a buffer of the launch");
        memory[at].address(stream)
    };
    let argument = |(name, argument): &(String, program::Argument)| match argument {
        program::Argument::Pointer(buffer) => Argument::U64(address(buffer)),
        program::Argument::U32(value) => Argument::U32(*value),
        program::Argument::Tensor(tensor) => {
            let param = kernel.params().iter().find(|param| param.name == *name).expect("a parameter");
            let ptx::ParamKind::Tensor(spec) = &param.kind else { panic!("{name} is no tensor map") };
            let map = TensorMapArg::encode(name, spec, address(&tensor.buffer), &tensor.dims, &tensor.strides);
            map.unwrap_or_else(|why| panic!("{why}")).into()
        }
    };
    let arguments: Vec<(&str, Argument)> = program.arguments.iter().map(|a| (a.0.as_str(), argument(a))).collect();
    let prepared = kernel.prepare([program.grid, 1, 1], &arguments).unwrap_or_else(|why| panic!("{why}"));
    // SAFETY: stream and kernel are of one context; every address is one of `memory`, which outlives the work and which
    // nothing else touches; the machine has found that the program stays within it.
    unsafe { prepared.launch(stream.cu_stream()) }.unwrap_or_else(|why| panic!("{why}"));
    gpu.wait(stream);
    memory.iter().map(|buffer| buffer.download(stream)).collect()
}

fn upload(stream: &Arc<CudaStream>, buffer: &Buffer) -> Guarded<u8> {
    let mut memory = Guarded::new(stream, buffer.name.as_str(), buffer.bytes.len());
    if buffer.access != Access::Output {
        stream.memcpy_htod(&buffer.bytes, &mut memory.view_mut()).expect("a buffer is filled");
        stream.synchronize().expect("the copy ends");
    }
    memory
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// Units of the last place between two singles, as bits. None between what is no number, all between that and a number.
fn ulps(a: u32, b: u32) -> u64 {
    let place = |bits: u32| i64::from(bits & 0x7fff_ffff) * if bits >> 31 == 1 { -1 } else { 1 };
    match (f32::from_bits(a).is_nan(), f32::from_bits(b).is_nan()) {
        (true, true) => 0,
        (false, false) => place(a).abs_diff(place(b)),
        _ => u64::MAX,
    }
}

fn units_of_the_last_place_are_counted() {
    let of = |a: f32, b: f32| ulps(a.to_bits(), b.to_bits());
    assert_eq!([of(1.0, 1.0), of(0.0, -0.0), of(f32::NAN, -f32::NAN)], [0; 3]);
    assert_eq!([of(1.0, 1.0 + f32::EPSILON), of(f32::from_bits(1), -f32::from_bits(1))], [1, 2]);
    assert_eq!(of(1.0, f32::NAN), u64::MAX);
    assert_eq!(farthest(&[0, 0, 128, 63, 1, 0, 0, 0], &[3, 0, 128, 63, 0, 0, 0, 0]), 3);
}

fn farthest(a: &[u8], b: &[u8]) -> u64 {
    words(a).zip(words(b)).map(|(a, b)| ulps(a, b)).max().unwrap_or(0)
}

/// Where two buffers differ: how many words, and the first of them.
fn difference(buffer: &Buffer, chip: &[u8], machine: &[u8]) -> String {
    let bound = u64::from(buffer.ulps);
    let off = |&(_, (a, b)): &(usize, (u32, u32))| if bound == 0 { a != b } else { ulps(a, b) > bound };
    let all: Vec<_> = words(chip).zip(words(machine)).enumerate().filter(off).collect();
    let told = |(at, (a, b)): &(usize, (u32, u32))| {
        let (x, y) = (f32::from_bits(*a), f32::from_bits(*b));
        format!("  word {at}: the chip {a:08x} ({x:e}), the machine {b:08x} ({y:e})")
    };
    let lines: Vec<String> = all.iter().take(8).map(told).collect();
    let (name, total) = (&buffer.name, chip.len() / 4);
    let bound =
        if bound == 0 { "in their bits".to_owned() } else { format!("by more than {bound} units of the last place") };
    format!("{name}: {} of {total} words differ {bound}:\n{}", all.len(), lines.join("\n"))
}

fn by_schedule(schedule: Schedule) -> Case {
    gpu(format!("forward::{}", schedule.name), move |gpu| match (schedule.element, schedule.fp8) {
        (_, Some(fp8)) if fp8.output == OutputType::F16 => eight_bit::<f16>(gpu, &schedule),
        (_, Some(_)) => eight_bit::<bf16>(gpu, &schedule),
        (Element::F16, None) => whole::<f16>(gpu, &schedule),
        (_, None) => whole::<bf16>(gpu, &schedule),
    })
}

/// Runs a whole kernel of 8-bit elements on both: the machine adds up products as the chip does.
fn eight_bit<O: Half>(gpu: &Gpu, schedule: &Schedule) {
    let (mut off, mut worst) = (Vec::new(), 0.0_f64);
    let options = Options { sums: Sums::Truncated, ..Options::default() };
    for (queries, keys) in SHAPES {
        let builder = problem_of(schedule).heads(HEADS.into()).queries(queries.into()).keys(keys.into());
        let problem = build(builder);
        let plan = Plan::with_schedule(&gpu.attention, &problem, schedule).expect("a shipped schedule runs");
        let coded = Coded::random(&problem, queries.into());
        let answer = call::run::<O>(gpu, &plan, &coded);
        let machine = on_machine::run(&coded, &Entry::new(schedule.clone()), &options);
        let (right, lse) = whole_of(&problem, &machine.0, &machine.1);
        let (found, found_lse) = whole_of(&problem, &answer.o, &answer.lse);
        let rows: Vec<u64> = (0..queries.into()).collect();
        for (whose, right) in [("the machine", Output { o: right, lse }), ("double precision", coded.exact(Rows::All))]
        {
            match measure(schedule, &problem, &rows, &found, &found_lse, &right) {
                Ok(found) if whose == "the machine" => worst = worst.max(found.whole),
                Ok(_) => {}
                Err(why) => off.push(format!("{queries} x {keys}: from {whose}: {why}")),
            }
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
    print!("[from the machine: O {worst:.1e}] ");
}

/// Runs a whole kernel on both.
fn whole<T: Half>(gpu: &Gpu, schedule: &Schedule) {
    let (mut off, mut worst) = (Vec::new(), Difference { o: 0.0, lse: 0.0 });
    for (queries, keys) in SHAPES {
        let causal = schedule.variant == Variant::Causal;
        let problem = Problem { causal, ..Problem::new(HEADS, queries, keys) };
        let plan = plan::<T>(gpu, schedule, &problem);
        let kernel = plan.lowered().kernel();
        let forward = Forward::of(kernel).expect("a forward kernel");
        let inputs = Inputs::noise(forward, &problem, queries);
        // The machine takes a second, the chip no time.
        let machine = machine(forward, kernel, &problem, &inputs);
        let chip = chip::<T>(gpu, &plan, &inputs);
        let bound = forward.tolerance();
        for (whose, right) in [("the machine", machine), ("double precision", forward.reference(&problem, &inputs))] {
            let found = chip.difference(&right);
            if found.o > bound.o || found.lse > bound.lse {
                off.push(format!("{queries} x {keys}: O is {} and LSE {} off from {whose}", found.o, found.lse));
            }
            if whose == "the machine" {
                worst = Difference { o: worst.o.max(found.o), lse: worst.lse.max(found.lse) };
            }
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
    print!("[from the machine: O {:.1e}, LSE {:.1e}] ", worst.o, worst.lse);
}

fn plan<T: Half>(gpu: &Gpu, schedule: &Schedule, problem: &Problem) -> Plan {
    let (dims, [heads, queries, keys]) = (schedule.head_dim, [problem.heads, problem.queries, problem.keys]);
    let facade = tilewright::Problem::builder().element(T::ELEMENT).head_dims(dims.qk, dims.v).heads(heads.into());
    let facade = facade.queries(queries.into()).keys(keys.into()).causal(problem.causal);
    Plan::with_schedule(&gpu.attention, &build(facade), schedule).expect("a shipped schedule runs")
}

fn machine(forward: Forward, kernel: &ptx::Kernel, problem: &Problem, inputs: &Inputs) -> Outputs {
    let launch = forward.launch(kernel, problem, inputs).expect("the problem fits");
    let report = Machine::run_kernel(kernel, &launch, &Options::default()).unwrap_or_else(|why| panic!("{why}"));
    forward.outputs(&report).expect("the outputs are there")
}

fn chip<T: Half>(gpu: &Gpu, plan: &Plan, inputs: &Inputs) -> Outputs {
    let round = |values: &[f32]| values.iter().map(|&value| T::round(value)).collect::<Vec<T>>();
    let host = Tensors { q: round(&inputs.q), k: round(&inputs.k), v: round(&inputs.v) };
    let Answer { o, lse, .. } = run(gpu, plan, &host);
    Outputs { o: o.iter().map(|value| value.widen()).collect(), lse }
}
