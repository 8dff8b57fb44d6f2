//! The invariants of the house, each as a test: who may know whom, what may stand where, and how files look.
//!
//! A failing test names the file and line, or the edge, and what would do instead. The README's map points here.

mod errors;
mod layers;
mod source;
mod tidy;
mod words;
