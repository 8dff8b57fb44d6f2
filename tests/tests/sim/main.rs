//! Kernels on the machine: what ships runs clean and right, what is broken is found, small programs give what they
//! gave before.

mod attention;
mod broken;
mod eight_bit;
mod mutants;
mod programs;
mod shipped;
mod split;
mod timeline;
