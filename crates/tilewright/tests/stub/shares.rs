//! What a plan that splits query tiles asks of the driver: a workspace and counters that no two launches share.

use crate::stub::{AT, Launch, Stub, count};
use crate::{run, stream};
use tilewright::{Plan, Problem, Tilewright};

/// Four query tiles of 128 rows over many keys.
fn few_tiles() -> Problem {
    Problem::builder().queries(128).keys(16_384).heads(4).head_dim(128).build().expect("fine")
}

fn split(engine: &Tilewright) -> Plan {
    let schedule = templates::named("fwd_split_bf16_d128").expect("it ships");
    Plan::with_schedule(engine, &few_tiles(), &schedule).expect("it computes this")
}

/// The first word of an argument.
fn word(plan: &Plan, launch: &Launch, name: &str) -> u64 {
    let at = plan.lowered().kernel().params.iter().position(|param| param.name == name).expect("a parameter");
    launch.arguments[at][0]
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn shares_fill_the_device_and_the_launch_says_how_many() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    assert!(engine.plan(&few_tiles()).expect("supported").schedule().splits(), "chosen by itself");
    let plan = split(&engine);
    let shares = plan.scalars().shares;
    assert!((8..=33 * 3).contains(&shares), "{shares}");
    // 128 rows of 128 columns in f32, and four numbers of 256 threads.
    assert_eq!(plan.workspace_bytes(), u64::from(4 * shares) * (128 * 128 * 4 + 256 * 16));
    stub.calls();
    run(&plan, 0x50, AT).expect("runs");
    let launch = stub.launches().pop().expect("one launch");
    assert_eq!(launch.head[0], u64::from(4 * shares).min(132));
    assert_eq!(word(&plan, &launch, "shares"), shares.into());
    assert_eq!((word(&plan, &launch, "tiles"), word(&plan, &launch, "query_tiles")), (u64::from(4 * shares), 1));
    assert!(plan.explain().to_string().contains(&format!("in {shares} shares")));

    let whole = engine.plan(&crate::stub::problem(false)).expect("supported");
    assert_eq!((whole.workspace_bytes(), whole.scalars().shares), (0, 1));
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn a_launch_takes_its_workspace_and_gives_it_back_behind_itself() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = split(&engine);
    run(&plan, 0x50, AT).expect("runs");
    stub.calls();
    for capturing in [0, 1] {
        stub.tell("capturing", capturing);
        run(&plan, 0x50, AT).expect("runs");
        let calls = stub.calls();
        let order = [format!("taken {} on 80", plan.workspace_bytes()), "launch ".into(), "given back".into()];
        let places = order.map(|call| calls.iter().position(|found| found.starts_with(&call)).expect("called"));
        assert!(places.is_sorted(), "{calls:?}");
        let none = ["cuMemAlloc_", "cuMemPool", "cuMemset", "Synchronize", "without a context"];
        assert!(none.iter().all(|call| count(&calls, call) == 0), "{calls:?}");
    }
    stub.tell("capturing", 0);
    stub.tell("cuLaunchKernelEx", 719);
    assert!(run(&plan, 0x50, AT).is_err());
    assert_eq!(count(&stub.calls(), "given back"), 1, "also behind a launch that failed");
    stub.tell("cuLaunchKernelEx", 0);
    stub.tell("cuMemAllocFromPoolAsync", 2);
    let told = run(&plan, 0x50, AT).expect_err("no memory").to_string();
    assert!(told.contains("workspace"), "{told}");
    stub.tell("cuMemAllocFromPoolAsync", 0);
    drop((plan, engine));
    assert_eq!(count(&stub.calls(), "cuMemPoolDestroy"), 1);
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn launches_that_may_overlap_share_neither_arrivals_nor_workspace() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = split(&engine);
    let of = |number: usize| {
        run(&plan, number, AT).expect("runs");
        let launch = stub.launches().pop().expect("one launch");
        [word(&plan, &launch, "arrivals"), word(&plan, &launch, "workspace")]
    };
    let ([a, at_a], [b, at_b]) = (of(0x50), of(0x60));
    // Four query tiles of two warpgroups are 32 bytes, on a line of their own.
    assert!(a.abs_diff(b) >= 64 && at_a != at_b, "{a} {b} {at_a} {at_b}");
    assert_eq!(of(0x50)[0], a, "a stream has its own");
    stub.tell("capturing", 1);
    let mut seen: Vec<u64> = (0..100).map(|_| of(0x50)[0]).chain([a, b]).collect();
    seen.sort_unstable();
    assert!(seen.windows(2).all(|pair| pair[1] - pair[0] >= 64), "{seen:?}");
    // SAFETY: the stub allocates counters on the host, and zeroes.
    assert!(seen.iter().all(|&at| unsafe { *(at as *const [u64; 4]) } == [0; 4]));
}

#[test]
#[ignore = "run by with_a_stub_driver"]
fn a_prepared_plan_keeps_its_workspace_and_is_one_launch() {
    let stub = Stub::open();
    let engine = Tilewright::open(0).expect("fit");
    let plan = split(&engine);
    // SAFETY: the stub runs nothing.
    let (one, two) = unsafe { (plan.prepare_raw(AT).expect("one"), plan.prepare_raw(AT).expect("two")) };
    engine.device().context().bind_to_thread().expect("current");
    stub.calls();
    for prepared in [&one, &one, &two] {
        // SAFETY: as above.
        unsafe { prepared.launch(stream(0x50)) }.expect("runs");
    }
    let calls = stub.calls();
    assert_eq!((count(&calls, "launch "), calls.len()), (3, 6), "{calls:?}");
    drop((one, two));
    assert_eq!(count(&stub.calls(), "cuMemFree"), 2);
}
