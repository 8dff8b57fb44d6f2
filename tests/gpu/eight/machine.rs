//! A plan's launch on the machine: tensors as a problem lays them out, arguments as the facade would pass them.

use half::{bf16, f16};
use sim::{Launch, Machine, Options, Tensor};
use tilewright::abi::forward::{self, Addresses, scales};
use tilewright::{Element, Entry};

use super::Coded;
use crate::gpu::data;

/// Any that are aligned: the machine has buffers by name.
const ADDRESSES: Addresses = Addresses { q: 16, k: 16, v: 16, o: 16, lse: 16 };

/// O, laid out as the problem says, and LSE of the attention over what is coded.
///
/// # Panics
/// If the schedule makes no kernel or the machine finds a fault.
pub fn run(coded: &Coded, entry: &Entry, options: &Options) -> (Vec<f64>, Vec<f32>) {
    let problem = &coded.problem;
    let verified = entry.lowered().expect("it is lowered").verified();
    let kernel = entry.lowered().expect("it is lowered").kernel();
    let scalars = forward::scalars(problem, entry.schedule()).expect("within limits");
    let mut launch = Launch::new(forward::grid(&scalars, 3)[0]);
    let names = ["q", "k", "v"];
    let buffers = names.iter().zip(&coded.codes).zip(&coded.scales);
    for ((name, codes), scales) in buffers {
        let bytes = |scales: &[f32]| scales.iter().flat_map(|scale| scale.to_le_bytes()).collect::<Vec<u8>>();
        // What has no scales has a one; what has no keys reads that of Q, which has some.
        let given = if scales.is_empty() { bytes(&[1.0]) } else { bytes(scales) };
        let mut codes = codes.clone();
        codes.resize(codes.len().max(256), 0x7f);
        launch = launch.input(name, codes).input(&format!("{name}_scales_buffer"), given);
        launch = launch.pointer(&format!("{name}_scales"), &format!("{name}_scales_buffer"));
    }
    let [_, _, _, extents] = data::extents(problem);
    let reach = data::reach(extents, problem.strides()[3]);
    launch = launch.output("o", 2 * reach).output("lse_buffer", 4 * problem.lse_elements() as usize);
    for (name, _, dims, strides) in forward::tensors(problem, &ADDRESSES) {
        let of = if name == "o" { 2 } else { 1 };
        let row = (dims[0] * of).next_multiple_of(16);
        let strides = strides.iter().zip(&dims[1..]).map(|(&s, &n)| if n == 1 { row } else { s }).collect();
        launch = launch.tensor(name, Tensor { buffer: name.to_owned(), dims: dims.to_vec(), strides });
    }
    for (name, stride) in scales::strides(problem).into_iter().filter(|(name, _)| kernel.param(name).is_some()) {
        launch = launch.u32(name, stride);
    }
    let forward::Scalars { queries, keys, heads, group, query_tiles, tiles, heads_total, section, .. } = scalars;
    let numbers = [
        ("queries", queries),
        ("keys", keys),
        ("heads", heads),
        ("group", group),
        ("query_tiles", query_tiles),
        ("tiles", tiles),
        ("heads_total", heads_total),
        ("section", section),
    ];
    for (name, number) in numbers.into_iter().filter(|(name, _)| kernel.param(name).is_some()) {
        launch = launch.u32(name, number);
    }
    if kernel.param("counter").is_some() {
        launch = launch.both("counter_buffer", vec![0; 4]).pointer("counter", "counter_buffer");
    }
    launch = launch.pointer("lse", "lse_buffer").f32("scale_log2", scalars.scale_log2);
    let report = Machine::run(verified, &launch, options).unwrap_or_else(|why| panic!("{problem}: {why}"));
    let half = |b: &[u8]| -> f64 {
        let bits = u16::from_le_bytes([b[0], b[1]]);
        match problem.output_element() {
            Element::F16 => f16::from_bits(bits).into(),
            _ => bf16::from_bits(bits).into(),
        }
    };
    let o = report.buffer("o").expect("O").chunks(2).map(half).collect();
    (o, report.singles("lse_buffer").expect("LSE"))
}
