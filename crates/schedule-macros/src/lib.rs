//! The `schedule!` macro: tokens to functions that return schedule values, errors to the tokens that cause them.
//!
//! Owns only the Rust code around the values. The grammar and what is feasible are `schedule::parse`'s, so that text
//! read at run time meets the same rules and the same words.

mod values;

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use schedule::Schedule;
use syn::parse::{ParseStream, Parser};
use syn::{Path, Token, parse_quote};

/// Reads any number of schedules and families (the grammar is in `schedule::parse`) and makes, where it stands,
///
/// - one `pub fn <name>() -> Schedule` for each schedule and each instance of a family, with its doc comment,
/// - `pub fn all() -> Vec<Schedule>`, which returns all of them in the order of the text; so there is one invocation a
///   module.
///
/// The code names the data types by the path `::schedule`, so the crate that uses the macro must depend on the package
/// `tilewright-schedule` under the name `schedule`. Where it is reached otherwise, the first line says how:
///
/// ```ignore
/// schedule! {
///     crate = ::tilewright::schedule;
///     fwd_bf16_d128 { ... }
/// }
/// ```
///
/// Every problem is a compile error on its own token; all of them are reported at once.
#[proc_macro]
pub fn schedule(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(input.into()).into()
}

fn expand(input: TokenStream) -> TokenStream {
    let (path, tokens) = match split.parse2(input) {
        Ok(split) => split,
        Err(error) => return error.to_compile_error(),
    };
    match schedule::parse::schedules(tokens) {
        Ok(schedules) => functions(&path, &schedules),
        Err(problems) => {
            let errors = problems.iter().map(|problem| {
                let message = &problem.message;
                quote_spanned! { problem.span => ::core::compile_error! { #message } }
            });
            // With `all` still there, no second error says that it is not.
            let none = functions(&path, &[]);
            quote! { #(#errors)* #none }
        }
    }
}

/// The path of the data types, and the rest of the input.
fn split(input: ParseStream<'_>) -> syn::Result<(Path, TokenStream)> {
    let mut path: Path = parse_quote!(::schedule);
    if input.peek(Token![crate]) {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        path = input.call(Path::parse_mod_style)?;
        input.parse::<Token![;]>()?;
    }
    Ok((path, input.parse()?))
}

fn functions(path: &Path, schedules: &[Schedule]) -> TokenStream {
    let names: Vec<_> = schedules.iter().map(|schedule| format_ident!("{}", schedule.name)).collect();
    let docs = schedules.iter().map(|schedule| {
        let text = if schedule.doc.is_empty() { &schedule.name } else { &schedule.doc };
        let lines = text.split('\n').map(|line| format!(" {line}"));
        quote! { #(#[doc = #lines])* }
    });
    let values = schedules.iter().map(|schedule| values::schedule(path, schedule));
    quote! {
        #(
            #docs
            pub fn #names() -> #path::Schedule {
                #values
            }
        )*

        /// Every schedule of this module, in the order of the text.
        pub fn all() -> ::std::vec::Vec<#path::Schedule> {
            ::std::vec![#(#names()),*]
        }
    }
}
