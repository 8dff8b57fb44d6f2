//! Static verifier of a PTX module. What it lets pass is [`Verified`], the one thing that can be printed, run in the
//! machine model or loaded.
//!
//! # How it looks at a kernel
//!
//! Every warp of the CTA is run through the control-flow graph with abstract registers: what comes from `%tid`,
//! constants and the shared-memory symbol is computed exactly for each lane, ring stages and parities are small sets,
//! and the rest is unknown. So branches on roles, elected lanes, named-barrier ids, shared addresses and matrix
//! descriptors resolve, and the rules read resolved events. **Where a value is unknown, no rule speaks.** A finding is
//! a fault on a path of the graph; all findings are collected.
//!
//! # The rules
//!
//! [`RULES`] gives a paragraph of why for each; every rule has a broken and a fixed twin under `tests/twins/`.
//!
//! - `D01` instruction does not fit its row
//! - `D02` register read before it is written
//! - `D03` label unknown or not unique
//! - `D04` parameter unknown or of another type
//! - `D05` name or comment that ptxas cannot read
//! - `D06` control runs past the end
//! - `F01` code that no warp reaches
//! - `F02` roles run into one another
//! - `F03` warp-wide instruction where lanes have parted
//! - `B01` barrier not initialised as declared
//! - `B02` barrier used before its initialisation is published
//! - `B03` wait without an arrival
//! - `B04` arrival without a wait
//! - `B05` arrivals do not make up the count
//! - `B06` announced bytes are not the copied bytes
//! - `B07` copy whose bytes nothing announces
//! - `B08` wait that always looks at the same parity
//! - `B09` nobody can start
//! - `B10` first wait for data passes at once
//! - `B11` tile read without its wait
//! - `B12` stage released while it is read
//! - `B13` wait that does not loop
//! - `B14` stage not released
//! - `W01` register of a product in flight is touched
//! - `W02` no fence between other code and a product
//! - `W03` wait that does not cover its products
//! - `W04` empty group
//! - `W05` product in flight at the end
//! - `W06` accumulator lists that overlap
//! - `W07` wait for too many groups
//! - `W08` descriptor does not describe the tile
//! - `W09` descriptor differs within a warpgroup
//! - `P01` ordinary store not fenced for the asynchronous proxy
//! - `P02` writers do not meet before the asynchronous read
//! - `P03` bulk store not committed
//! - `P04` source of a bulk store changed too early
//! - `P05` tile given back to copies under loads
//! - `S01` regions overlap
//! - `S02` region not aligned
//! - `S03` shared memory too large
//! - `S04` address in no region or in the wrong kind
//! - `S05` box does not fit its stage
//! - `R01` roles do not cover the CTA in warpgroups
//! - `R02` register pool oversubscribed
//! - `R03` register count out of range or direction
//! - `R04` setmaxnreg by a part of a warpgroup
//! - `R05` product needs more registers than the entry gives
//! - `R06` role declares other registers than it asks for
//! - `N01` named barrier out of range
//! - `N02` named barrier with several thread counts
//! - `N03` threads at a named barrier do not add up
//! - `N04` turn not handed on
//! - `T01` box that cannot be encoded
//! - `T02` rank and coordinates disagree
//! - `T03` map operand is no parameter's generic address
//! - `T04` tensor map that no copy uses
//! - `T05` tile and map have different swizzles
//!
//! # What is not checked
//!
//! - Numbers: whether the right elements are multiplied, masks, scales, fragment order, coordinates, offsets to
//!   global memory, alignment of global vectors. The machine model and the reference are there for that.
//! - Addresses, barrier ids, descriptors and byte counts that parameters, memory or loops of more than twelve turns
//!   decide. A barrier arrived on at an unknown address silences the rules that count arrivals.
//! - That the stage of a copy's tile is the stage of its barrier, and that consumers walk the ring in the producer's
//!   order: stages of one region are not told apart.
//! - Deadlocks after the start: `B09` follows the first turn only, and counts every arrival as lasting.
//! - Bytes that several warps announce or copy on one barrier, and copies in a loop over boxes.
//! - Reuse of a tile across warps: a store by one warp into what another warp's bulk store or product still reads
//!   (`P04`, `B12` see a warp's own). Ordinary stores to plain words are not ordered against their readers.
//! - Loads of a tile whose ring the warpgroup's number chooses, as the quantizer's (`P05`); the machine follows them.
//! - Releases and turns under a condition that two branches share: paths are followed, conditions are not.
//! - That the warps which meet at a barrier are all the writers of a tile (`P02` asks each writer for some barrier).
//! - Lane divergence by values that are merged from a lane-dependent branch with unknown condition.
//! - What ptxas makes of it: register pressure and spills, products carried over a loop's back edge behind
//!   `wait_group N` (C7514), order of packs before a wait. The generated files are assembled for that.
//! - Clusters, multicast, remote arrivals, global-memory flags and programmatic dependent launch.
//!
//! # Adding a rule
//!
//! One entry in `rules.rs`, its line above, the check in its family's file, two twins named after the code.

mod arithmetic;
mod bytes;
mod cfg;
mod dataflow;
mod define;
mod descriptor;
mod eval;
mod finding;
mod flow;
mod groups;
mod hold;
mod named;
mod pairs;
mod program;
mod progress;
mod proxy;
mod ring;
mod roles;
mod rules;
mod shared;
mod tensor;
mod turns;
mod value;
mod warp;
mod wgmma;

pub use finding::Finding;
pub use rules::{RULES, Rule, rule};

use finding::Report;
use program::Program;

/// A module that passed every rule. Only [`verify`] makes one.
#[derive(Debug, Clone)]
pub struct Verified {
    module: ptx::Module,
}

impl ptx::Proven for Verified {
    fn module(&self) -> &ptx::Module {
        &self.module
    }
}

/// Judges a module by every rule.
///
/// # Errors
/// All findings, by line; those about declarations come first.
pub fn verify(module: ptx::Module) -> Result<Verified, Vec<Finding>> {
    let found = findings(&module);
    if found.is_empty() { Ok(Verified { module }) } else { Err(found) }
}

fn findings(module: &ptx::Module) -> Vec<Finding> {
    let mut report = Report::new(&module.kernel);
    // Ill-formed instructions and oversized regions would be misread by all that follows.
    shared::total(&module.kernel, &mut report);
    define::forms(&module.header, &module.kernel, &mut report);
    if !report.is_empty() {
        return report.into_findings();
    }
    let program = Program::new(&module.kernel);
    define::check(&program, &mut report);
    if !report.is_empty() {
        return report.into_findings();
    }
    flow::check(&program, &mut report);
    shared::check(&program, &mut report);
    roles::check(&program, &mut report);
    named::check(&program, &mut report);
    turns::check(&program, &mut report);
    tensor::check(&program, &mut report);
    wgmma::check(&program, &mut report);
    descriptor::check(&program, &mut report);
    let traffic = ring::traffic(&program);
    ring::check(&program, &traffic, &mut report);
    let guarded = pairs::guarded(&program);
    proxy::check(&program, &guarded, &mut report);
    bytes::check(&program, &guarded, &mut report);
    progress::early(&program, &guarded, &mut report);
    hold::check(&program, &guarded, &mut report);
    // A count that does not add up blocks as well: say the cause, not the consequence.
    if report.clean_of(&['B', 'N', 'F']) {
        progress::check(&program, &traffic, &mut report);
    }
    report.into_findings()
}
