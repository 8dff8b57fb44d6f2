//! The numbers of launches.
