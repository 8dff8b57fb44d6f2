//! The grammar: tokens or text to schedules, with every problem on the token that causes it.
//!
//! ```text
//! schedules := { doc* name [ "for" loop { "," loop } ] "{" field { "," field } [","] "}" }
//! loop      := ( element | head_dim | variant ) "in" "[" value { "," value } "]"
//! field     := name ":" ( value | "match" subject "{" { pattern { "|" pattern } "=>" value "," } "}" )
//! subject   := loop variable | "(" loop variable { "," loop variable } ")"
//! ```
//!
//! | field | values | default |
//! |---|---|---|
//! | `pass` | `forward` | |
//! | `element` | `bf16`, `f16`, `e4m3`, `e5m2` | |
//! | `variant` | `full`, `causal` | `full` |
//! | `head_dim` | `128`, `(192, 128)` | |
//! | `tile` | `128 x 96` | |
//! | `stages` | `{ q: 2, kv: 2 }` | |
//! | `roles` | `{ producer: warps(1) registers(24), consumer: warpgroups(2) registers(240) }` | |
//! | `overlap` | `[within_warpgroup, pingpong, across_tiles]`, any of them | `[]` |
//! | `queries` | `shared`, `registers` | `shared` |
//! | `probabilities` | `registers`, `shared` | `registers` |
//! | `rescale` | `always`, `above(8.0)`, `on_overflow` | `always` |
//! | `row_sum` | `threads`, `tensor_core` | `threads` |
//! | `output` | `bf16`, `f16` | `bf16` |
//! | `scales` | `head`, `block` | `block` |
//! | `values` | `transposed`, `rows` | `transposed` |
//! | `accumulate` | `tensor_core`, `every(4)` | `tensor_core` |
//! | `exponential` | `unit`, `linear(2)`, 1 to 4 quarters, `polynomial(1)`, 1 to 4 eighths | `unit` |
//! | `split` | `none`, `keys` | `none` |
//! | `grid` | `persistent(static)`, `persistent(dynamic)`, with or without `longest_first(l2: 32 MiB)` or `longest_first(l2: 32 MiB, heads: 32)` | `persistent(static)` |
//!
//! `output` to `exponential` are of 8-bit elements alone.
//!
//! A schedule with loops is a family: one schedule for each combination of loop values, the first loop outermost,
//! called `<family>_<element>_d<head dim>[_<variant>]` in the order of the loops (`full` adds nothing, a pair of head
//! dimensions reads `d192x128`). Its body leaves out the looped fields. A `match` must cover every combination and use
//! every arm.
//!
//! Quantizers have a grammar of their own (`quantize`) on the same tokens, values and messages.
//!
//! One file a level: `reader` tokens, `values` a field's value, `matches` a choice between values, `body` the fields,
//! `families` loops and instances. What is feasible is asked of `feasible`, never decided here. The macro and run-time
//! text share all of it, and so their messages.

mod body;
mod families;
mod matches;
mod quantize;
mod reader;
#[cfg(test)]
mod tests;
mod values;
mod words;

use crate::{Quantize, Schedule};
use proc_macro2::{Span, TokenStream, TokenTree};
use std::collections::HashSet;
use std::fmt;
use syn::buffer::TokenBuffer;

/// Something wrong in a token stream.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The token that causes it.
    pub span: Span,
    /// What, and what would do.
    pub message: String,
}

/// Something wrong in a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextProblem {
    /// The line of the token that causes it, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
    /// What, and what would do: word for word what the macro says.
    pub message: String,
}

impl fmt::Display for TextProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for TextProblem {}

/// The function that the macro makes for all schedules together; no schedule can have its name.
const RESERVED: &str = "all";

/// The schedules of a token stream, each feasible on Hopper and each with a name of its own, in the order of the text.
///
/// # Errors
/// Every problem found, in the order of the text as far as one can be told.
pub fn schedules(tokens: TokenStream) -> Result<Vec<Schedule>, Vec<Problem>> {
    read(tokens).map_err(problems)
}

/// The same from text: what stands between the braces of `schedule! { ... }`.
///
/// # Errors
/// Every problem found; a text that does not even split into tokens gives that one problem.
pub fn text(text: &str) -> Result<Vec<Schedule>, Vec<TextProblem>> {
    lex(text).and_then(|tokens| schedules(tokens).map_err(located))
}

