//! 16-bit tensors through the quantizer: the whole road against double precision over the numbers that were rounded, with
//! workspaces that are no numbers but where they must be zero.

use half::{bf16, f16};
use tilewright::reference::{self, EightBit, Host, Output, Rotation, Rows};
use tilewright::{
    Accumulation, CacheInputs, CacheOptions, Element, Fp8, Fp8Options, Half, Outputs, Problem, ScaleBy, ScalesOf, error,
};
use tilewright_tests::gpu::call::{Answer, Results, Uploaded, build};
use tilewright_tests::gpu::data::Tensors;
use tilewright_tests::gpu::device::{Gpu, Guarded};
use tilewright_tests::gpu::eight::{Coded, call, plain};
use tilewright_tests::gpu::suite::{Case, gpu};

const SEED: u32 = 99;

pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (dim, causal) in [64, 96, 128, 192, 256].into_iter().flat_map(|dim| [(dim, false), (dim, true)]) {
        let mask = if causal { "causal" } else { "full" };
        all.push(gpu(format!("joined::bf16_d{dim}_{mask}"), move |gpu| every_shape::<bf16>(gpu, dim, causal)));
        all.push(gpu(format!("joined::f16_d{dim}_{mask}"), move |gpu| every_shape::<f16>(gpu, dim, causal)));
    }
    all.push(gpu("joined::outliers_are_spread", outliers));
    for incoherent in [false, true] {
        let name = if incoherent { "cache::rotated" } else { "cache::as_it_is" };
        all.push(gpu(name, move |gpu| cache(gpu, incoherent)));
    }
    all
}

/// A workspace between guards, no number but where it must be zero.
fn workspace(gpu: &Gpu, bytes: u64, zeros: u64) -> Guarded<u8> {
    let mut workspace = Guarded::<u8>::new(&gpu.stream, "workspace", bytes as usize);
    let mut view = workspace.view_mut();
    gpu.stream.memset_zeros(&mut view.slice_mut(..zeros as usize)).expect("the head is zeroed");
    workspace
}

/// Runs twice with one workspace: the same bits, and zeros are left.
fn joined<T: Half>(gpu: &Gpu, problem: &Problem, options: &Fp8Options, host: &Tensors<T>) -> Answer<T> {
    let plan = gpu.attention.plan_fp8(problem, options).expect("a plan");
    let mut workspace = workspace(gpu, plan.workspace_bytes(), plan.workspace_zeros());
    let inputs = Uploaded::new(&gpu.stream, host);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut results = Results::<T>::new(&gpu.stream, problem);
        let (mut o, mut lse) = (results.o.view_mut(), results.lse.view_mut());
        let outputs = Outputs { o: &mut o, lse: &mut lse };
        plan.run(&gpu.stream, inputs.inputs(), outputs, &mut workspace.view_mut()).expect("runs");
        gpu.wait(&gpu.stream);
        let left = workspace.download(&gpu.stream);
        assert!(left[..plan.workspace_zeros() as usize].iter().all(|&byte| byte == 0), "the head is left at zero");
        answers.push(results.download(&gpu.stream, problem));
    }
    let second = answers.remove(1);
    tilewright_tests::gpu::compare::same("again", &answers[0], &second);
    second
}

/// Errors of the road and of the same ingredients in double precision.
fn errors<T: Half>(
    answer: &Answer<T>,
    host: &Tensors<T>,
    options: &Fp8Options,
    block: u32,
    which: &[u64],
) -> (f64, f64, f64) {
    use reference::Sharing;
    let (problem, rows) = (&answer.problem, Rows::These(which));
    let exact = reference::attention(problem, host.host(), rows);
    let (q, k, v) = match options.scales {
        ScalesOf::Block => (Sharing::Block(64), Sharing::Block(block.into()), Sharing::Head),
        ScalesOf::Head => (Sharing::Head, Sharing::Head, Sharing::Head),
        _ => (Sharing::Tensor, Sharing::Tensor, Sharing::Tensor),
    };
    let rotation = options.incoherent.then_some(Rotation { seed: options.seed });
    let how = EightBit { rotation, q, k, v, ..EightBit::default() };
    let best = reference::eight_bit(problem, host.host(), rows, &how);
    let o = Output::pick_o(problem, rows, &answer.o);
    let lse = Output::pick_lse(problem, rows, &answer.lse);
    let relative = |o: &[f64]| error::relative(o, &exact.o);
    (relative(&o), relative(&best.o), error::absolute(&lse, &exact.lse))
}

