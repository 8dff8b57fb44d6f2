//! Rules F: control flow. No dead code, roles that do not run into one another, and warp-wide instructions only
//! where the whole warp runs.

use ptx::Op;

use crate::finding::Report;
use crate::program::Program;
use crate::value::ALL;

/// Judges reachability, the sections of the roles and convergence.
pub(crate) fn check(program: &Program<'_>, report: &mut Report<'_>) {
    unreachable(program, report);
    sections(program, report);
    convergence(program, report);
}

fn unreachable(program: &Program<'_>, report: &mut Report<'_>) {
    for (b, block) in program.cfg.blocks.iter().enumerate() {
        let Some((line, _)) = program.cfg.insts(program.kernel, b).next() else { continue };
        if program.cfg.rank[b].is_none() {
            report.at("F01", line, "no path leads here; drop the code or branch to it".into());
        } else if program.warps.iter().all(|w| w.blocks[b].is_none()) {
            let role = block.role.and_then(|r| program.kernel.roles.get(r)).map_or("any role", |r| r.name.as_str());
            report.at("F01", line, format!("no warp of {role} ever comes here: a branch before always goes elsewhere"));
        }
    }
}

fn sections(program: &Program<'_>, report: &mut Report<'_>) {
    let name = |role: usize| program.kernel.roles.get(role).map_or("?", |r| r.name.as_str());
    for (b, block) in program.cfg.blocks.iter().enumerate() {
        let Some(role) = block.role else { continue };
        let Some(declared) = program.kernel.roles.get(role) else { continue };
        for edge in &block.next {
            if let Some(other) = program.cfg.blocks[edge.to].role
                && other != role
            {
                let line = program.cfg.insts(program.kernel, b).next_back().map_or(block.lines.start, |(l, _)| l);
                let message =
                    format!("{}'s code runs into {}'s; end it with a branch to common code", name(role), name(other));
                report.at("F02", line, message);
            }
        }
        let Some((line, _)) = program.cfg.insts(program.kernel, b).next() else { continue };
        let stray = program.warps.iter().find(|w| w.blocks[b].is_some() && !declared.warps.contains(&w.warp));
        if let Some(w) = stray {
            let (warp, other) = (w.warp, program.role_name(w.warp));
            report.at("F02", line, format!("warp {warp} of {other} comes into {}'s code; branch round it", name(role)));
        }
    }
}

fn convergence(program: &Program<'_>, report: &mut Report<'_>) {
    for (warp, block, event) in program.events() {
        let Some(inst) = program.inst(event.line) else { continue };
        let aligned = inst.spec().pattern.contains(".aligned")
            || matches!(event.op, Op::bar_sync | Op::bar_sync_all | Op::bar_arrive);
        if !aligned {
            continue;
        }
        let lanes = warp.blocks[block].as_ref().map_or(ALL, |b| b.lanes);
        let who = event.exec.lanes;
        if lanes != ALL || who != ALL && who != 0 {
            let few = (who & lanes).count_ones();
            let message = format!("only {few} lanes of warp {} come here; it needs all 32 together", warp.warp);
            report.at("F03", event.line, message);
        } else if warp.divergent[block] || !event.exec.uniform {
            let message = "it stands under a condition that may differ between lanes; branch on a warp-uniform value";
            report.at("F03", event.line, message.into());
        }
    }
}
