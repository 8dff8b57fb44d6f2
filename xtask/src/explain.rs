//! `explain`: what a schedule needs, costs and cannot do, what a rule of the verifier means, or what the verifier finds in
//! a file. Only reads and prints.

use crate::house::{nearest, table};
use crate::new::named;
use anyhow::{Context, Result, bail};
use schedule::cost::{self, Description, H200};
use schedule::{HOPPER, Schedule, Variant, feasible, footprint};
use std::fmt::Write as _;
use std::fs;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask explain fwd_bf16_d128          shared memory, registers and cost of a shipped schedule
  cargo xtask explain fwd_bf16_d128 --problem 'batch=8 queries=2048 heads=16'
                                             and the time that is predicted on an H200, with what binds
  cargo xtask explain templates/my_fwd.rs    the same for every schedule of a file, also where it does not compile
  cargo xtask explain B03                    a rule of the verifier and why it is there
  cargo xtask explain rules                  all rules, one a line
  cargo xtask explain tests/twins/B03-broken.ptx    what the verifier finds in a kernel's text")]
pub struct Args {
    /// A schedule's name, a file with schedules, a kernel's PTX as `gen` writes it, a rule's code, or `rules`
    #[arg(value_name = "NAME|FILE|CODE")]
    subject: String,
    /// A problem that the schedules' time is predicted for: batch, queries, keys, heads, kv_heads
    #[arg(long, value_name = "WORDS")]
    problem: Option<String>,
}

/// Prints what is known of the subject.
pub fn run(args: &Args) -> Result<()> {
    let problem =
        args.problem.as_deref().map(|words| Description::parse(words).map_err(anyhow::Error::msg)).transpose()?;
    print!("{}", explain(&args.subject, problem.as_ref())?);
    Ok(())
}

fn explain(subject: &str, problem: Option<&Description>) -> Result<String> {
    if subject.ends_with(".rs") {
        let source = fs::read_to_string(subject).with_context(|| format!("cannot read {subject}"))?;
        let schedules = schedule::parse::file(&source).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(|problem| format!("\n  {subject}:{problem}")).collect();
            anyhow::anyhow!("{subject} holds no schedules that can be:{}", lines.concat())
        })?;
        let each: Result<Vec<String>> = schedules.iter().map(|schedule| of_schedule(schedule, problem)).collect();
        return Ok(each?.join("\n"));
    }
    if subject.ends_with(".ptx") {
        let text = fs::read_to_string(subject).with_context(|| format!("cannot read {subject}"))?;
        return of_kernel(&text).with_context(|| format!("cannot read {subject} as what `gen` writes"));
    }
    let all = templates::all();
    if let Ok(schedule) = named(&all, subject) {
        return of_schedule(schedule, problem);
    }
    if problem.is_some() {
        bail!("{subject} is no schedule; --problem is for schedules");
    }
    if subject == "rules" {
        let rows: Vec<Vec<String>> =
            check::RULES.iter().map(|rule| vec![format!("{}  {}", rule.code, rule.title)]).collect();
        return Ok(table(&["rule"], &rows));
    }
    if let Some(rule) = check::RULES.iter().find(|rule| rule.code.eq_ignore_ascii_case(subject)) {
        return Ok(format!("{} {}\n\n{}\n", rule.code, rule.title, rule.why));
    }
    let known = all.iter().map(|schedule| schedule.name.as_str()).chain(check::RULES.iter().map(|rule| rule.code));
    match nearest(subject, known) {
        Some(near) => bail!("{subject} is no schedule and no rule; did you mean {near}?"),
        None => bail!("{subject} is no schedule and no rule; see templates/ and: cargo xtask explain rules"),
    }
}

/// What the verifier finds; where it finds nothing, also whether the text is the one that would be printed.
fn of_kernel(text: &str) -> Result<String> {
    let verified = match check::verify(ptx::parse::module(text)?) {
        Ok(verified) => verified,
        Err(findings) => return Ok(findings.iter().map(|finding| format!("{finding}\n")).collect()),
    };
    let printed = ptx::print(&verified);
    if text == printed {
        return Ok("no findings; it stands as it prints\n".to_owned());
    }
    let same = text.lines().zip(printed.lines()).take_while(|(is, prints)| is == prints).count();
    let prints = printed.lines().nth(same).unwrap_or("(the end of the file)");
    Ok(format!("no findings; line {} prints as: {prints}\n", same + 1))
}

fn of_schedule(schedule: &Schedule, problem: Option<&Description>) -> Result<String> {
    let mut out = format!("{schedule}\n\nhash {:016x}\n", schedule.hash());
    // Writing to a String cannot fail.
    let _ = memory(&mut out, schedule)
        .and_then(|()| registers(&mut out, schedule))
        .and_then(|()| costs(&mut out, schedule));
    if let Some(problem) = problem {
        out.push_str(&predicted(schedule, problem)?);
    }
    let findings = feasible::check(schedule, &HOPPER);
    if findings.is_empty() {
        let _ = writeln!(out, "\nfeasible on {}: yes", HOPPER.name);
    } else {
        let _ = writeln!(out, "\nfeasible on {}: no", HOPPER.name);
        findings.iter().for_each(|finding| out.push_str(&format!("  {finding}\n")));
    }
    match kernels::lower(schedule) {
        Ok(_) => out.push_str("lowered: yes\n"),
        Err(refused) => out.push_str(&format!("lowered: no; {refused}\n")),
    }
    Ok(out)
}

