//! What is asked of the driver, seen from a stand-in that writes down every call (`stub/cuda.rs`).
//!
//! The tests proper are ignored here and run by [`with_a_stub_driver`] in a process of its own, where the dynamic
//! linker finds the stub under the driver's name.
#![cfg(target_os = "linux")]

#[path = "stub/buffers.rs"]
mod buffers;
#[path = "stub/eight.rs"]
mod eight;
#[path = "stub/shares.rs"]
mod shares;
#[path = "stub/mod.rs"]
mod stub;

use std::path::PathBuf;
use std::process::Command;

use stub::{AT, Stub, count, problem};
use tilewright::cudarc::driver::CudaContext;
use tilewright::{CUstream, Error, Plan, Problem, RawPointers, Result, Tilewright};

/// Compiles the stub and runs the ignored tests of this file with it.
#[test]
fn with_a_stub_driver() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stub-driver");
    std::fs::create_dir_all(&folder).expect("a folder for the stub");
    let library = folder.join("libcuda.so.1");
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stub/cuda.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let made = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "cuda", "-C", "panic=abort", "-o"])
        .args([&library, &source])
        .status()
        .expect("rustc runs");
    assert!(made.success(), "the stub compiles");
    // The bindings try the name without a version first.
    let other = folder.join("libcuda.so");
    let _ = std::fs::remove_file(&other);
    std::os::unix::fs::symlink(&library, &other).expect("a link beside the stub");
    let run = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", &folder)
        .env(Stub::VARIABLE, "1")
        .output()
        .expect("this test runs again");
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    assert!(!out.contains(" 0 passed"), "{out}");
}

/// A stream of the stub, which looks at none.
fn stream(number: usize) -> CUstream {
    std::ptr::without_provenance_mut(number)
}

