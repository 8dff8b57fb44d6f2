//! Long contexts of values of one sign: what the tensor cores' sums lose, and what a total apart keeps.

use half::bf16;
use tilewright::reference::{Output, Rows};
use tilewright::{Accumulation, Element, Fp8, Problem, Values, error};
use tilewright_tests::gpu::call::{build, plan};
use tilewright_tests::gpu::data::normal;
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::eight::{Coded, call};
use tilewright_tests::gpu::suite::{Case, gpu};

pub fn cases() -> Vec<Case> {
    let each = [64, 96, 128].into_iter().flat_map(|dim| [(dim, Values::Rows), (dim, Values::Transposed)]);
    each.map(|(dim, values)| gpu(format!("long::d{dim}_{values}"), move |gpu| one_sign(gpu, dim, values))).collect()
}

/// Relative errors of O, and the largest of LSE.
fn off(gpu: &Gpu, dim: u32, values: Values, keys: u64, accumulation: Accumulation) -> (f64, f64) {
    let fp8 = Fp8 { values, accumulation, ..Fp8::default() };
    let problem = Problem::builder().element(Element::E4m3).queries(8).keys(keys).heads(1).head_dim(dim).fp8(fp8);
    let problem = build(problem);
    let coded = Coded::of(&problem, |t, [_, s, _, c]| {
        let x = normal(50 + t as u64, s * u64::from(dim) + c);
        if t == 2 { 0.5 + x.abs().min(3.0) / 4.0 } else { x }
    });
    let answer = call::run::<bf16>(gpu, &plan(gpu, &problem), &coded);
    let exact = coded.exact(Rows::All);
    let o = Output::pick_o(&problem, Rows::All, &answer.o);
    let lse = Output::pick_lse(&problem, Rows::All, &answer.lse);
    (error::relative(&o, &exact.o), error::absolute(&lse, &exact.lse))
}

fn one_sign(gpu: &Gpu, dim: u32, values: Values) {
    let mut short = f64::INFINITY;
    for keys in [4096, 32_768, 131_072] {
        let (fast, fast_lse) = off(gpu, dim, values, keys, Accumulation::Fast);
        let (accurate, accurate_lse) = off(gpu, dim, values, keys, Accumulation::Accurate);
        print!("[{keys} keys: O {fast:.4} fast, {accurate:.4} accurate; LSE {fast_lse:.4}, {accurate_lse:.4}] ");
        assert!(accurate < 0.01, "{keys} keys: {accurate}");
        assert!(accurate <= 2.0 * short, "{keys} keys: {accurate}, and {short} at 4,096");
        if keys > 4096 {
            assert!(accurate_lse < fast_lse / 4.0, "{keys} keys: LSE {accurate_lse} accurate, {fast_lse} fast");
        }
        short = short.min(accurate);
    }
    let (chosen, _) = off(gpu, dim, values, 131_072, Accumulation::Auto);
    assert!(chosen < 0.01, "{chosen}");
}
