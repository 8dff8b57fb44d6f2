//! Words for messages, and the gathering of errors so that all of them are reported.
//!
//! Knows nothing of the grammar.

use proc_macro2::Span;

/// Errors so far; combined into one `syn::Error` at the end.
#[derive(Default)]
pub(super) struct Errors(Option<syn::Error>);

impl Errors {
    /// Adds one.
    pub(super) fn push(&mut self, span: Span, message: impl std::fmt::Display) {
        self.add(syn::Error::new(span, message));
    }

    /// Adds all that an error holds.
    pub(super) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The value of a result, or `None` with its errors added.
    pub(super) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// `value` if there were no errors.
    pub(super) fn finish<T>(self, value: T) -> syn::Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}

/// `` `a`, `b` or `c` ``.
pub(super) fn either(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// ` (did you mean ...?)` where one of the words is near what was written.
pub(super) fn suggestion(written: &str, words: &[&str]) -> String {
    words
        .iter()
        .map(|word| (strsim::damerau_levenshtein(written, word), word))
        .filter(|(distance, word)| *distance <= word.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| format!(" (did you mean `{word}`?)"))
        .unwrap_or_default()
}
