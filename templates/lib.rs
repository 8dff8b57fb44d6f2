//! The shipped schedules: text for the `schedule!` macro, and `tuned.toml`, which says what each was measured best for.
//!
//! A researcher's file goes beside this one, its name into the `catalog!` line below. Knows nothing of how schedules
//! are lowered, and nothing of problems: `tuned.toml` is read by the policy of the `tilewright` crate.

use schedule::{Quantize, Schedule};

/// Declares a module a file, and `all` over them.
macro_rules! catalog {
    ($($(#[$doc:meta])* $file:ident),* $(,)?) => {
        $($(#[$doc])* pub mod $file;)*

        /// Every schedule of every file, in the order of the catalog and then of the file.
        pub fn all() -> Vec<Schedule> {
            [$($file::all()),*].concat()
        }

        /// The source of every file of the catalog, by its name.
        #[cfg(test)]
        const SOURCES: &[(&str, &str)] = &[$((stringify!($file), include_str!(concat!(stringify!($file), ".rs")))),*];
    };
}

catalog! {
    forward,
    fp8,
    overlapped,
    split,
    variety,
}

/// Quantizers beside the attention schedules that read what they write.
pub mod quantize;

/// Every quantizer.
pub fn quantizers() -> Vec<Quantize> {
    quantize::all()
}

/// The text of `tuned.toml`.
pub const TUNED: &str = include_str!("tuned.toml");

/// The schedule of this name.
pub fn named(name: &str) -> Option<Schedule> {
    all().into_iter().find(|schedule| schedule.name == name)
}

#[cfg(test)]
mod tests {
    use super::{SOURCES, all, named, quantizers};
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_found() {
        let all = all();
        let names: HashSet<&str> = all.iter().map(|schedule| schedule.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for schedule in &all {
            assert_eq!(named(&schedule.name).as_ref(), Some(schedule));
        }
        assert_eq!(named("no such schedule"), None);
    }

    #[test]
    fn the_macro_and_the_source_at_run_time_give_the_same() {
        let read: Vec<_> = SOURCES
            .iter()
            .flat_map(|(file, source)| {
                schedule::parse::file(source).unwrap_or_else(|problems| panic!("{file}.rs: {problems:?}"))
            })
            .collect();
        assert_eq!(read, all());
    }

    #[test]
    fn quantizers_are_read_alike_and_print_as_text_that_reads_back() {
        let read = schedule::parse::quantizers_file(include_str!("quantize.rs"));
        assert_eq!(read, Ok(quantizers()));
        for quantize in quantizers() {
            assert_eq!(schedule::parse::quantizers_text(&quantize.to_string()), Ok(vec![quantize]));
        }
        let names: HashSet<String> = quantizers().into_iter().map(|quantize| quantize.name).collect();
        assert!(names.len() == quantizers().len() && all().iter().all(|schedule| !names.contains(&schedule.name)));
    }

    #[test]
    fn every_schedule_prints_as_text_that_reads_back() {
        for schedule in all() {
            assert_eq!(schedule::parse::text(&schedule.to_string()), Ok(vec![schedule]));
        }
    }
}
