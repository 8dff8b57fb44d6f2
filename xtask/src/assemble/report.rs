//! What `ptxas -v` says, as data, and what of it is a fault. Pure functions of the text.

/// The report on one module.
#[derive(Debug, Default, PartialEq)]
pub struct Report {
    /// Registers per thread at entry.
    pub registers: Option<u32>,
    /// Bytes of local memory per thread.
    pub stack: u32,
    /// Bytes of spilled registers stored.
    pub spill_stores: u32,
    /// Bytes of spilled registers loaded.
    pub spill_loads: u32,
    /// Time that ptxas took.
    pub seconds: Option<f64>,
    /// Numbered messages, such as `C7510`: code and text.
    pub messages: Vec<(String, String)>,
    /// Errors, and what is said of setmaxnreg without a number.
    pub remarks: Vec<String>,
}

/// Reads the output of `ptxas -v`.
pub fn parse(log: &str) -> Report {
    let mut report = Report::default();
    for line in log.lines() {
        if let Some(message) = numbered(line) {
            report.messages.push(message);
        } else if line.contains("error") || line.contains("fatal") || line.contains("setmaxnreg") {
            report.remarks.push(line.trim().to_owned());
        }
        report.stack += before(line, " bytes stack frame");
        report.spill_stores += before(line, " bytes spill stores");
        report.spill_loads += before(line, " bytes spill loads");
        if line.contains("Used ") && line.contains(" registers") {
            report.registers = report.registers.max(Some(before(line, " registers")));
        }
        if let Some((_, time)) = line.split_once("Compile time = ") {
            let milliseconds = time.split_whitespace().next().and_then(|number| number.parse::<f64>().ok());
            report.seconds = milliseconds.map(|ms| report.seconds.unwrap_or(0.0) + ms / 1000.0);
        }
    }
    report
}

impl Report {
    /// Why the module is not accepted, given ptxas's exit code; empty if it is.
    pub fn faults(&self, exit: Option<i32>) -> Vec<String> {
        let mut faults = self.remarks.clone();
        if exit != Some(0) {
            faults.push(exit.map_or("ptxas was killed".to_owned(), |code| format!("ptxas exits with {code}")));
        } else if self.registers.is_none() {
            faults.push("ptxas reports no register count".to_owned());
        }
        if self.spill_stores + self.spill_loads > 0 {
            faults.push(format!(
                "spills registers: {} bytes of stores, {} of loads",
                self.spill_stores, self.spill_loads
            ));
        } else if self.stack > 0 {
            faults.push(format!("uses {} bytes of local memory", self.stack));
        }
        let about_code = |code: &str| code.starts_with("C75") || code.starts_with("C76");
        let bad = self.messages.iter().filter(|(code, text)| about_code(code) || text.contains("setmaxnreg"));
        faults.extend(bad.map(|(code, text)| format!("{code}: {text}")));
        faults
    }
}

/// The code and text of a line with `(C1234)` in it.
fn numbered(line: &str) -> Option<(String, String)> {
    let (_, rest) = line.split_once("(C")?;
    let (digits, text) = rest.split_once(')')?;
    let is_code = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_code.then(|| (format!("C{digits}"), text.trim().to_owned()))
}

/// The number that stands right before `unit`, or zero.
fn before(line: &str, unit: &str) -> u32 {
    let number = line.split_once(unit).map(|(head, _)| head.rsplit(|c: char| !c.is_ascii_digit()).next());
    number.flatten().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::parse;

    const CLEAN: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 16 bytes smem
ptxas info    : Compile time = 4418.500 ms
";

    #[test]
    fn a_clean_report_has_no_fault() {
        let report = parse(CLEAN);
        assert_eq!((report.registers, report.stack, report.seconds), (Some(168), 0, Some(4.4185)));
        assert_eq!(report.faults(Some(0)), [""; 0]);
    }

    #[test]
    fn spills_are_a_fault() {
        let report = parse(
            "\
ptxas info    : Function properties for k
    544 bytes stack frame, 1504 bytes spill stores, 1312 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers, 544 bytes cumulative stack size
",
        );
        assert_eq!(report.faults(Some(0)), ["spills registers: 1504 bytes of stores, 1312 of loads"]);
        let local = parse("    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nUsed 48 registers\n");
        assert_eq!(local.faults(Some(0)), ["uses 16 bytes of local memory"]);
    }

    #[test]
    fn serialised_products_are_a_fault() {
        let line = "ptxas info    : (C7520) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
                    program dependence on compiler-inserted WG.AR in divergent path in the function 'k'";
        let faults = parse(&format!("{line}\n{CLEAN}")).faults(Some(0));
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("C7520: Potential Performance Loss"), "{faults:?}");
    }

    #[test]
    fn an_ignored_setmaxnreg_is_a_fault_with_and_without_a_code() {
        let with = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.";
        let without = "ptxas info    : 'setmaxnreg' ignored to maintain minimum register requirements.";
        for line in [with, without] {
            assert_eq!(parse(&format!("{line}\n{CLEAN}")).faults(Some(0)).len(), 1, "{line}");
        }
    }

    #[test]
    fn errors_are_shown_with_the_exit_code() {
        let report = parse(
            "ptxas k.ptx, line 12; error   : Arguments mismatch for instruction 'mov'\nptxas fatal   : Ptx assembly aborted due to errors\n",
        );
        let faults = report.faults(Some(255));
        assert_eq!(faults.len(), 3);
        assert!(faults[0].contains("line 12"), "{faults:?}");
        assert_eq!(faults[2], "ptxas exits with 255");
        assert_eq!(parse("").faults(None), ["ptxas was killed"]);
        assert_eq!(parse("").faults(Some(0)), ["ptxas reports no register count"]);
    }

    #[test]
    fn other_messages_pass() {
        let report = parse(&format!("ptxas info    : (C1234) something else\n{CLEAN}"));
        assert_eq!(report.messages.len(), 1);
        assert_eq!(report.faults(Some(0)), [""; 0]);
    }
}