/// The schedules of a Rust source file: those of every `schedule! { ... }` at its top level, one after the other.
///
/// # Errors
/// As [`text`], with places in the file.
pub fn file(source: &str) -> Result<Vec<Schedule>, Vec<TextProblem>> {
    schedules(inside(source, "schedule")?).map_err(located)
}

/// The quantizers of a token stream, each feasible on Hopper and each with a name of its own, in the order of the text.
///
/// # Errors
/// Every problem found, in the order of the text as far as one can be told.
pub fn quantizers(tokens: TokenStream) -> Result<Vec<Quantize>, Vec<Problem>> {
    let buffer = TokenBuffer::new2(tokens);
    let mut reader = reader::Reader::new(buffer.begin());
    let mut errors = words::Errors::default();
    let mut all: Vec<Quantize> = Vec::new();
    while !reader.at_end() {
        let start = reader;
        let Some((name, made)) = errors.keep(quantize::item(&mut reader)) else {
            reader = start;
            families::past_braces(&mut reader);
            continue;
        };
        match made.name == RESERVED || all.iter().any(|other| other.name == made.name) {
            true => errors.add(quantize::duplicate(&name)),
            false => all.push(made),
        }
    }
    errors.finish(all).map_err(problems)
}

/// The same from text: what stands between the braces of `quantizers! { ... }`.
///
/// # Errors
/// Every problem found; a text that does not even split into tokens gives that one problem.
pub fn quantizers_text(text: &str) -> Result<Vec<Quantize>, Vec<TextProblem>> {
    lex(text).and_then(|tokens| quantizers(tokens).map_err(located))
}

/// The quantizers of a Rust source file: those of every `quantizers! { ... }` at its top level.
///
/// # Errors
/// As [`quantizers_text`], with places in the file.
pub fn quantizers_file(source: &str) -> Result<Vec<Quantize>, Vec<TextProblem>> {
    quantizers(inside(source, "quantizers")?).map_err(located)
}

/// What stands in the brackets of every call of a macro at the top level of a source file.
fn inside(source: &str, called: &str) -> Result<TokenStream, Vec<TextProblem>> {
    let trees: Vec<TokenTree> = lex(source)?.into_iter().collect();
    let mut all = TokenStream::new();
    for window in trees.windows(3) {
        if let [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(group)] = window
            && name == called
            && bang.as_char() == '!'
        {
            all.extend(group.stream());
        }
    }
    Ok(all)
}

fn problems(errors: syn::Error) -> Vec<Problem> {
    errors.into_iter().map(|error| Problem { span: error.span(), message: error.to_string() }).collect()
}

fn read(tokens: TokenStream) -> syn::Result<Vec<Schedule>> {
    let buffer = TokenBuffer::new2(tokens);
    let mut reader = reader::Reader::new(buffer.begin());
    let mut errors = words::Errors::default();
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    while !reader.at_end() {
        let Some(item) = errors.keep(families::item(&mut reader)) else { continue };
        let Some(made) = errors.keep(item.schedules()) else { continue };
        for schedule in made {
            if schedule.name == RESERVED {
                errors.push(
                    item.name.span(),
                    format!("`{RESERVED}` is the name of the function that returns every schedule"),
                );
            } else if !seen.insert(schedule.name.clone()) {
                errors.push(item.name.span(), format!("duplicate schedule `{}`", schedule.name));
            } else {
                all.push(schedule);
            }
        }
    }
    errors.finish(all)
}

fn lex(text: &str) -> Result<TokenStream, Vec<TextProblem>> {
    text.parse().map_err(|error: proc_macro2::LexError| {
        let message =
            "not even tokens: an unclosed bracket or string, or a character that no token starts with".to_owned();
        located(vec![Problem { span: error.span(), message }])
    })
}

fn located(problems: Vec<Problem>) -> Vec<TextProblem> {
    let place = |problem: Problem| {
        let start = problem.span.start();
        TextProblem { line: start.line.max(1), column: start.column + 1, message: problem.message }
    };
    problems.into_iter().map(place).collect()
}
