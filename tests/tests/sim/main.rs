//! Kernels on the machine: what ships runs clean and right, what is broken is found, small programs give what they
//! gave before.

mod attention;
mod broken;
mod eight_bit;
mod mutants;
mod programs;
#[path = "../quantize/case.rs"]
#[expect(dead_code, reason = "the quantizer's own tests use the rest")]
mod quantized;
mod road;
mod shipped;
mod split;
mod timeline;
