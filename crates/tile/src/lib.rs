//! Tile programs: the vocabulary in which kernels are written, over the PTX table.
//!
//! A [`Program`] owns a kernel in the making: its [`Asm`] (typed registers, lines, labels), its parameters, its
//! shared-memory [`Layout`] and its roles. The nouns are the field's:
//!
//! | noun | what it keeps to itself |
//! |---|---|
//! | [`SharedTile`] | swizzle, panels, box, the bytes of a stage |
//! | [`descriptor::SharedOperand`] | the 64 bits that wgmma reads a tile through |
//! | [`Accumulator`], [`Packed`] | which register of which lane holds which element |
//! | [`Ring`] | full and empty barriers, phase bits, transaction counts |
//! | [`Gate`] | that something has left shared memory |
//! | [`TileQueue`] | handing a decoded tile's coordinates from the producer to the consumers |
//! | [`Verdict`] | the consumers' word to the producer on whether a tile must be done again |
//! | [`load_tile`], [`store_panels`] | tensor copies of a whole tile, box by box, and the ring's part in them |
//! | [`Turn`] | the named barriers of ping-pong |
//! | [`Transposer`] | a tile of bytes turned over by the warps of a warpgroup |
//! | [`MatrixAddress`] | where a lane stores its part of an accumulator in a swizzled tile |
//!
//! This crate knows no algorithm and no schedule: sizes and counts come in as numbers.

mod asm;
mod copy;
pub mod descriptor;
mod fragment;
mod gate;
mod layout;
mod program;
mod queue;
mod ring;
mod shared;
mod store;
mod transpose;
mod turn;
mod verdict;

pub use asm::Asm;
pub use copy::{Coordinates, load_panels, load_panels_across, load_slot, load_tile, load_tile_across, store_panels};
pub use fragment::{Accumulator, Packed, QUAD_COLUMNS};
pub use gate::Gate;
pub use layout::Layout;
pub use program::{Program, Threads};
pub use queue::TileQueue;
pub use ring::{End, Ring, Slot};
pub use shared::SharedTile;
pub use store::MatrixAddress;
pub use transpose::Transposer;
pub use turn::Turn;
pub use verdict::Verdict;

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Threads of a warp.
pub const WARP: u32 = 32;
/// Warps of a warpgroup.
pub const WARPS: u32 = WARPGROUP / WARP;
/// Rows of a wgmma tile.
pub const WGMMA_ROWS: u32 = 64;
