//! A gate: one side says that something has left shared memory, the other waits for it. Half a ring of one stage.

use ptx::{Operand, R32, op};

use crate::asm::Asm;
use crate::layout::Layout;
use crate::ring::{End, wait_parity};

/// One mbarrier that opens once a round.
#[derive(Debug, Clone)]
pub struct Gate {
    name: String,
    barrier: u32,
    arrivals: u32,
}

impl Gate {
    /// A gate that `arrivals` arrivals open.
    pub fn new(layout: &mut Layout, name: &str, arrivals: u32) -> Gate {
        Gate { name: name.to_owned(), barrier: layout.barriers(&format!("{name}.empty"), 1, arrivals), arrivals }
    }

    /// Initialises the barrier; one thread, before the CTA's first barrier.
    pub fn init(&self, asm: &mut Asm, smem: R32) {
        asm.emit(op::mbarrier_init(Operand::at(smem, self.barrier as i32), self.arrivals));
    }

    /// The waiting side: the first round passes at once.
    pub fn end(&self, asm: &mut Asm) -> End {
        End::open(asm)
    }

    /// Waits for this round's opening, and turns to the next.
    pub fn wait(&self, asm: &mut Asm, smem: R32, end: &End) {
        wait_parity(asm, Operand::at(smem, self.barrier as i32), end.phase(), &format!("{}_EMPTY", self.name));
        end.turn(asm);
    }

    /// Arrives, in every thread that runs this.
    pub fn open(&self, asm: &mut Asm, smem: R32) {
        asm.emit(op::mbarrier_arrive(Operand::Sink, Operand::at(smem, self.barrier as i32)));
    }
}
