//! The timeline is a file that Perfetto reads: JSON, complete events, a named track for every event.

use crate::attention::Case;
use serde_json::Value;
use sim::forward::Problem;
use sim::{Machine, Options};
use std::collections::BTreeSet;

#[test]
fn a_timeline_names_roles_barriers_and_copies() {
    let schedule = templates::named("fwd_bf16_d128").expect("it ships");
    let kernel = kernels::lower(&schedule).expect("it ships").kernel;
    let case = Case::new(&kernel, &Problem::new(1, 128, 300));
    let options = Options { trace: true, ..Options::default() };
    let report = Machine::run_kernel(&kernel, case.launch(), &options).expect("it is clean");
    let trace: Value = serde_json::from_str(&report.trace.to_json()).expect("it is JSON");
    let events = trace["traceEvents"].as_array().expect("a list of events");
    let named = |name: &str| events.iter().filter(move |e| e["name"] == name && e["ph"] == "M").collect::<Vec<_>>();
    let tracks: BTreeSet<&str> = named("thread_name").iter().filter_map(|e| e["args"]["name"].as_str()).collect();
    for track in ["consumer warp 04", "consumer warp 11 products", "barrier: k.full[0]", "copy: load q[0]"] {
        assert!(tracks.contains(track), "{track} is not among {tracks:?}");
    }
    let ids: BTreeSet<(u64, u64)> =
        named("thread_name").iter().filter_map(|e| Some((e["pid"].as_u64()?, e["tid"].as_u64()?))).collect();
    for event in events.iter().filter(|e| e["ph"] == "X") {
        let id = (event["pid"].as_u64().expect("a process"), event["tid"].as_u64().expect("a thread"));
        assert!(ids.contains(&id) && event["dur"].as_u64() > Some(0), "{event}");
    }
}
