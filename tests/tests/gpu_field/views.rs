//! Views, strides and alignment: FC-30, FC-32.

use cudarc::driver::CudaSlice;
use half::{bf16, f16};
use tilewright::{Element, Error, Half, Inputs, Outputs, Problem, ProblemBuilder, Strides};
use tilewright_tests::gpu::call::{Results, Uploaded, build, plan, solve};
use tilewright_tests::gpu::compare::same;
use tilewright_tests::gpu::data::{Tensors, extents, reach};
use tilewright_tests::gpu::device::Gpu;
use tilewright_tests::gpu::suite::{Case, cpu, gpu};

pub fn cases() -> Vec<Case> {
    vec![
        gpu("fc30_a", fc30_a),
        gpu("fc30_b", |gpu| {
            for causal in [false, true] {
                let plain = Problem::builder().batch(2).queries(333).heads(4).kv_heads(2).head_dim(128).causal(causal);
                let view = plain.clone().k_strides([2 * 333 * 256, 2 * 256, 128]);
                as_contiguous::<bf16>(gpu, plain, view);
            }
        }),
        gpu("fc30_c", |gpu| {
            for causal in [false, true] {
                let plain = Problem::builder().batch(2).queries(333).heads(4).kv_heads(2).head_dim(128).causal(causal);
                let (q, kv) = (Strides::heads_first(333, 4, 128), Strides::heads_first(333, 2, 128));
                let view = plain.clone().q_strides(q).k_strides(kv).v_strides(kv);
                as_contiguous::<bf16>(gpu, plain.clone(), view.clone());
                as_contiguous::<bf16>(gpu, plain, view.o_strides(q));
            }
        }),
        gpu("fc32_base_address", fc32_base),
        cpu("fc32_stride", || {
            type With = fn(ProblemBuilder, Strides) -> ProblemBuilder;
            let tensors: [(&str, With); 4] = [
                ("q", ProblemBuilder::q_strides),
                ("k", ProblemBuilder::k_strides),
                ("v", ProblemBuilder::v_strides),
                ("o", ProblemBuilder::o_strides),
            ];
            for (name, with) in tensors {
                let plain = Problem::builder().queries(130).heads(2).head_dim(64);
                let error = with(plain, Strides::new(1 << 15, 66, 8584)).build().expect_err("an odd stride");
                assert!(matches!(error, Error::Stride { .. }), "{error}");
                let told = error.to_string();
                assert!(told.contains(&format!("tensor {name}")) && told.contains("16 bytes"), "{told}");
            }
        }),
    ]
}

/// The same numbers through views give the same bits as contiguous copies.
fn as_contiguous<T: Half>(gpu: &Gpu, plain: ProblemBuilder, view: ProblemBuilder) {
    let (plain, view) = (build(plain), build(view));
    let right = solve(gpu, &plain, &Tensors::<T>::random(&plain, 30));
    let host = Tensors::<T>::random(&view, 30);
    let answer = solve(gpu, &view, &host);
    same("through views", &answer, &right);
    // Nothing is written between the rows of a strided output.
    let written = answer.o.iter().filter(|x| !x.widen().is_nan()).count() as u64;
    assert_eq!(written, view.output_elements(), "elements of O that were written");
}

/// Q, K and V are heads of one buffer.
fn fc30_a(gpu: &Gpu) {
    let plain = Problem::builder().element(Element::F16).queries(2048).heads(16).kv_heads(1).head_dim(64);
    let packed = Strides::new(2048 * 18 * 64, 18 * 64, 64);
    let view = build(plain.clone().q_strides(packed).k_strides(packed).v_strides(packed));
    let plain = build(plain);
    let right = solve(gpu, &plain, &Tensors::<f16>::random(&plain, 31));

    let Tensors { q, k, v } = Tensors::<f16>::random(&view, 31);
    let mut all = vec![f16::NAN; 2048 * 18 * 64];
    for (part, at) in [(q, 0), (k, 16 * 64), (v, 17 * 64)] {
        for (to, from) in all[at..].iter_mut().zip(part) {
            if !from.is_nan() {
                *to = from;
            }
        }
    }
    let packed = gpu.stream.clone_htod(&all).expect("the packed buffer");
    let (q, k, v) = (packed.slice(..), packed.slice(16 * 64..), packed.slice(17 * 64..));
    let mut results = Results::new(&gpu.stream, &view);
    results.run(&gpu.stream, &plan(gpu, &view), Inputs { q: &q, k: &k, v: &v }).expect("packed views run");
    gpu.wait(&gpu.stream);
    same("packed", &results.download(&gpu.stream, &view), &right);
}

/// A base that the copy engine cannot take is refused by tensor and rule, and the next call is right, a hundred times.
fn fc32_base(gpu: &Gpu) {
    let problem = build(Problem::builder().queries(130).heads(2).head_dim(64));
    let plan = plan(gpu, &problem);
    let host = Tensors::<bf16>::random(&problem, 32);
    let right = solve(gpu, &problem, &host);
    let len = reach(extents(&problem)[0], problem.strides()[0]);
    for round in 0..100 {
        // Freed at the end of each round, so that the allocator hands the memory out again.
        let mut spare: CudaSlice<bf16> = gpu.stream.alloc_zeros(len + 8).expect("device memory");
        let inputs = Uploaded::new(&gpu.stream, &host);
        let mut results = Results::<bf16>::new(&gpu.stream, &problem);
        let offset = if round % 2 == 0 { 1 } else { 4 };
        let tensor = ["q", "k", "v", "o"][round / 2 % 4];
        let refused = if tensor == "o" {
            let (mut o, mut lse) = (spare.slice_mut(offset..offset + len), results.lse.view_mut());
            plan.run(&gpu.stream, inputs.inputs(), Outputs { o: &mut o, lse: &mut lse })
        } else {
            let odd = spare.slice(offset..offset + len);
            let mut inputs = inputs.inputs();
            match tensor {
                "q" => inputs.q = &odd,
                "k" => inputs.k = &odd,
                _ => inputs.v = &odd,
            }
            results.run(&gpu.stream, &plan, inputs)
        };
        let error = refused.expect_err("a base that is not a multiple of 16 bytes");
        assert!(matches!(error, Error::Misaligned { .. }), "{error}");
        let told = error.to_string();
        assert!(told.contains(&format!("tensor {tensor}")) && told.contains("16 bytes"), "{told}");
        results.run(&gpu.stream, &plan, inputs.inputs()).expect("the aligned call after it");
        gpu.wait(&gpu.stream);
        same("after a refused call", &results.download(&gpu.stream, &problem), &right);
    }
}
