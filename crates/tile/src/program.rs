//! A kernel in the making: parameters, shared memory, roles and code, put together into a module at the end.

use std::ops::Range;

use ptx::qual::{Bits, Cmp, Int, Num, Regs, Shr, Shuffle, Value, Wide};
use ptx::{F32, Kernel, Label, Module, Operand, Param, ParamKind, Pred, R32, R64, Role, Special, TensorMap, op};

use crate::asm::Asm;
use crate::layout::Layout;
use crate::shared::SharedTile;
use crate::{WARPGROUP, WARPS};

/// Bytes that a thread fills at once.
const FILLED_BYTES: u32 = 16;

/// A kernel in the making.
#[derive(Debug)]
pub struct Program {
    /// Where its code goes.
    pub asm: Asm,
    /// Its shared memory.
    pub layout: Layout,
    name: String,
    header: Vec<String>,
    params: Vec<Param>,
    roles: Vec<Role>,
    threads: u32,
    exit: Label,
}

/// Who a thread is.
#[derive(Debug, Clone, Copy)]
pub struct Threads {
    /// First byte of the dynamic shared memory.
    pub smem: R32,
    /// Thread in the CTA.
    pub thread: R32,
    /// Lane in the warp.
    pub lane: R32,
    /// Warp in the CTA, the same register in every lane so that addresses made from it stay uniform.
    pub warp: R32,
    /// Warpgroup in the CTA, likewise.
    pub warpgroup: R32,
}

impl Program {
    /// An empty kernel of whole warpgroups. `header` stands as comments at the head of the text.
    pub fn new(name: &str, header: Vec<String>, warpgroups: u32) -> Program {
        let mut asm = Asm::default();
        let exit = asm.label("EXIT");
        Program {
            asm,
            layout: Layout::default(),
            name: name.to_owned(),
            header,
            params: Vec::new(),
            roles: Vec::new(),
            threads: warpgroups * WARPGROUP,
            exit,
        }
    }

    /// Declares a tensor map and brings its generic address into a register.
    pub fn tensor(&mut self, name: &str, map: TensorMap) -> R64 {
        self.declare(name, ParamKind::Tensor(map));
        let symbol = Operand::Symbol(name.to_owned());
        let address = self.asm.b64(|d| op::mov_param(d, symbol));
        self.asm.b64(|d| op::cvta_param(d, address))
    }

    /// Declares and loads a 32-bit parameter.
    pub fn u32(&mut self, name: &str) -> R32 {
        self.declare(name, ParamKind::U32);
        self.asm.b32(|d| op::ld_param_b32(d, Operand::at_symbol(name, 0)))
    }

    /// Declares and loads a 64-bit parameter.
    pub fn u64(&mut self, name: &str) -> R64 {
        self.declare(name, ParamKind::U64);
        self.asm.b64(|d| op::ld_param_b64(d, Operand::at_symbol(name, 0)))
    }

    /// Declares and loads a single-precision parameter.
    pub fn f32(&mut self, name: &str) -> F32 {
        self.declare(name, ParamKind::F32);
        self.asm.f32(|d| op::ld_param_f32(d, Operand::at_symbol(name, 0)))
    }

    fn declare(&mut self, name: &str, kind: ParamKind) {
        self.params.push(Param { name: name.to_owned(), kind });
    }

    /// Finds out who the thread is.
    pub fn threads(&mut self) -> Threads {
        let asm = &mut self.asm;
        let smem = asm.b32(|d| op::mov_shared(d, Operand::Symbol(Kernel::SHARED_SYMBOL.to_owned())));
        let thread = asm.b32(|d| op::mov_special(d, Special::TidX));
        let lane = asm.b32(|d| op::and(Bits::B32, d, thread, 31));
        let divergent = asm.b32(|d| op::shr(Shr::U32, d, thread, 5));
        let warp = asm.b32(|d| op::shfl_sync(Shuffle::Idx, d, divergent, 0, 31, -1));
        let warpgroup = asm.b32(|d| op::shr(Shr::U32, d, warp, 2));
        Threads { smem, thread, lane, warp, warpgroup }
    }

    /// Runs code in one thread of the CTA, then fences the barriers it initialised.
    pub fn initialise(&mut self, threads: &Threads, code: impl FnOnce(&mut Asm)) {
        let asm = &mut self.asm;
        let first = asm.compare(Cmp::Eq, Num::U32, threads.thread, 0);
        asm.only_if(first, "INITIALISED", |asm| {
            code(asm);
            asm.emit(op::fence_mbarrier_init());
        });
    }

    /// Fills the rows below a tile, in all its stages and panels, with copies of a word, for the products that read them
    /// after [`Program::join`].
    pub fn fill_rows_below(&mut self, threads: &Threads, tile: &SharedTile, word: u32) {
        let asm = &mut self.asm;
        let bytes = tile.rows_below() * tile.row_bytes();
        let writers = bytes / FILLED_BYTES;
        let words = [word; 4].map(|word| asm.b32(|d| op::mov(Value::B32, d, word)));
        let address = asm.b32(|d| op::mad_lo(Int::U32, d, threads.thread, FILLED_BYTES, threads.smem));
        let writes = asm.compare(Cmp::Lt, Num::U32, threads.thread, writers);
        asm.only_if(writes, "FILLED", |asm| {
            for stage in 0..tile.stages() {
                for panel in 0..tile.panels() {
                    let below = tile.rows() * tile.row_bytes();
                    let at = tile.offset() + stage * tile.stage_bytes() + panel * tile.panel_bytes() + below;
                    let at = Operand::at(address, at as i32);
                    asm.emit(op::st_shared_v(Wide::V4, Value::B32, at, Operand::vector(&words)));
                }
            }
            asm.emit(op::fence_proxy_async());
        });
    }

    /// Joins the CTA: what was initialised is there for every thread.
    pub fn join(&mut self) {
        self.asm.emit(op::bar_sync_all(0));
    }

    /// The label that every role leaves through.
    pub fn exit(&self) -> &Label {
        &self.exit
    }

    /// Starts a role's code, entered by falling in or at `entry`: its warpgroups, and the registers a thread that it
    /// settles on. What follows is that role's until the next one starts.
    pub fn role(&mut self, name: &str, warpgroups: Range<u32>, entry: Option<&Label>, change: Regs, registers: u32) {
        let warps = warpgroups.start * WARPS..warpgroups.end * WARPS;
        self.roles.push(Role { name: name.to_owned(), warps, registers: Some(registers) });
        self.asm.begin(Some(self.roles.len() - 1));
        if let Some(entry) = entry {
            self.asm.place(entry);
        }
        self.asm.emit(op::setmaxnreg(change, registers));
    }

    /// A predicate that holds in one lane of each warp.
    pub fn leader(asm: &mut Asm, threads: &Threads) -> Pred {
        asm.compare(Cmp::Eq, Num::U32, threads.lane, 0)
    }

    /// Ends the kernel: every role leaves here, when nothing that it issued still reads shared memory.
    pub fn finish(mut self) -> Module {
        self.asm.begin(None);
        let exit = self.exit.clone();
        self.asm.place(&exit);
        self.asm.emit(op::ret());
        Module {
            header: self.header,
            kernel: Kernel {
                name: self.name,
                params: self.params,
                threads: self.threads,
                min_ctas: 1,
                shared: self.layout.regions().to_vec(),
                roles: self.roles,
                body: self.asm.finish(),
            },
        }
    }
}
