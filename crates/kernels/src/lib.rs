//! Lowering: a schedule becomes a tile program.
