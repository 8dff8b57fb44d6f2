//! A field's value by loop variable: `match head_dim { 64 => 192 x 128, _ => 128 x 128 }`.
//!
//! Reads matches and says which arm a combination takes. Whether all are covered and all arms used is asked by
//! `families`, which knows the combinations.

use super::families::{LOOPED, Loop};
use super::reader::Reader;
use super::values::{FieldRule, Setting, Value};
use super::words::either;
use proc_macro2::{Delimiter, Span};
use syn::{Error, Result};

/// A match over loop variables.
pub(super) struct Match {
    /// The word `match`.
    pub(super) span: Span,
    /// The loops whose variables it looks at, by index.
    pub(super) subject: Vec<usize>,
    /// Its arms in order.
    pub(super) arms: Vec<Arm>,
}

/// One arm.
pub(super) struct Arm {
    /// Its first pattern token.
    pub(super) span: Span,
    /// Alternatives, each with a pattern for every variable of the subject.
    patterns: Vec<Vec<Pattern>>,
    /// What the field is then.
    pub(super) setting: Setting,
}

/// What one variable may be: these loop values, by index, or any.
enum Pattern {
    Any,
    OneOf(Vec<usize>),
}

impl Match {
    /// The first arm that takes a combination, given as one value index a loop.
    pub(super) fn arm(&self, combination: &[usize]) -> Option<usize> {
        let takes = |patterns: &Vec<Pattern>| {
            self.subject.iter().zip(patterns).all(|(&variable, pattern)| match pattern {
                Pattern::Any => true,
                Pattern::OneOf(values) => values.contains(&combination[variable]),
            })
        };
        self.arms.iter().position(|arm| arm.patterns.iter().any(takes))
    }
}

/// Reads from the word `match` on.
pub(super) fn read(reader: &mut Reader<'_>, field: &FieldRule, loops: &[Loop]) -> Result<Match> {
    let span = reader.word("match")?;
    let tuple = reader.peek_group(Delimiter::Parenthesis);
    let mut subject = Vec::new();
    if tuple {
        reader.group(Delimiter::Parenthesis, "`(`")?.list(|entry| {
            subject.push(variable(entry, loops)?);
            Ok(())
        })?;
    } else {
        subject.push(variable(reader, loops)?);
    }
    let mut arms = Vec::new();
    reader.group(Delimiter::Brace, "`{`")?.list(|entry| {
        let span = entry.span();
        let mut patterns = Vec::new();
        loop {
            patterns.push(if tuple {
                tuple_pattern(entry, &subject, loops)?
            } else {
                vec![pattern(entry, &loops[subject[0]])?]
            });
            if !entry.try_punct('|') {
                break;
            }
        }
        entry.mark("=>")?;
        let setting = (field.read)(entry)?;
        arms.push(Arm { span, patterns, setting });
        Ok(())
    })?;
    Ok(Match { span, subject, arms })
}

fn variable(reader: &mut Reader<'_>, loops: &[Loop]) -> Result<usize> {
    let name = reader.ident("a loop variable")?;
    let written = name.to_string();
    loops.iter().position(|each| each.name == written).ok_or_else(|| {
        let message = if loops.is_empty() {
            format!(
                "`{written}` is no loop variable: the schedule has none; \
                 a family has them, as in `fwd for head_dim in [64, 128] {{`, over {}",
                either(&LOOPED)
            )
        } else {
            let names: Vec<&str> = loops.iter().map(|each| each.name).collect();
            format!("`{written}` is no loop variable of this family, which loops over {}", names.join(", "))
        };
        Error::new(name.span(), message)
    })
}

/// `(64 | 96, causal)`, or `_` for all of it.
fn tuple_pattern(reader: &mut Reader<'_>, subject: &[usize], loops: &[Loop]) -> Result<Vec<Pattern>> {
    if reader.peek_ident().is_some_and(|ident| ident == "_") {
        reader.word("_")?;
        return Ok(subject.iter().map(|_| Pattern::Any).collect());
    }
    let mut inside = reader.group(Delimiter::Parenthesis, "`(` or `_`")?;
    let mut patterns = Vec::new();
    for (index, &variable) in subject.iter().enumerate() {
        if index > 0 {
            inside.mark(",")?;
        }
        patterns.push(pattern(&mut inside, &loops[variable])?);
    }
    inside.try_punct(',');
    inside.end("`)`")?;
    Ok(patterns)
}

/// `64 | 96`, or `_` for any value of one variable.
fn pattern(reader: &mut Reader<'_>, variable: &Loop) -> Result<Pattern> {
    if reader.peek_ident().is_some_and(|ident| ident == "_") {
        reader.word("_")?;
        return Ok(Pattern::Any);
    }
    let mut values = Vec::new();
    loop {
        let span = reader.span();
        let value: Value = (variable.field.read)(reader)?.value;
        let index = variable.values.iter().position(|each| each.value == value);
        values.push(index.ok_or_else(|| {
            let message =
                format!("`{}` is never {}: it loops over {}", variable.name, value.words(), variable.values_text());
            Error::new(span, message)
        })?);
        if !reader.try_punct('|') {
            return Ok(Pattern::OneOf(values));
        }
    }
}