fn memory(out: &mut String, schedule: &Schedule) -> std::fmt::Result {
    let kib = |bytes: u64| format!("{:.2} KiB", bytes as f64 / 1024.0);
    let mut rows: Vec<Vec<String>> = footprint::shared_memory(schedule)
        .iter()
        .map(|item| vec![format!("  {}", item.name), item.bytes.to_string(), kib(item.bytes)])
        .collect();
    let total = footprint::shared_bytes(schedule);
    rows.push(vec!["  aligned, in all".into(), total.to_string(), kib(total)]);
    rows.push(vec!["  a block may have".into(), HOPPER.shared_bytes.to_string(), kib(HOPPER.shared_bytes)]);
    write!(out, "\n{}", table(&["shared memory", "bytes", ""], &rows))
}

fn registers(out: &mut String, schedule: &Schedule) -> std::fmt::Result {
    let needs = footprint::registers(schedule);
    let row = |what: &str, count: u64| vec![format!("  {what}"), count.to_string()];
    let rows = [
        row("scores", needs.scores),
        row("probabilities", needs.probabilities),
        row("output", needs.output),
        row("queries", needs.queries),
        row("working", footprint::WORKING_REGISTERS),
        row("in all", needs.total() + footprint::WORKING_REGISTERS),
        row("the schedule gives a consumer", u64::from(schedule.roles.consumer.registers)),
        row("at entry", u64::from(HOPPER.entry_registers(schedule.threads()))),
    ];
    write!(out, "\n{}", table(&["registers of a consumer thread", ""], &rows))
}

fn costs(out: &mut String, schedule: &Schedule) -> std::fmt::Result {
    const KEYS: u64 = 4096;
    let (tile, per_step) = (&schedule.tile, cost::step(schedule, &HOPPER));
    writeln!(out, "\ncost, in clocks of one SM (each unit by its rate; a bound, no prediction)")?;
    writeln!(out, "  {} query rows x {} keys: {per_step}", tile.rows, tile.columns)?;
    writeln!(out, "  {} query rows x {KEYS} keys: {}", tile.rows, cost::tile(schedule, &HOPPER, KEYS))
}

/// The predicted time of a problem; what the words say of it must be the schedule's.
fn predicted(schedule: &Schedule, problem: &Description) -> Result<String> {
    let (name, causal) = (&schedule.name, schedule.variant == Variant::Causal);
    let Description { head_dim, element, causal: said, .. } = *problem;
    if let Some(other) = head_dim.filter(|dims| *dims != schedule.head_dim) {
        bail!("{name} has head dimension {}, the problem {other}", schedule.head_dim);
    }
    if let Some(other) = element.filter(|element| *element != schedule.element) {
        bail!("{name} takes {}, the problem is of {other}", schedule.element);
    }
    if said.is_some_and(|said| said != causal) {
        bail!("{name} has the {} mask, the problem not", schedule.variant);
    }
    let prediction = cost::predict(schedule, &problem.work(), &HOPPER, &H200);
    Ok(format!(
        "\npredicted on an H200 in a burst\n  {prediction}\n  {:.0} % of the bound\n",
        100.0 * prediction.bound / prediction.seconds
    ))
}

#[cfg(test)]
mod tests {
    use super::explain;
    use schedule::cost::Description;

    #[test]
    fn every_shipped_schedule_is_explained() {
        for schedule in templates::all() {
            let text = explain(&schedule.name, None).expect("it is there");
            for part in ["shared memory", "registers of a consumer", "cost", "feasible on sm_90a: yes"] {
                assert!(text.contains(part), "{}: {part}", schedule.name);
            }
        }
    }

    #[test]
    fn a_problem_is_predicted_if_it_is_the_schedules() {
        let of = |words: &str| explain("fwd_bf16_d128", Some(&Description::parse(words).expect("reads")));
        let text = of("batch=8 queries=2048 heads=16 head_dim=128").expect("it is its own");
        for part in ["predicted on an H200", "TFLOP/s", "binds: tensor"] {
            assert!(text.contains(part), "{part}");
        }
        for (words, part) in [
            ("queries=1 heads=1 head_dim=64", "head dimension 128, the problem 64"),
            ("queries=1 heads=1 element=f16", "takes bf16"),
            ("queries=1 heads=1 causal=true", "full mask"),
        ] {
            let error = of(words).expect_err("it is another's").to_string();
            assert!(error.contains(part), "{error}");
        }
        let problem = Description::parse("queries=1 heads=1").expect("reads");
        assert!(explain("B03", Some(&problem)).is_err());
    }

    #[test]
    fn every_rule_is_explained() {
        for rule in check::RULES {
            assert!(explain(rule.code, None).expect("it is there").contains(rule.title));
        }
    }

    #[test]
    fn a_kernel_is_judged_and_compared_with_its_print() {
        let file = |name: &str| crate::house::root().join("tests/twins").join(name);
        let judged = |name: &str| explain(&file(name).display().to_string(), None).expect("it parses");
        assert!(judged("B03-broken.ptx").starts_with("B03 wait without an arrival: "));
        assert_eq!(judged("B03-fixed.ptx"), "no findings; it stands as it prints\n");
        let text = std::fs::read_to_string(file("B03-fixed.ptx")).expect("it is there");
        let moved = text.replace(".version 8.0", ".version 7.0");
        let line = 1 + text.lines().position(|line| line == ".version 8.0").expect("it says its version");
        let said = super::of_kernel(&moved).expect("it parses");
        assert_eq!(said, format!("no findings; line {line} prints as: .version 8.0\n"));
    }

    #[test]
    fn the_unknown_is_refused_with_a_way_on() {
        let error = explain("zz", None).expect_err("it is unknown").to_string();
        assert!(error.contains("cargo xtask explain rules"), "{error}");
    }
}
