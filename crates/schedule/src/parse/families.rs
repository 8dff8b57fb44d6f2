//! One item of the text: a schedule, or a family that loops make schedules of.
//!
//! Knows loops, the names of instances and where a finding of `feasible` belongs; nothing of how values are written.

use super::body::{self, Choice};
use super::reader::Reader;
use super::values::{FIELDS, FieldRule, Setting, Value};
use super::words::{Errors, either};
use crate::feasible::{self, Field};
use crate::{
    Consumer, Element, Grid, HOPPER, HeadDim, Overlap, Pass, Probabilities, Producer, Queries, Rescale, Roles, RowSum,
    Schedule, Split, Stages, Tile, Variant,
};
use proc_macro2::{Delimiter, Ident, Span, TokenTree};
use std::ptr;
use syn::{Error, Result};

/// The fields that a family can loop over, because instances can be named by them.
pub(super) const LOOPED: [&str; 3] = ["element", "head_dim", "variant"];

/// One loop of a family.
pub(super) struct Loop {
    /// The field that it sets, which is also the variable's name.
    pub(super) name: &'static str,
    pub(super) field: &'static FieldRule,
    pub(super) values: Vec<Setting>,
}

/// A schedule or family as read.
pub(super) struct Item {
    doc: String,
    pub(super) name: Ident,
    loops: Vec<Loop>,
    choices: Vec<Choice>,
}

/// Reads one item; after an error, goes on behind its braces.
pub(super) fn item(reader: &mut Reader<'_>) -> Result<Item> {
    let start = *reader;
    read(reader).inspect_err(|_| {
        *reader = start;
        past_braces(reader);
    })
}

/// Goes on behind the next braces.
pub(super) fn past_braces(reader: &mut Reader<'_>) {
    while let Some(token) = reader.skip() {
        if matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace) {
            break;
        }
    }
}

fn read(reader: &mut Reader<'_>) -> Result<Item> {
    let (doc, name) = header(reader)?;
    let mut errors = Errors::default();
    let mut loops = Vec::new();
    if reader.peek_ident().is_some_and(|ident| ident == "for") {
        reader.word("for")?;
        loop {
            let each = one_loop(reader, &loops)?;
            loops.push(each);
            if !reader.try_punct(',') {
                break;
            }
        }
    }
    let choices = errors.keep(body::read(reader, name.span(), &loops)).unwrap_or_default();
    errors.finish(Item { doc, name, loops, choices })
}

/// Doc comments and a name.
pub(super) fn header(reader: &mut Reader<'_>) -> Result<(String, Ident)> {
    let mut lines = Vec::new();
    while reader.try_punct('#') {
        lines.push(doc_line(reader.group(Delimiter::Bracket, "a doc comment")?)?);
    }
    let name = reader.ident("the name of a schedule")?;
    let written = name.to_string();
    if syn::parse_str::<Ident>(&written).is_err() || !written.is_ascii() || written.starts_with("r#") {
        return Err(Error::new(
            name.span(),
            format!("`{written}` cannot name a kernel: use ASCII letters, digits and `_`, and no keyword"),
        ));
    }
    Ok((lines.join("\n"), name))
}

/// `doc = " text"`, which is what `/// text` is to a macro.
fn doc_line(mut attribute: Reader<'_>) -> Result<String> {
    attribute.word("doc")?;
    attribute.mark("=")?;
    let wrong = attribute.expected("a doc comment");
    match attribute.skip() {
        Some(TokenTree::Literal(literal)) => match syn::Lit::new(literal) {
            syn::Lit::Str(text) => Ok(text.value().strip_prefix(' ').map_or(text.value(), str::to_owned)),
            _ => Err(wrong),
        },
        _ => Err(wrong),
    }
}

/// `head_dim in [64, 96, (192, 128)]`.
fn one_loop(reader: &mut Reader<'_>, before: &[Loop]) -> Result<Loop> {
    let (index, span) = reader.one_of(&LOOPED)?;
    let name = LOOPED[index];
    if before.iter().any(|each| each.name == name) {
        return Err(Error::new(span, format!("duplicate loop over `{name}`")));
    }
    let field = FIELDS.iter().find(|field| field.name == name).ok_or_else(|| Error::new(span, "no such field"))?;
    reader.word("in")?;
    let mut values: Vec<Setting> = Vec::new();
    let mut inside = reader.group(Delimiter::Bracket, "a list such as [64, 128]")?;
    if inside.at_end() {
        return Err(inside.expected("a value to loop over"));
    }
    inside.list(|entry| {
        let span = entry.span();
        let setting = (field.read)(entry)?;
        if values.iter().any(|each| each.value == setting.value) {
            return Err(Error::new(span, format!("duplicate {} in the loop over `{name}`", setting.value.words())));
        }
        values.push(setting);
        Ok(())
    })?;
    Ok(Loop { name, field, values })
}

impl Loop {
    /// Its values, for messages.
    pub(super) fn values_text(&self) -> String {
        let words: Vec<String> = self.values.iter().map(|setting| setting.value.words()).collect();
        words.join(", ")
    }
}

impl Value {
    /// A looped value as the grammar writes it.
    pub(super) fn words(self) -> String {
        match self {
            Self::Element(value) => value.to_string(),
            Self::HeadDim(value) => value.to_string(),
            Self::Variant(value) => value.to_string(),
            _ => either(&LOOPED),
        }
    }

    /// What a looped value adds to an instance's name.
    fn suffix(self) -> String {
        match self {
            Self::HeadDim(HeadDim { qk, v }) if qk == v => format!("_d{qk}"),
            Self::HeadDim(HeadDim { qk, v }) => format!("_d{qk}x{v}"),
            Self::Variant(Variant::Full) => String::new(),
            _ => format!("_{}", self.words()),
        }
    }
}

