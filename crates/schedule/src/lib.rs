//! A tile schedule as plain data, its grammar and its feasibility.
