//! Who depends on whom, from `cargo metadata`. Data flows one way through the rooms, and only the last ones know the driver.

use crate::source::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Each room with the rooms that it may know. What is not listed is a leaf: it may know all, and nobody knows it.
const ROOMS: &[(&str, &[&str])] = &[
    ("ptx", &[]),
    ("schedule", &[]),
    ("schedule-macros", &["schedule"]),
    ("templates", &["schedule", "schedule-macros"]),
    ("tile", &["ptx", "schedule"]),
    ("kernels", &["ptx", "schedule", "tile"]),
    ("check", &["ptx", "schedule"]),
    ("sim", &["ptx", "schedule", "check"]),
    ("runtime", &["ptx", "schedule", "check"]),
    ("tilewright", &["ptx", "schedule", "schedule-macros", "templates", "tile", "kernels", "check", "runtime"]),
    ("tune", &["schedule", "tilewright"]),
];

/// The rooms that build and test on a machine without a driver.
const WITHOUT_DRIVER: &[&str] =
    &["ptx", "schedule", "schedule-macros", "templates", "tile", "kernels", "check", "sim", "xtask"];

/// The rooms that talk to the driver, and the doors.
const WITH_DRIVER: &[&str] = &["runtime", "tilewright", "tune", "candle", "python", "tests"];

/// A dependency edge.
struct Edge {
    to: String,
    dev: bool,
}

/// Every member with what it depends on; members by the short name of their room.
fn edges() -> BTreeMap<String, Vec<Edge>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().expect("there are packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("there are dependencies");
            let edges = dependencies
                .iter()
                .map(|dependency| Edge { to: room(&text(&dependency["name"])), dev: dependency["kind"] == "dev" });
            (room(&text(&package["name"])), edges.collect())
        })
        .collect()
}

fn room(package: &str) -> String {
    package.strip_prefix("tilewright-").unwrap_or(package).to_owned()
}

#[test]
fn data_flows_one_way_through_the_rooms() {
    let edges = edges();
    let members: BTreeSet<&str> = edges.keys().map(String::as_str).collect();
    for (room, may_know) in ROOMS {
        for edge in
            edges.get(*room).into_iter().flatten().filter(|edge| !edge.dev && members.contains(edge.to.as_str()))
        {
            assert!(
                may_know.contains(&edge.to.as_str()),
                "{room} depends on {}; it may know {may_know:?} alone. Move what it needs down, or pass it in.",
                edge.to
            );
        }
    }
}

#[test]
fn what_judges_the_lowering_is_independent_of_it() {
    let edges = edges();
    let knows = |from: &str, to: &str| edges.get(from).into_iter().flatten().any(|edge| edge.to == to && !edge.dev);
    for judge in ["check", "sim"] {
        assert!(!knows("kernels", judge), "kernels depends on {judge}, which judges it");
        for judged in ["kernels", "tile"] {
            assert!(!knows(judge, judged), "{judge} depends on {judged}, which it judges");
        }
    }
}

#[test]
fn only_the_runtime_and_the_doors_know_the_driver() {
    let edges = edges();
    for (room, edges) in &edges {
        for edge in edges.iter().filter(|edge| edge.to.starts_with("cudarc")) {
            assert!(
                WITH_DRIVER.contains(&room.as_str()),
                "{room} depends on {}; the driver's place is crates/runtime",
                edge.to
            );
        }
    }
    for room in WITHOUT_DRIVER {
        for known in closure(room, &edges) {
            assert!(
                !["runtime", "tilewright"].contains(&known.as_str()),
                "{room} reaches {known}, which knows the driver"
            );
            assert!(!known.starts_with("cudarc"), "{room} reaches {known}");
        }
    }
}

/// Everything that a room reaches: itself with its development dependencies, and what those need.
fn closure(room: &str, edges: &BTreeMap<String, Vec<Edge>>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<(&str, bool)> = vec![(room, true)];
    while let Some((from, dev)) = open.pop() {
        for edge in edges.get(from).into_iter().flatten().filter(|edge| dev || !edge.dev) {
            if reached.insert(edge.to.clone()) {
                open.push((&edge.to, false));
            }
        }
    }
    reached
}
