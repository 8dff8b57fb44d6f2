//! The checked road: cudarc's buffers.

use tilewright::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use tilewright::half::{bf16, f16};
use tilewright::{Error, Inputs, Outputs, Tilewright};

use crate::stub::{Stub, problem};

#[test]
#[ignore = "run by with_a_stub_driver"]
fn buffers_are_checked_for_type_length_and_home() {
    let stub = Stub::open();
    let here = CudaContext::new(0).expect("a context");
    let there = CudaContext::new(1).expect("a second context");
    let engine = Tilewright::new(&here).expect("fit");
    let plan = engine.warm_up(&problem(false)).expect("loads");
    let on = here.new_stream().expect("a stream");
    fn make<T: tilewright::cudarc::driver::DeviceRepr>(on: &std::sync::Arc<CudaStream>, count: usize) -> CudaSlice<T> {
        // SAFETY: nobody reads the memory.
        unsafe { on.alloc(count) }.expect("memory")
    }
    let (q, kv) = (2 * 300 * 8 * 128, 2 * 1000 * 2 * 128);
    let (q_in, k, v) = (make::<bf16>(&on, q), make::<bf16>(&on, kv), make::<bf16>(&on, kv));
    let (mut o, mut lse) = (make::<bf16>(&on, q), make::<f32>(&on, 2 * 8 * 300));
    let inputs = Inputs { q: &q_in, k: &k, v: &v };
    stub.calls();
    plan.run(&on, inputs, Outputs { o: &mut o, lse: &mut lse }).expect("runs");
    assert_eq!(stub.launches().len(), 1);
    // Views of a larger buffer do as well.
    let (rest, mut outer) = (k.slice(..), make::<bf16>(&on, 2 * q));
    plan.run(&on, Inputs { k: &rest, ..inputs }, Outputs { o: &mut outer.slice_mut(q..), lse: &mut lse })
        .expect("runs");
    assert_eq!(stub.launches().len(), 1);

    let short = make::<bf16>(&on, kv - 1);
    let told = plan.run(&on, Inputs { v: &short, ..inputs }, Outputs { o: &mut o, lse: &mut lse });
    assert!(told.expect_err("short").to_string().contains("tensor v: needs 512000 elements"));
    let far = make::<bf16>(&there.new_stream().expect("a stream"), kv);
    let told = plan.run(&on, Inputs { k: &far, ..inputs }, Outputs { o: &mut o, lse: &mut lse });
    let told = told.expect_err("elsewhere").to_string();
    assert!(told.contains("tensor k belongs to a context of GPU 1"), "{told}");
    let (q16, k16) = (make::<f16>(&on, q), make::<f16>(&on, kv));
    let mut o16 = make::<f16>(&on, q);
    let told = plan.run(&on, Inputs { q: &q16, k: &k16, v: &k16 }, Outputs { o: &mut o16, lse: &mut lse });
    assert!(matches!(told, Err(Error::Element { .. })));
    assert_eq!(stub.launches().len(), 0);
}