/// Runs a plan on a stream of that number.
fn run(plan: &Plan, number: usize, at: RawPointers) -> Result<()> {
    // SAFETY: the stub looks at no stream and runs nothing; an address is a number to it.
    unsafe { plan.run_raw(stream(number), at) }
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn unfit_devices_are_refused_before_anything_is_made_on_them() {
    let stub = Stub::open();
    for (major, minor) in [(8, 0), (8, 9), (10, 0), (12, 0)] {
        stub.reset();
        stub.tell("major", major);
        stub.tell("minor", minor);
        let error = Tilewright::open(0).expect_err("another architecture");
        assert_eq!(error, Error::NotHopper { major: major as i32, minor: minor as i32 });
        let calls = stub.calls();
        assert!(count(&calls, "Ctx") == 0 && count(&calls, "cuModule") == 0, "{calls:?}");
    }
    stub.reset();
    stub.tell("version", 11_080);
    assert!(matches!(Tilewright::open(0), Err(Error::DriverTooOld { .. })));
    stub.reset();
    assert_eq!(Tilewright::open(2).err(), Some(Error::NoDevice { ordinal: 2, count: 2 }));
    stub.tell("cuInit", 100);
    assert_eq!(Tilewright::open(0).err(), Some(Error::NoDevice { ordinal: 0, count: 0 }));
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn a_refused_kernel_brings_the_drivers_reason_and_leaves_nothing_loaded() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = engine.plan(&problem(false)).expect("supported");

    stub.tell("version", 12_000);
    stub.tell("cuModuleLoadDataEx", 222);
    let told = plan.warm_up().expect_err("too old").to_string();
    assert!(told.contains("needs PTX ISA 8.") && told.contains("supports up to PTX ISA"), "{told}");

    stub.tell("cuModuleLoadDataEx", 218);
    stub.log(1, c"ptxas application ptx input, line 9; fatal : Parsing error near 'wgmmma': syntax error");
    let told = plan.warm_up().expect_err("broken").to_string();
    assert!(told.contains("line 9") && told.contains("wgmmma") && told.contains(&plan.schedule().name), "{told}");

    stub.tell("cuModuleLoadDataEx", 0);
    stub.calls();
    stub.tell("local", 320);
    assert!(matches!(plan.warm_up(), Err(Error::Spilled { local_bytes: 320, registers: 168, .. })));
    stub.tell("local", 0);
    stub.log(0, c"ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized");
    assert!(matches!(plan.warm_up(), Err(Error::Serialized { .. })));
    let calls = stub.calls();
    assert_eq!((count(&calls, "cuModuleLoadDataEx"), count(&calls, "cuModuleUnload")), (2, 2));

    stub.log(0, c"ptxas info : Used 168 registers");
    let report = plan.warm_up().expect("a good load after bad ones");
    assert!(report.log.contains("Used 168 registers") && report.registers == 168);
    let calls = stub.calls();
    assert_eq!(count(&calls, &format!("shared {}", plan.lowered().kernel().shared_bytes())), 1);
    drop((plan, engine));
    assert_eq!(count(&stub.calls(), "cuModuleUnload"), 1);
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn a_slow_load_is_told_once_and_printed_nowhere() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let hear = told.clone();
    engine.on_slow_load(move |report, _| hear.lock().expect("not poisoned").push(report.kernel.clone()));
    engine.warm_up(&problem(false)).expect("loads");
    stub.tell("load_ms", 1010);
    let slow = engine.warm_up(&problem(true)).expect("loads");
    engine.warm_up(&problem(true)).expect("is there");
    assert_eq!(*told.lock().expect("not poisoned"), [slow.schedule().name.clone()]);
    assert!(slow.explain().to_string().contains("168 registers"));
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn a_warm_run_is_maps_a_counter_and_one_launch() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    for causal in [false, true] {
        let plan = engine.warm_up(&problem(causal)).expect("loads");
        run(&plan, 0x50, AT).expect("runs");
        stub.calls();
        for _ in 0..100 {
            run(&engine.plan(&problem(causal)).expect("supported"), 0x50, AT).expect("runs");
        }
        let mut calls = stub.calls();
        assert_eq!((count(&calls, "cuTensorMapEncodeTiled"), count(&calls, "cuLaunchKernelEx")), (400, 100));
        let allowed = ["cuTensorMap", "cuLaunch", "launch ", "cuStreamIsCapturing", "cuStreamGetId", "cuCtxP"];
        calls.retain(|call| !allowed.iter().any(|start| call.starts_with(start)));
        assert!(calls.is_empty(), "{calls:?}");
    }
    assert_eq!(engine.loads().len(), 2);
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn the_kernel_gets_what_the_problem_says() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = engine.warm_up(&problem(true)).expect("loads");
    stub.calls();
    run(&plan, 0x50, AT).expect("runs");
    let launch = stub.launches().pop().expect("one launch");
    let kernel = plan.lowered().kernel();
    let tiles = 300_u64.div_ceil(plan.schedule().tile.rows.into()) * 16;
    let [x, y, z, threads, shared, on] = launch.head;
    assert_eq!((x, y, z, threads), (tiles.min(132), 1, 1, kernel.threads.into()));
    assert_eq!((shared, on), (kernel.shared_bytes().into(), 0x50));
    assert_eq!(launch.arguments.len(), kernel.params.len());
    let word = |name: &str| {
        let at = kernel.params.iter().position(|param| param.name == name).expect("a parameter");
        &launch.arguments[at]
    };
    for (name, address, dims, strides) in [
        ("q", AT.q, [128, 300, 8, 2], [2048, 256, 614_400]),
        ("k", AT.k, [128, 1000, 2, 2], [512, 256, 512_000]),
        ("v", AT.v, [128, 1000, 2, 2], [512, 256, 512_000]),
        ("o", AT.o, [128, 300, 8, 2], [2048, 256, 614_400]),
    ] {
        let map = word(name);
        assert_eq!((map[0], map[1], &map[2..6], &map[7..10]), (address, 4, &dims[..], &strides[..]), "{name}");
    }
    assert_eq!((word("lse")[0], word("queries")[0], word("keys")[0]), (AT.lse, 300, 1000));
    assert_eq!((word("heads")[0], word("group")[0], word("tiles")[0]), (8, 4, tiles));
    let scale = 128_f64.sqrt().recip() * std::f64::consts::LOG2_E;
    assert_eq!(word("scale_log2")[0], u64::from((scale as f32).to_bits()));
    assert_eq!(word("scale_pow2")[0], u64::from(0.125_f32.to_bits()));
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn launches_that_may_overlap_never_share_a_counter() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = engine.warm_up(&problem(true)).expect("loads");
    let at = plan.lowered().kernel().params.iter().position(|param| param.name == "counter").expect("a dynamic grid");
    let counter = |number: usize| {
        run(&plan, number, AT).expect("runs");
        stub.launches().pop().expect("one launch").arguments[at][0]
    };
    let (a, b) = (counter(0x50), counter(0x60));
    assert_ne!(a, b);
    assert_eq!((counter(0x50), counter(0x60)), (a, b));
    stub.tell("capturing", 1);
    let mut seen: Vec<u64> = (0..4000).map(|_| counter(0x50)).chain([a, b]).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4002);
    assert!(seen.iter().all(|counter| counter % 64 == 0));
    // SAFETY: the stub allocates on the host, and zeroes.
    assert!(seen.iter().all(|&counter| unsafe { *(counter as *const u32) } == 0));

    // Two of 4096 are the streams'; inside a capture nothing is added, outside of it more are made ready.
    let capture = |launches: usize| (0..launches).find_map(|_| run(&plan, 0x50, AT).err());
    assert_eq!(capture(94), None);
    stub.calls();
    let told = capture(1).expect("exhausted").to_string();
    assert!(told.contains("reserve_counters"), "{told}");
    assert_eq!(count(&stub.calls(), "cuMemAlloc"), 0);
    stub.tell("capturing", 0);
    counter(0x50);
    engine.reserve_counters(5000).expect("room");
    stub.tell("capturing", 1);
    assert_eq!(capture(5000), None);
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn a_cold_first_run_inside_a_capture_names_the_warm_up() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = engine.plan(&problem(false)).expect("supported");
    stub.tell("capturing", 1);
    stub.calls();
    let told = run(&plan, 0x50, AT).expect_err("cold").to_string();
    assert!(told.contains("warm_up"), "{told}");
    assert_eq!(count(&stub.calls(), "cuModule"), 0);
    // Another plan of the same kernel makes it warm.
    engine.warm_up(&problem(false)).expect("loads");
    run(&plan, 0x50, AT).expect("warm");
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn a_prepared_plan_is_one_launch_each_time() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = engine.plan(&problem(true)).expect("supported");
    // SAFETY: the stub runs nothing.
    let (one, two) = unsafe { (plan.prepare_raw(AT).expect("one"), plan.prepare_raw(AT).expect("two")) };
    engine.device().context().bind_to_thread().expect("current");
    stub.calls();
    for prepared in [&one, &one, &two] {
        // SAFETY: as above.
        unsafe { prepared.launch(stream(0x50)) }.expect("runs");
    }
    let calls = stub.calls();
    let launches: Vec<_> = calls.iter().filter(|call| call.starts_with("launch ")).collect();
    assert_eq!((launches.len(), calls.len()), (3, 6), "{calls:?}");
    assert_eq!(launches[0], launches[1]);
    assert_ne!(launches[1], launches[2], "two prepared plans have counters of their own");
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn zero_sizes_launch_nothing_and_no_keys_touch_no_key_memory() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let of = |batch, queries, keys| {
        Problem::builder().batch(batch).queries(queries).keys(keys).heads(2).head_dim(64).build().expect("fine")
    };
    let null = RawPointers { q: 0, k: 0, v: 0, o: 0, lse: 0 };
    for problem in [of(0, 3952, 16), of(2, 0, 5)] {
        let plan = engine.plan(&problem).expect("supported");
        stub.calls();
        run(&plan, 0, null).expect("nothing to do");
        // SAFETY: as above.
        unsafe { plan.prepare_raw(null).expect("nothing to do").launch(stream(0)) }.expect("nothing to do");
        assert_eq!(stub.calls(), Vec::<String>::new());
    }
    let plan = engine.plan(&of(2, 3, 0)).expect("supported");
    stub.calls();
    run(&plan, 0x50, RawPointers { k: 0, v: 0, ..AT }).expect("runs");
    let launch = stub.launches().pop().expect("one launch");
    for map in &launch.arguments[1..3] {
        assert_eq!((map[0], &map[2..6]), (AT.q, &[64, 1, 1, 1][..]));
    }
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn odd_addresses_are_refused_by_tensor_and_the_next_call_works() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = engine.warm_up(&problem(false)).expect("loads");
    for (name, offset) in ["q", "k", "v", "o"].into_iter().flat_map(|name| [(name, 2), (name, 8)]) {
        let mut at = AT;
        *match name {
            "q" => &mut at.q,
            "k" => &mut at.k,
            "v" => &mut at.v,
            _ => &mut at.o,
        } += offset;
        stub.calls();
        let told = run(&plan, 0x50, at).expect_err("odd").to_string();
        assert!(told.contains(&format!("tensor {name}: base address")) && told.contains("16 bytes"), "{told}");
        assert_eq!(stub.launches().len(), 0);
        run(&plan, 0x50, AT).expect("even");
    }
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn the_callers_context_stays_and_a_fresh_thread_needs_none() {
    let stub = Stub::open();
    let other = CudaContext::new(1).expect("a second context");
    let engine = Tilewright::open(0).expect("fit");
    let current = stub::current();
    assert_eq!(current, other.cu_ctx().addr());
    let plan = engine.warm_up(&problem(true)).expect("loads");
    run(&plan, 0x50, AT).expect("runs");
    assert_eq!(stub::current(), current);
    assert!(run(&plan, 0x50, RawPointers { q: 1, ..AT }).is_err());
    assert_eq!(stub::current(), current);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            run(&plan, 0x70, AT).expect("runs");
            assert_eq!(stub::current(), 0);
        });
    });
    drop((plan, engine));
    assert!(stub.calls().iter().all(|call| !call.ends_with("without a context")));
    assert_eq!(stub::current(), current);
}