/// A finding on a token, and the instances that have it.
struct Located<'a> {
    /// Which of the item's settings the token belongs to.
    setting: Option<&'a Setting>,
    span: Span,
    field: Field,
    message: String,
    instances: Vec<String>,
}

impl Item {
    /// The schedules that the item stands for.
    ///
    /// # Errors
    /// Matches that leave a combination out, arms that none takes, and findings of `feasible`, each once with all its
    /// instances.
    pub(super) fn schedules(&self) -> Result<Vec<Schedule>> {
        let combinations = combinations(&self.loops);
        self.check_matches(&combinations)?;
        let mut schedules = Vec::new();
        let mut located: Vec<Located<'_>> = Vec::new();
        for combination in &combinations {
            let settings = self.settings(combination);
            let mut schedule = self.blank(combination);
            settings.iter().for_each(|setting| setting.value.apply(&mut schedule));
            if schedule.element.is_fp8() {
                schedule.fp8.get_or_insert_default();
            }
            for finding in feasible::check(&schedule, &HOPPER) {
                let place = settings.iter().find_map(|setting| {
                    let (_, span) = setting.spans.iter().find(|(field, _)| *field == finding.field)?;
                    Some((*setting, *span))
                });
                let setting = place.map(|(setting, _)| setting);
                let same = |each: &&mut Located<'_>| {
                    each.setting.map(ptr::from_ref) == setting.map(ptr::from_ref)
                        && each.field == finding.field
                        && each.message == finding.message
                };
                match located.iter_mut().find(same) {
                    Some(each) => each.instances.push(schedule.name.clone()),
                    None => located.push(Located {
                        setting,
                        span: place.map_or(self.name.span(), |(_, span)| span),
                        field: finding.field,
                        message: finding.message,
                        instances: vec![schedule.name.clone()],
                    }),
                }
            }
            schedules.push(schedule);
        }
        let mut errors = Errors::default();
        for each in located {
            errors.push(each.span, self.message(&each));
        }
        errors.finish(schedules)
    }

    /// A finding's message, which for a family says where it is found.
    fn message(&self, located: &Located<'_>) -> String {
        match located.instances.as_slice() {
            [one] if !self.loops.is_empty() => format!("in {one}: {}", located.message),
            [first, rest @ ..] if !rest.is_empty() => {
                format!("in {first} and {} more: {}", rest.len(), located.message)
            }
            _ => located.message.clone(),
        }
    }

    /// Every combination must take an arm of every match, and every arm must be taken.
    fn check_matches(&self, combinations: &[Vec<usize>]) -> Result<()> {
        let mut errors = Errors::default();
        for choice in &self.choices {
            let Choice::Match(each) = choice else { continue };
            let mut taken = vec![false; each.arms.len()];
            let mut left: Vec<String> = Vec::new();
            for combination in combinations {
                match each.arm(combination) {
                    Some(arm) => taken[arm] = true,
                    None => {
                        let value =
                            |&variable: &usize| self.loops[variable].values[combination[variable]].value.words();
                        let words: Vec<String> = each.subject.iter().map(value).collect();
                        let text = if words.len() == 1 { words.concat() } else { format!("({})", words.join(", ")) };
                        if !left.contains(&text) {
                            left.push(text);
                        }
                    }
                }
            }
            if !left.is_empty() {
                errors.push(each.span, format!("no arm takes {}; add one, or `_`", left.join(", ")));
            }
            for (arm, _) in each.arms.iter().zip(taken).filter(|(_, taken)| !taken) {
                errors.push(arm.span, "unreachable arm: earlier arms take everything that it would");
            }
        }
        errors.finish(())
    }

    /// The settings of one combination: loop values first.
    fn settings(&self, combination: &[usize]) -> Vec<&Setting> {
        let looped = self.loops.iter().zip(combination).map(|(each, &index)| &each.values[index]);
        let chosen = self.choices.iter().filter_map(|choice| match choice {
            Choice::Given(setting) => Some(setting),
            Choice::Match(each) => each.arm(combination).map(|arm| &each.arms[arm].setting),
        });
        looped.chain(chosen).collect()
    }

    /// A schedule with the name of this combination, optional fields at their defaults and required ones still to be
    /// set.
    fn blank(&self, combination: &[usize]) -> Schedule {
        let looped = self.loops.iter().zip(combination);
        let suffixes: String = looped.map(|(each, &index)| each.values[index].value.suffix()).collect();
        Schedule {
            name: format!("{}{suffixes}", self.name),
            doc: self.doc.clone(),
            pass: Pass::Forward,
            element: Element::Bf16,
            variant: Variant::Full,
            head_dim: HeadDim::same(0),
            tile: Tile { rows: 0, columns: 0 },
            stages: Stages { q: 0, kv: 0 },
            roles: Roles {
                producer: Producer { warps: 0, registers: 0 },
                consumer: Consumer { warpgroups: 0, registers: 0 },
            },
            overlap: Overlap::default(),
            queries: Queries::Shared,
            probabilities: Probabilities::Registers,
            rescale: Rescale::Always,
            row_sum: RowSum::Threads,
            fp8: None,
            split: Split::None,
            grid: Grid::default(),
        }
    }
}

/// Every combination of loop values, one index a loop, the first loop outermost.
fn combinations(loops: &[Loop]) -> Vec<Vec<usize>> {
    loops.iter().fold(vec![Vec::new()], |before, each| {
        let extend = |combination: Vec<usize>| {
            (0..each.values.len()).map(move |index| {
                let mut longer = combination.clone();
                longer.push(index);
                longer
            })
        };
        before.into_iter().flat_map(extend).collect()
    })
}
