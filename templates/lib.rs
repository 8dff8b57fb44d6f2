//! The shipped schedules.
