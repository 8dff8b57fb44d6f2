//! Tuning without its measurements: which problems, which schedules are worth trying, what follows from the figures.
//!
//! [`problems`] (or a user's own) -> [`candidates`] (all that fit the machine) -> [`prune`] (the most promising, by the cost
//! model) -> measured by whoever has a GPU, the winners with what is [`around`] them -> [`decide`] -> a [`Tuning`](super::Tuning)'s text, and the text of schedules
//! that are not shipped. Knows nothing of the device.

mod candidates;
mod decide;
mod problems;
mod prune;
mod source;
#[cfg(test)]
mod tests;

pub use candidates::candidates;
pub use decide::{Measured, decide};
pub use problems::{Class, described, grid};
pub use prune::{Candidate, around, prune, same};
pub use source::source;