fn every_shape<T: Half>(gpu: &Gpu, dim: u32, causal: bool) {
    let (block, head, tensor) = (ScalesOf::Block, ScalesOf::Head, ScalesOf::Tensor);
    let mut worst = (0.0, 0.0, 0.0);
    for ([batch, queries, keys, heads, kv_heads], scales, incoherent) in [
        ([2, 333, 777, 8, 2], block, true),
        ([1, 1000, 1000, 7, 1], block, false),
        ([2, 70, 500, 4, 4], head, true),
        ([1, 65, 1, 4, 1], block, true),
        ([3, 200, 129, 4, 2], tensor, false),
    ] {
        for accumulation in [Accumulation::Fast, Accumulation::Accurate] {
            if accumulation == Accumulation::Accurate && (dim > 128 || scales != block) {
                continue;
            }
            let problem = Problem::builder().element(T::ELEMENT).batch(batch).queries(queries).keys(keys);
            let problem = build(problem.heads(heads).kv_heads(kv_heads).head_dim(dim).causal(causal));
            let host = Tensors::<T>::random(&problem, 31);
            let options = Fp8Options { incoherent, scales, seed: SEED, accumulation };
            let answer = joined(gpu, &problem, &options, &host);
            let plan = gpu.attention.plan_fp8(&problem, &options).expect("a plan");
            let which: Vec<u64> = (0..queries).step_by(7).chain([queries - 1]).collect();
            let columns = plan.attention().schedule().tile.columns;
            let (road, best, lse) = errors(&answer, &host, &options, columns, &which);
            assert!(road <= 1.25 * best + 0.005, "{problem}: {options:?}: O is off by {road}, at best by {best}");
            assert!(lse <= 0.4, "{problem}: {options:?}: LSE is off by {lse}");
            if road > worst.0 {
                worst = (road, best, lse);
            }
        }
    }
    print!("[O {:.3} where {:.3} is the best, LSE {:.3}] ", worst.0, worst.1, worst.2);
}

/// The paper's outliers: rotated, the error is a fraction.
fn outliers(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(2048).heads(4).head_dim(128));
    let count = (2048 * 4 * 128) as usize;
    let of = |seed| reference::with_outliers(seed, count).into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    let host = Tensors { q: of(1), k: of(2), v: of(3) };
    let which: Vec<u64> = (0..2048).step_by(16).collect();
    let error = |incoherent, scales| {
        let options = Fp8Options { incoherent, scales, seed: SEED, ..Fp8Options::default() };
        errors(&joined(gpu, &problem, &options, &host), &host, &options, 96, &which).0
    };
    let (spread, plain) = (error(true, ScalesOf::Block), error(false, ScalesOf::Tensor));
    print!("[{spread:.3} rotated by blocks, {plain:.3} as it is by tensor] ");
    assert!(spread < 0.7 * plain, "{spread} {plain}");
}

/// Q of 16 bits over K and V of 8: as good as Q of 8 bits is, rotated or not.
fn cache(gpu: &Gpu, rotated: bool) {
    for (dim, causal, heads, kv_heads) in [(64, false, 4, 2), (128, true, 7, 1), (256, false, 8, 2)] {
        let eight = Problem::builder().element(Element::E4m3).batch(2).queries(70).keys(900);
        let eight = build(eight.heads(heads).kv_heads(kv_heads).head_dim(dim).causal(causal));
        let coded = Coded::random(&eight, 41);
        let plan =
            gpu.attention.plan_fp8_cache(&eight, Element::Bf16, &CacheOptions { rotation: rotated.then_some(SEED) });
        let plan = plan.expect("a plan");
        // What the cache holds is what a rotation made of some K; Q comes as it was before.
        let [mut q, k, v] = coded.numbers();
        let before: Vec<bf16> = q.iter().map(|&x| bf16::from_f32(x)).collect();
        q = before.iter().map(|x| x.to_f32()).collect();
        if rotated {
            for row in q.chunks_mut(dim as usize) {
                let mut wide: Vec<f64> = row.iter().map(|&x| x.into()).collect();
                Rotation { seed: SEED }.apply(&mut wide);
                row.iter_mut().zip(wide).for_each(|(to, from)| *to = from as f32);
            }
        }
        let exact = reference::attention(&plain(&eight), Host { q: &q, k: &k, v: &v }, Rows::All);
        let mut workspace = workspace(gpu, plan.workspace_bytes(), plan.workspace_zeros());
        let q = gpu.stream.clone_htod(&before).expect("memory");
        let cache = call::Uploaded::new(&gpu.stream, &coded);
        let mut results = Results::<bf16>::new(&gpu.stream, &eight);
        let (mut o, mut lse) = (results.o.view_mut(), results.lse.view_mut());
        let mut scales = cache.inputs().scales;
        scales.q = None;
        let inputs = CacheInputs { q: &q, k: &cache.codes[1], v: &cache.codes[2], scales };
        let outputs = Outputs { o: &mut o, lse: &mut lse };
        plan.run(&gpu.stream, inputs, outputs, &mut workspace.view_mut()).expect("runs");
        gpu.wait(&gpu.stream);
        let answer = results.download(&gpu.stream, &eight);
        let o = Output::pick_o(&eight, Rows::All, &answer.o);
        let off = error::relative(&o, &exact.o);
        assert!(off < 0.07, "{eight}: {off}");
        print!("[{off:.3}] ");
        assert_eq!(plan.problem().fp8().map(|fp8| fp8.q), Some(ScaleBy::Block(64).into()));
        assert_eq!(plan.attention().schedule().fp8.map(|fp8| fp8.values), Some(Fp8::default().values));
    }
}
