//! Answers of the driver, and what they are taken for.

use super::*;

fn answered(code: u32, log: &str) -> Error {
    let needed = Version { major: 8, minor: 6 };
    load(&LoadAnswer { kernel: "forward_bf16_d128", needed, cuda: 12_040, code, text: "the driver's words", log })
}

#[test]
fn only_compute_capability_9_0_passes() {
    assert_eq!(capability(9, 0), Ok(()));
    for (major, minor) in [(8, 0), (8, 9), (9, 1), (10, 0), (12, 0)] {
        let error = capability(major, minor).expect_err("another architecture");
        assert!(error.to_string().contains("needs compute capability 9.0"), "{error}");
        assert!(error.to_string().contains(&format!("{major}.{minor}")), "{error}");
    }
}

#[test]
fn answer_222_names_the_isa_needed_and_the_newest_that_the_driver_has() {
    let error = answered(222, "").to_string();
    assert!(error.contains("PTX ISA 8.6"), "{error}");
    assert!(error.contains("supports up to PTX ISA 8.4 (CUDA 12.4)"), "{error}");
}

#[test]
fn the_newest_isa_of_each_driver() {
    let isa = [11_080, 12_000, 12_030, 12_050, 12_060, 12_080, 12_090, 13_000, 13_010, 13_050].map(newest_ptx);
    assert_eq!(isa.map(|v| v.to_string()), ["7.8", "8.0", "8.3", "8.5", "8.5", "8.7", "8.8", "9.0", "9.1", "9.5"]);
}

#[test]
fn a_broken_instruction_brings_its_line() {
    let log = "ptxas application ptx input, line 41; error   : Unknown symbol 'wgmmaa'";
    for code in [218, 209, 300] {
        let Error::Jit { kernel, log: kept, code: seen } = answered(code, log) else { panic!("not a compile error") };
        assert_eq!((kernel.as_str(), kept.as_str(), seen), ("forward_bf16_d128", log, code));
    }
    assert!(answered(218, " \n").to_string().contains("the driver's words"));
    assert!(matches!(answered(300, ""), Error::Driver { code: 300, .. }));
    assert!(matches!(answered(2, ""), Error::OutOfMemory { .. }));
}

#[test]
fn drivers_before_12_0_are_refused_by_version() {
    assert_eq!(driver_version(12_000), Ok(()));
    let error = driver_version(11_080).expect_err("too old").to_string();
    assert!(error.contains("CUDA 12.0") && error.contains("CUDA 11.8"), "{error}");
}

#[test]
fn initialisation_tells_no_driver_from_no_device() {
    assert_eq!(init(34, "stub"), Error::NoDriver);
    assert_eq!(init(100, "none"), Error::NoDevice { ordinal: 0, count: 0 });
    assert!(matches!(init(999, "unknown"), Error::Driver { call: "cuInit", code: 999, .. }));
}

#[test]
fn a_clean_kernel_passes_and_each_loss_is_named() {
    let clean = Resources { registers: 168, local_bytes: 0, shared_bytes: 200_000 };
    assert_eq!(resources("k", clean, 232_448, "info : Used 168 registers, C75 is no code, C751"), Ok(()));

    let spilled = resources("k", Resources { local_bytes: 320, ..clean }, 232_448, "320 bytes spill stores");
    let Err(Error::Spilled { local_bytes: 320, registers: 168, log, .. }) = spilled else { panic!("{spilled:?}") };
    assert_eq!(log, "320 bytes spill stores");

    let log = "info: fine\n info (C7510) wgmma serialized due to x\n(C7504) setmaxnreg ignored";
    let Err(Error::Serialized { notes, .. }) = resources("k", clean, 232_448, log) else { panic!("not seen") };
    assert_eq!(notes, "info (C7510) wgmma serialized due to x; (C7504) setmaxnreg ignored");

    let small = resources("k", clean, 166_912, "").expect_err("a smaller device").to_string();
    assert!(small.contains("200000") && small.contains("166912"), "{small}");
}

#[test]
fn no_rust_type_leaks_into_a_message() {
    let messages = [
        answered(222, ""),
        answered(218, "line 1"),
        answered(300, ""),
        Error::NoDriver,
        Error::NoDevice { ordinal: 1, count: 1 },
        Error::Misaligned { tensor: "q".into(), address: 0x7f02, rule: "a multiple of 16 bytes" },
        Error::CountersExhausted { capacity: 4096 },
        Error::CaptureCold { kernel: "k".into() },
    ];
    for message in messages.map(|error| error.to_string()) {
        for leak in ["Error", "Option", "Some(", "Vec<", "::", "&str", "usize", "CUresult", "Result"] {
            assert!(!message.contains(leak), "`{leak}` in: {message}");
        }
    }
}
