//! The fields between the braces of one schedule or family.
//!
//! Knows which fields there are and which must be; their values are `values`' business, choices between them
//! `matches`'.

use super::families::Loop;
use super::matches::{self, Match};
use super::reader::Reader;
use super::values::{FIELDS, Setting};
use super::words::Errors;
use proc_macro2::{Delimiter, Span};
use syn::{Error, Result};

/// How a field gets its value.
pub(super) enum Choice {
    /// It is given.
    Given(Setting),
    /// It depends on loop variables.
    Match(Match),
}

/// The fields of a body that are given or matched; looped and defaulted ones are not among them.
pub(super) fn read(reader: &mut Reader<'_>, name: Span, loops: &[Loop]) -> Result<Vec<Choice>> {
    let names = FIELDS.map(|field| field.name);
    let mut choices = Vec::new();
    let mut inside = reader.group(Delimiter::Brace, "`for` or `{`")?;
    let (seen, mut errors): (_, Errors) = inside.record("field", &names, |index, ident, reader| {
        let field = &FIELDS[index];
        let looped = loops.iter().any(|each| each.name == field.name);
        let next = reader.peek_ident();
        if looped && next.is_some_and(|next| next == field.name) {
            reader.word(field.name).map(|_| ())
        } else if looped {
            Err(Error::new(
                ident.span(),
                format!("`{0}` is set by the loop: leave it out, or write `{0}: {0}`", field.name),
            ))
        } else if next_is_match(reader) {
            choices.push(Choice::Match(matches::read(reader, field, loops)?));
            Ok(())
        } else {
            choices.push(Choice::Given((field.read)(reader)?));
            Ok(())
        }
    });
    for field in FIELDS.iter().filter(|field| field.required) {
        let looped = loops.iter().any(|each| each.name == field.name);
        if !looped && !seen.contains(&field.name) {
            errors.push(name, format!("missing field `{}`", field.name));
        }
    }
    errors.finish(choices)
}

fn next_is_match(reader: &Reader<'_>) -> bool {
    reader.peek_ident().is_some_and(|ident| ident == "match")
}
