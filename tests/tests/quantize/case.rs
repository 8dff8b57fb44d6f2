//! A quantizer's launch on the machine, and whether its codes and scales are those of the reference.

use half::{bf16, f16};
use runtime::Argument;
use schedule::{Element, Granularity, Quantize, Rotation};
use sim::{Failure, Launch, Machine, Options, Report, Tensor};
use tilewright::abi::quantize::{Numbers, Options as Chosen, TENSORS};
use tilewright::reference::codes::{self, Codes, Rounded};
use tilewright::reference::{self, e4m3};
use tilewright::{Half, Problem};

/// Inputs in host memory and the launch that reads them.
pub struct Case<'a> {
    schedule: &'a Quantize,
    problem: Problem,
    chosen: Chosen,
    numbers: Numbers,
    inputs: [Vec<f32>; 3],
}

/// What a run wrote.
#[derive(Debug, PartialEq)]
pub struct Written {
    pub codes: [Vec<u8>; 3],
    pub scales: [Vec<f32>; 3],
}

/// Bytes of a scale's words.
const WORDS: usize = 16;
/// What codes are before the run; a canary in the gaps between rows.
const UNWRITTEN: u8 = 0xff;

impl<'a> Case<'a> {
    /// Standard normal numbers.
    pub fn new(schedule: &'a Quantize, problem: &Problem, chosen: &Chosen) -> Case<'a> {
        let numbers = Numbers::new(problem, schedule, chosen, 3).expect("the problem is the schedule's");
        let reach = |tensor: usize| {
            let [batch, tokens, heads, dim] = extents(problem)[tensor];
            let at = problem.strides()[tensor];
            match [batch, tokens, heads].contains(&0) {
                true => 0,
                false => at.row(batch - 1, tokens - 1, heads - 1) + dim,
            }
        };
        let inputs = [0, 1, 2].map(|t| reference::normal(t as u64 + 1, reach(t) as usize));
        Case { schedule, problem: *problem, chosen: *chosen, numbers, inputs }
    }

    /// Another number in the place of one element of Q, K or V (0, 1 or 2).
    pub fn put(mut self, tensor: usize, [b, s, h, d]: [u64; 4], value: f32) -> Self {
        let at = self.problem.strides()[tensor].row(b, s, h) + d;
        self.inputs[tensor][at as usize] = value;
        self
    }

    /// All elements of a tensor times a factor.
    pub fn scale(mut self, tensor: usize, factor: f32) -> Self {
        self.inputs[tensor].iter_mut().for_each(|value| *value *= factor);
        self
    }

    /// Q, K and V as they are read.
    pub fn inputs(&self) -> [&[f32]; 3] {
        [0, 1, 2].map(|t| &self.inputs[t][..])
    }

    /// On a device that runs so many blocks at a time.
    pub fn ctas(mut self, ctas: u32) -> Self {
        let numbers = Numbers::new(&self.problem, self.schedule, &self.chosen, ctas);
        self.numbers = numbers.expect("the problem is the schedule's");
        self
    }

    /// Tiles of V that are dealt and read once.
    pub fn dealt(&self) -> u32 {
        self.numbers.dealt()
    }

    /// Whether all blocks must run at the same time.
    pub fn all_at_once(&self) -> bool {
        self.numbers.all_at_once()
    }

    pub fn launch(&self) -> Launch {
        let kernel = kernels::lower_quantize(self.schedule).expect("it is lowered").kernel;
        let mut launch = Launch::new(self.numbers.grid()[0]);
        let reach = self.numbers.code_elements(&self.problem);
        for (t, name) in TENSORS.into_iter().enumerate() {
            let [batch, tokens, heads, dim] = extents(&self.problem)[t];
            let buffer = |what: &str| format!("{name}_{what}_buffer");
            let mut bytes: Vec<u8> = self.inputs[t].iter().flat_map(|&x| self.encode(x)).collect();
            bytes.resize(bytes.len().max(dim as usize * 2), 0);
            let strides = self.problem.strides()[t];
            let (dims, strides) = match [batch, tokens, heads].contains(&0) {
                true => (vec![dim, 1, 1, 1], vec![0; 3]),
                false => (
                    vec![dim, tokens, heads, batch],
                    [strides.token, strides.head, strides.batch].map(|stride| stride * 2).to_vec(),
                ),
            };
            let row = (dim * 2).next_multiple_of(16);
            let strides = strides.into_iter().zip(&dims[1..]).map(|(s, &n)| if n == 1 { row } else { s }).collect();
            launch = launch
                .input(&buffer("in"), bytes)
                .tensor(name, Tensor { buffer: buffer("in"), dims, strides })
                .both(&buffer("codes"), vec![UNWRITTEN; (reach[t] as usize).max(16)])
                .pointer(&format!("{name}_codes"), &buffer("codes"))
                .output(&buffer("scales"), 4 * self.numbers.scale_elements()[t].max(1) as usize)
                .pointer(&format!("{name}_scales"), &buffer("scales"));
            if kernel.param(&format!("{name}_shares")).is_some() {
                let words = WORDS * self.numbers.scale_elements()[t].max(1) as usize;
                launch = launch
                    .both(&buffer("shares"), vec![0; words])
                    .pointer(&format!("{name}_shares"), &buffer("shares"));
            }
        }
        launch = launch.both("counter_buffer", vec![0; 4]).pointer("counter", "counter_buffer");
        launch = match self.dealt() as usize {
            0 => launch.u64("v_maxima", 0),
            tiles => launch.both("maxima_buffer", vec![0; 4 * tiles]).pointer("v_maxima", "maxima_buffer"),
        };
        for (name, value) in self.numbers.named() {
            launch = match value {
                _ if kernel.param(&name).is_none() => launch,
                Argument::U32(value) => launch.u32(&name, value),
                Argument::U64(value) => launch.u64(&name, value),
                other => panic!("{name}: {other:?}"),
            };
        }
        launch
    }

    /// Runs the kernel.
    pub fn run(&self, options: &Options) -> Result<Written, Failure> {
        let verified = check::verify(kernels::lower_quantize(self.schedule).expect("it is lowered"));
        let verified = verified.unwrap_or_else(|findings| panic!("{}: {findings:#?}", self.schedule.name));
        let report = Machine::run(&verified, &self.launch(), options)?;
        let zero = |name: &str| report.buffer(name).is_none_or(|bytes| bytes.iter().all(|&byte| byte == 0));
        assert!(zero("counter_buffer"), "the counter is left at zero");
        assert!(zero("maxima_buffer"), "the maxima of tiles are left at zero");
        for name in TENSORS {
            assert!(zero(&format!("{name}_shares_buffer")), "what {name} shares is left at zero");
        }
        Ok(self.written(&report))
    }

    fn written(&self, report: &Report) -> Written {
        let buffer = |t: usize, what: &str| format!("{}_{what}_buffer", TENSORS[t]);
        let codes = |t: usize| report.buffer(&buffer(t, "codes")).expect("codes").to_vec();
        let scales = |t: usize| {
            let mut scales = report.singles(&buffer(t, "scales")).expect("scales");
            scales.truncate(self.numbers.scale_elements()[t] as usize);
            scales
        };
        Written { codes: [0, 1, 2].map(codes), scales: [0, 1, 2].map(scales) }
    }

    /// Where codes or scales are not the reference's; codes may be neighbours where sums are rounded in another order.
    pub fn differences(&self, written: &Written) -> Vec<String> {
        match self.schedule.element {
            Element::Bf16 => self.differences_of::<bf16>(written),
            _ => self.differences_of::<f16>(written),
        }
    }

    fn differences_of<T: Half>(&self, written: &Written) -> Vec<String> {
        let rotation = match self.schedule.rotation {
            Rotation::Off => None,
            _ => Some(reference::Rotation { seed: self.chosen.seed }),
        };
        let mut found = Vec::new();
        let scales = self.schedule.scales;
        for (t, granularity) in [scales.q, scales.k, scales.v].into_iter().enumerate() {
            let data: Vec<T> = self.inputs()[t].iter().map(|&x| T::round(x)).collect();
            let (extents, strides) = (extents(&self.problem)[t], self.problem.strides()[t]);
            let tensor = Rounded { data: &data, extents, strides };
            let right = match t {
                2 => codes::values(&tensor, granularity),
                _ => self.placed(t, codes::rows(&tensor, rotation, granularity)),
            };
            let exact = t == 2 || rotation.is_none();
            found.extend(compare(TENSORS[t], granularity, (&written.codes[t], &written.scales[t]), &right, exact));
        }
        found
    }

    /// Codes of Q or K where their strides say, and canaries between them.
    fn placed(&self, tensor: usize, close: Codes) -> Codes {
        let [batch, tokens, heads, _] = extents(&self.problem)[tensor];
        let (columns, strides) = (self.schedule.columns() as usize, self.numbers.code_strides()[tensor]);
        let reach = self.numbers.code_elements(&self.problem)[tensor] as usize;
        let mut codes = vec![UNWRITTEN; reach.max(16)];
        let rows = (0..batch).flat_map(|b| (0..tokens).flat_map(move |s| (0..heads).map(move |h| (b, s, h))));
        for ((b, s, h), row) in rows.zip(close.codes.chunks_exact(columns)) {
            let at = strides.row(b, s, h) as usize;
            codes[at..at + columns].copy_from_slice(row);
        }
        Codes { codes, scales: close.scales }
    }

    fn encode(&self, value: f32) -> [u8; 2] {
        match self.schedule.element {
            Element::Bf16 => bf16::round(value).to_le_bytes(),
            _ => f16::round(value).to_le_bytes(),
        }
    }
}

fn extents(problem: &Problem) -> [[u64; 4]; 3] {
    let (qk, v) = (u64::from(problem.head_dim().qk), u64::from(problem.head_dim().v));
    let (batch, keys, kv_heads) = (problem.batch(), problem.keys(), problem.kv_heads());
    [[batch, problem.queries(), problem.heads(), qk], [batch, keys, kv_heads, qk], [batch, keys, kv_heads, v]]
}

fn compare(
    name: &str,
    granularity: Granularity,
    (codes, scales): (&[u8], &[f32]),
    right: &Codes,
    exact: bool,
) -> Vec<String> {
    let mut found = Vec::new();
    if scales.len() != right.scales.len() {
        found.push(format!("{name}: {} scales ({granularity}), {} are right", scales.len(), right.scales.len()));
    }
    let near = |a: f32, b: f32| a == b || !exact && (a - b).abs() <= 4e-7 * b.abs();
    for (at, (&a, &b)) in scales.iter().zip(&right.scales).enumerate().filter(|(_, (a, b))| !near(**a, **b)).take(4) {
        found.push(format!("{name}: scale {at} ({granularity}) is {a}, {b} is right"));
    }
    let mut neighbours = 0;
    for (at, (&a, &b)) in codes.iter().zip(&right.codes).enumerate().filter(|(_, (a, b))| a != b) {
        let steps = e4m3::steps_apart(a, b);
        // A zero's sign is the product's, which adds zeros of the other sign to it.
        if steps == Some(0) {
            continue;
        }
        neighbours += 1;
        if exact || steps != Some(1) {
            found.push(format!("{name}: code {at} is {a:#04x}, {b:#04x} is right"));
        }
    }
    if neighbours * 500 > codes.len() {
        found.push(format!("{name}: {neighbours} of {} codes are neighbours of the right ones", codes.len()));
    }
    found.truncate(12);
    found
}
