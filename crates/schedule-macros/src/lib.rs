//! The `schedule!` macro: tokens to functions that return schedule values, errors to the tokens that cause them.
//!
//! Owns only the Rust code around the values. The grammar and what is feasible are `schedule::parse`'s, so that text
//! read at run time meets the same rules and the same words.

mod values;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use schedule::parse::Problem;
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

/// Reads any number of quantizers (the grammar is in `schedule::parse::quantizers`) and makes, as [`schedule!`] does, one
/// `pub fn <name>() -> Quantize` for each and `pub fn all() -> Vec<Quantize>`.
#[proc_macro]
pub fn quantizers(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_quantizers(input.into()).into()
}

fn expand_quantizers(input: TokenStream) -> TokenStream {
    let (path, tokens) = match split.parse2(input) {
        Ok(split) => split,
        Err(error) => return error.to_compile_error(),
    };
    let (read, errors) = match schedule::parse::quantizers(tokens) {
        Ok(read) => (read, TokenStream::new()),
        Err(problems) => (Vec::new(), compile_errors(&problems)),
    };
    let made: Vec<Made> = read
        .iter()
        .map(|each| Made { name: &each.name, doc: &each.doc, value: values::quantize(&path, each) })
        .collect();
    let functions = functions(&path, &format_ident!("Quantize"), &made);
    quote! { #errors #functions }
}

fn expand(input: TokenStream) -> TokenStream {
    let (path, tokens) = match split.parse2(input) {
        Ok(split) => split,
        Err(error) => return error.to_compile_error(),
    };
    // With `all` still there, no second error says that it is not.
    let (read, errors) = match schedule::parse::schedules(tokens) {
        Ok(read) => (read, TokenStream::new()),
        Err(problems) => (Vec::new(), compile_errors(&problems)),
    };
    let made: Vec<Made> = read
        .iter()
        .map(|each| Made { name: &each.name, doc: &each.doc, value: values::schedule(&path, each) })
        .collect();
    let functions = functions(&path, &format_ident!("Schedule"), &made);
    quote! { #errors #functions }
}

/// Every problem as an error of the compiler on its own token.
fn compile_errors(problems: &[Problem]) -> TokenStream {
    let errors = problems.iter().map(|problem| {
        let message = &problem.message;
        quote_spanned! { problem.span => ::core::compile_error! { #message } }
    });
    quote! { #(#errors)* }
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

/// What one function is made of.
struct Made<'a> {
    name: &'a str,
    doc: &'a str,
    value: TokenStream,
}

fn functions(path: &Path, ty: &Ident, made: &[Made<'_>]) -> TokenStream {
    let names: Vec<_> = made.iter().map(|each| format_ident!("{}", each.name)).collect();
    let docs = made.iter().map(|each| {
        let text = if each.doc.is_empty() { each.name } else { each.doc };
        let lines = text.split('\n').map(|line| format!(" {line}"));
        quote! { #(#[doc = #lines])* }
    });
    let values = made.iter().map(|each| &each.value);
    quote! {
        #(
            #docs
            pub fn #names() -> #path::#ty {
                #values
            }
        )*

        /// All of this module, in the order of the text.
        pub fn all() -> ::std::vec::Vec<#path::#ty> {
            ::std::vec![#(#names()),*]
        }
    }
}
