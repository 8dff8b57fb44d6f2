//! The schedule! macro: tokens to schedule values.
