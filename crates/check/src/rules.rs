//! The rules as data: code, title, and why. The families' modules judge; this table only says what they judge.

/// A rule of the verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Family letter and number.
    pub code: &'static str,
    /// What a finding of it says, in a few words.
    pub title: &'static str,
    /// What goes wrong otherwise, with the source.
    pub why: &'static str,
}

/// All rules, by code within their family.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    Rule { code: "D01", title: "instruction does not fit its row",
        why: "The table row is the manual's form: operand kinds, register classes, vector lengths, qualifiers and the \
              ranges of immediates. ptxas would refuse the text, often with a message about another line. (PTX ISA, \
              \"Instruction Operands\".)" },
    Rule { code: "D02", title: "register read before it is written",
        why: "On some path no instruction has written the register, so its value is whatever the hardware left there. \
              A write under a guard counts for reads under the same guard, and a product that starts from zero does \
              not read its accumulator. (PTX ISA, \"Register State Space\".)" },
    Rule { code: "D03", title: "label unknown or not unique",
        why: "A branch needs exactly one place to go to. (PTX ISA, \"Labels\".)" },
    Rule { code: "D04", title: "parameter unknown or of another type",
        why: "A load from the parameter space must name a parameter and have its type, or it reads a neighbour's \
              bytes. (PTX ISA, \"Parameter State Space\".)" },
    Rule { code: "D05", title: "name or comment that ptxas cannot read",
        why: "Any non-ASCII byte, even in a comment, is a fatal \"Unexpected non-ASCII character\" on a line that \
              looks fine; names follow the manual's identifiers. (PTX ISA, \"Identifiers\".)" },
    Rule { code: "D06", title: "control runs past the end",
        why: "A kernel's last instruction is a `ret` or a branch; what follows the body in memory is not code. (PTX \
              ISA, \"ret\".)" },
    Rule { code: "F01", title: "code that no warp reaches",
        why: "Dead code hides a wrong branch: a role that nobody enters, or a drain that is jumped over. (PTX ISA, \
              \"bra\".)" },
    Rule { code: "F02", title: "roles run into one another",
        why: "Roles differ in registers and in what they wait for. A warp in another role's code waits on barriers \
              that count without it, and after `setmaxnreg` it has not the registers. (PTX ISA, \"setmaxnreg\".)" },
    Rule { code: "F03", title: "warp-wide instruction where lanes have parted",
        why: "`.aligned` instructions, named barriers among them, are executed by all lanes of the warp together; \
              under a lane-dependent branch the behaviour is undefined, and ptxas serialises products (C7518, C7520). \
              (PTX ISA, \"bar\", \"wgmma.mma_async\".)" },
    Rule { code: "B01", title: "barrier not initialised as declared",
        why: "Each mbarrier is initialised once, by one thread, with the arrivals that its region declares. A second \
              init resets a phase under way, another count ends phases early or never. (PTX ISA, \"mbarrier.init\".)" },
    Rule { code: "B02", title: "barrier used before its initialisation is published",
        why: "Other threads and the asynchronous proxy see an init only after `fence.mbarrier_init` by the \
              initialiser and a barrier of the whole CTA. (PTX ISA, \"membar/fence\".)" },
    Rule { code: "B03", title: "wait without an arrival",
        why: "A phase completes by arrivals; where nothing arrives on the barrier, the wait spins for ever. (PTX ISA, \
              \"Phase of the mbarrier object\".)" },
    Rule { code: "B04", title: "arrival without a wait",
        why: "Arrivals that nobody waits for are a release that the other side does not heed: it overwrites the stage \
              while it is read. (PTX ISA, \"mbarrier.arrive\".)" },
    Rule { code: "B05", title: "arrivals do not make up the count",
        why: "A phase ends when exactly the initialised number of threads has arrived. Too few deadlock after one \
              turn of the ring; too many end the phase early, and the stage is overwritten while it is read. (PTX \
              ISA, \"mbarrier.arrive\".)" },
    Rule { code: "B06", title: "announced bytes are not the copied bytes",
        why: "A phase also waits for its transaction bytes. A tensor copy always brings the whole box, edges \
              included; announcing more hangs, announcing less lets the phase end early, and a phase holds less than \
              2^20 bytes. (PTX ISA, \"Tracking asynchronous operations by mbarrier\".)" },
    Rule { code: "B07", title: "copy whose bytes nothing announces",
        why: "Without `expect_tx` the phase does not wait for the copy: readers start before the data has come. (PTX \
              ISA, \"mbarrier.expect_tx\".)" },
    Rule { code: "B08", title: "wait that always looks at the same parity",
        why: "A wait names the phase by its parity. In a loop the parity must flip each time the ring wraps; \
              otherwise every second turn passes at once or never. (PTX ISA, \"mbarrier.try_wait\".)" },
    Rule { code: "B09", title: "nobody can start",
        why: "Followed from the entry with every arrival that can be reached, some warp stops for good: each side \
              waits for the other first. The producer's first wait for an empty stage looks at parity 1, which a \
              fresh barrier satisfies; turns need one arrival ahead of their loop. (PTX ISA, \"mbarrier.try_wait\".)" },
    Rule { code: "B10", title: "first wait for data passes at once",
        why: "A fresh barrier is in phase 0 and counts the phase of parity 1 as completed, so a consumer that starts \
              at parity 1 reads before the copy. (PTX ISA, \"mbarrier.try_wait\".)" },
    Rule { code: "B11", title: "tile read without its wait",
        why: "A tile that a copy fills may be read between the wait on its full barrier and its release. Only the \
              completed wait makes the copied bytes visible. (PTX ISA, \"Async proxy\".)" },
    Rule { code: "B12", title: "stage released while it is read",
        why: "After the arrival on the empty barrier the producer may overwrite the stage. Products in flight must \
              have been waited for, and bulk stores must have read their source. (PTX ISA, \"wgmma.wait_group\", \
              \"cp.async.bulk.wait_group\".)" },
    Rule { code: "B13", title: "wait that does not loop",
        why: "`try_wait` may return false after a time limit of the system. Its predicate must send control back to \
              it. (PTX ISA, \"mbarrier.try_wait\".)" },
    Rule { code: "B14", title: "stage not released",
        why: "A consumer that waits for a stage and does not arrive on its empty barrier keeps it: after as many \
              turns as the ring has stages, the producer waits for ever. (PTX ISA, \"mbarrier.arrive\".)" },
    Rule { code: "W01", title: "register of a product in flight is touched",
        why: "Accumulators and A registers belong to the tensor core until the covering `wait_group`; reading or \
              writing them before is undefined, and ptxas serialises every product (C7513, C7514). (PTX ISA, \
              \"wgmma.mma_async\".)" },
    Rule { code: "W02", title: "no fence between other code and a product",
        why: "`wgmma.fence` orders ordinary accesses to accumulators and A registers before a product that uses them; \
              it stands before the first product and after any such access. (PTX ISA, \"wgmma.fence\".)" },
    Rule { code: "W03", title: "wait that does not cover its products",
        why: "`wait_group` counts committed groups only; products issued since the last commit run on. (PTX ISA, \
              \"wgmma.commit_group\".)" },
    Rule { code: "W04", title: "empty group",
        why: "A commit with no product since the last one makes ptxas insert a dummy product, and shifts what the \
              next `wait_group N` covers. (PTX ISA, \"wgmma.commit_group\".)" },
    Rule { code: "W05", title: "product in flight at the end",
        why: "Every path to `ret` has a `wait_group 0`; ptxas serialises products that it sees leave a loop in flight \
              (C7514, C7516). (PTX ISA, \"wgmma.wait_group\".)" },
    Rule { code: "W06", title: "accumulator lists that overlap",
        why: "One accumulator is one list of registers in one order. Permuted, overlapping or repeated registers make \
              ptxas copy, and serialise for want of registers (C7511). (PTX ISA, \"wgmma.mma_async\".)" },
    Rule { code: "W07", title: "wait for too many groups",
        why: "The hardware counts seven groups in flight; a larger number is clamped to 7, so the wait covers more \
              than the text says. (Measured in SASS: WARPGROUP.DEPBAR.LE gsb0.)" },
    Rule { code: "W08", title: "descriptor does not describe the tile",
        why: "Start, swizzle, stride and base offset must be the tile's. A wrong swizzle leaves row 0 of every 8 \
              right and permutes the rest; a wrong start, or a step along k past the end of the rows, reads a neighbour. 8-bit \
              operands are contiguous along k alone: a tile that is not must be transposed first. The swizzle field counts 1 = 128, 2 = 64, \
              3 = 32 bytes, unlike the tensor map's. (PTX ISA, \"Matrix Descriptor Format\".)" },
    Rule { code: "W09", title: "descriptor differs within a warpgroup",
        why: "A product is one instruction of four warps; all of them must give the same descriptor. (PTX ISA, \
              \"wgmma.mma_async\".)" },
    Rule { code: "P01", title: "ordinary store not fenced for the asynchronous proxy",
        why: "Products and tensor copies read shared memory through another proxy. Every writing thread executes \
              `fence.proxy.async` between its stores and that read, or the arrival that hands the tile to its reader; \
              otherwise stale bytes are read, depending on timing. \
              (PTX ISA, \"Async proxy\".)" },
    Rule { code: "P02", title: "writers do not meet before the asynchronous read",
        why: "The fence covers the thread's own stores. Before one thread or warpgroup reads what others wrote, or \
              arrives for them on its full barrier, all of them meet at a barrier after their fences. (PTX ISA, \"bar\".)" },
    Rule { code: "P03", title: "bulk store not committed",
        why: "`wait_group` counts committed groups only, so a store without a commit is never waited for. (PTX ISA, \
              \"cp.async.bulk.commit_group\".)" },
    Rule { code: "P04", title: "source of a bulk store changed too early",
        why: "A bulk store reads its source later. Before the tile is written again, and before the CTA leaves, the \
              issuing thread waits with `wait_group.read`. (PTX ISA, \"cp.async.bulk.wait_group\".)" },
    Rule { code: "P05", title: "tile given back to copies under loads",
        why: "A load that is under way holds back neither the arrival that gives its tile back nor the copy that fills it \
              next, which is of another proxy: it may take what comes after, rarely. Every reader executes \
              `fence.proxy.async` between its loads and that arrival. (PTX ISA, \"Async proxy\".)" },
    Rule { code: "S01", title: "regions overlap",
        why: "Two regions of the shared memory share bytes, so that one's data overwrites the other's. (PTX ISA, \
              \"Shared State Space\".)" },
    Rule { code: "S02", title: "region not aligned",
        why: "Swizzle patterns repeat every 1024, 512 or 256 bytes of the absolute address, and every stage must \
              start on that boundary; barriers are 8-aligned. Otherwise rows are rotated in some stages only. (PTX \
              ISA, \"Swizzling Modes\", \"mbarrier\".)" },
    Rule { code: "S03", title: "shared memory too large",
        why: "A CTA has 232448 bytes (227 KiB) on compute capability 9.0; the launch would fail. (CUDA programming \
              guide, \"Technical Specifications\".)" },
    Rule { code: "S04", title: "address in no region or in the wrong kind",
        why: "Every address that can be computed lies in one region of the kind that the instruction works on, \
              aligned and with all its bytes. (PTX ISA, \"Addresses as Operands\".)" },
    Rule { code: "S05", title: "box does not fit its stage",
        why: "A tensor copy writes or reads the whole box from an address on the swizzle's boundary. A load past the \
              stage's end overwrites the next stage; a store may read across the stages of an idle ring, not past it. \
              (PTX ISA, \"cp.async.bulk.tensor\".)" },
    Rule { code: "R01", title: "roles do not cover the CTA in warpgroups",
        why: "Every warp has one role, a role is whole groups of four warps, a CTA has at most 1024 threads, and \
              `.minnctapersm` is given, without which ptxas drops `setmaxnreg` (C7508). (PTX ISA, \"setmaxnreg\", \
              \"wgmma.mma_async\".)" },
    Rule { code: "R02", title: "register pool oversubscribed",
        why: "The new counts of all warpgroups together must fit what they entered with; otherwise an `inc` blocks \
              for ever, and ptxas does not say so. (PTX ISA, \"setmaxnreg\".)" },
    Rule { code: "R03", title: "register count out of range or direction",
        why: "`setmaxnreg` takes multiples of 8 from 24 to 256; `inc` must not lower and `dec` must not raise the \
              count at entry, which is 65536 by threads and CTAs, rounded down to 8. (PTX ISA, \"setmaxnreg\".)" },
    Rule { code: "R04", title: "setmaxnreg by a part of a warpgroup",
        why: "All four warps execute the same `setmaxnreg`; otherwise the kernel hangs or registers are corrupted. \
              (PTX ISA, \"setmaxnreg\".)" },
    Rule { code: "R05", title: "product needs more registers than the entry gives",
        why: "ptxas refuses a product when the count at entry is below N/2 + 26, or N/2 + 30 with A in registers, \
              whatever a later `inc` asks for (C7602, measured)." },
    Rule { code: "R06", title: "role declares other registers than it asks for",
        why: "The declared count feeds the register budget of the schedule; its `setmaxnreg` must say the same. (PTX \
              ISA, \"setmaxnreg\".)" },
    Rule { code: "N01", title: "named barrier out of range",
        why: "There are 16 named barriers, and id 0 is the one that `bar.sync 0` of the whole CTA uses. (PTX ISA, \
              \"bar\".)" },
    Rule { code: "N02", title: "named barrier with several thread counts",
        why: "A barrier opens when the given number of threads has come, a multiple of 32. All who use an id give the \
              same number, or it opens for some and stays shut for others. (PTX ISA, \"bar\".)" },
    Rule { code: "N03", title: "threads at a named barrier do not add up",
        why: "The warps that sync or arrive at an id are as many threads as it counts. More means that two groups \
              meet on one id and release each other; fewer means a deadlock. (PTX ISA, \"bar\".)" },
    Rule { code: "N04", title: "turn not handed on",
        why: "Warpgroups that take turns wait at their own barrier and arrive at the next one's. Where a loop does one \
              more often than the other, the turns run out and everyone waits. (PTX ISA, \"bar\".)" },
    Rule { code: "T01", title: "box that cannot be encoded",
        why: "A tensor map has 1 to 5 dimensions, box sides of 1 to 256, and an inner side that is a multiple of 16 \
              bytes and at most the swizzle's span. The driver refuses others at launch. (CUDA driver API, \
              \"cuTensorMapEncodeTiled\".)" },
    Rule { code: "T02", title: "rank and coordinates disagree",
        why: "The instruction's rank, its number of coordinates and the map's dimensions are the same number. (PTX \
              ISA, \"cp.async.bulk.tensor\".)" },
    Rule { code: "T03", title: "map operand is no parameter's generic address",
        why: "Copies take a generic address: `mov.b64` of the parameter, then `cvta.param.u64`. Without the cvta the \
              raw offset assembles and faults or hangs at the first copy. (PTX ISA, \"cp.async.bulk.tensor\".)" },
    Rule { code: "T04", title: "tensor map that no copy uses",
        why: "The launcher encodes every map; one that nothing uses is a copy that was lost. (PTX ISA, \"Tensors\".)" },
    Rule { code: "T05", title: "tile and map have different swizzles",
        why: "The copy permutes 16-byte chunks by the map's swizzle, and readers undo the tile's. (PTX ISA, \
              \"Swizzling Modes\".)" },
];

/// The rule of that code.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.code == code)
}
