//! A schedule value as the Rust expression that makes it.
//!
//! Knows the shape of the data types and nothing else.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use schedule::{
    Accumulate, Consumer, Exponential, Fp8, Granularity, Grid, HeadDim, Order, Overlap, Producer, Quantize, Rescale,
    Roles, Schedule, Stages, Tile,
};
use std::fmt::Debug;
use std::num::NonZeroU32;
use syn::Path;

/// The whole value; `path` is where the data types are.
pub(crate) fn schedule(path: &Path, schedule: &Schedule) -> TokenStream {
    let Schedule { name, doc, head_dim, tile, stages, roles, overlap, rescale, grid, .. } = schedule;
    let pass = case(schedule.pass);
    let element = case(schedule.element);
    let variant = case(schedule.variant);
    let queries = case(schedule.queries);
    let probabilities = case(schedule.probabilities);
    let row_sum = case(schedule.row_sum);
    let split = case(schedule.split);
    let HeadDim { qk, v } = head_dim;
    let Tile { rows, columns } = tile;
    let Stages { q, kv } = stages;
    let Roles { producer, consumer } = roles;
    let Producer { warps, registers: given } = producer;
    let Consumer { warpgroups, registers: taken } = consumer;
    let Overlap { within_warpgroup, pingpong, across_tiles } = overlap;
    let rescale = self::rescale(path, *rescale);
    let fp8 = self::fp8(path, schedule.fp8);
    let grid = self::grid(path, *grid);
    quote! {
        #path::Schedule {
            name: ::std::string::String::from(#name),
            doc: ::std::string::String::from(#doc),
            pass: #path::Pass::#pass,
            element: #path::Element::#element,
            variant: #path::Variant::#variant,
            head_dim: #path::HeadDim { qk: #qk, v: #v },
            tile: #path::Tile { rows: #rows, columns: #columns },
            stages: #path::Stages { q: #q, kv: #kv },
            roles: #path::Roles {
                producer: #path::Producer { warps: #warps, registers: #given },
                consumer: #path::Consumer { warpgroups: #warpgroups, registers: #taken },
            },
            overlap: #path::Overlap {
                within_warpgroup: #within_warpgroup,
                pingpong: #pingpong,
                across_tiles: #across_tiles,
            },
            queries: #path::Queries::#queries,
            probabilities: #path::Probabilities::#probabilities,
            rescale: #rescale,
            row_sum: #path::RowSum::#row_sum,
            fp8: #fp8,
            split: #path::Split::#split,
            grid: #grid,
        }
    }
}

/// A quantizer, likewise.
pub(crate) fn quantize(path: &Path, quantize: &Quantize) -> TokenStream {
    let Quantize { name, doc, head_dim, scales, stages, roles, .. } = quantize;
    let element = case(quantize.element);
    let rotation = case(quantize.rotation);
    let HeadDim { qk, v } = head_dim;
    let [q_scales, k_scales, v_scales] = [scales.q, scales.k, scales.v].map(|scale| granularity(path, scale));
    let Roles { producer: Producer { warps, registers: given }, consumer: Consumer { warpgroups, registers: taken } } =
        roles;
    quote! {
        #path::Quantize {
            name: ::std::string::String::from(#name),
            doc: ::std::string::String::from(#doc),
            element: #path::Element::#element,
            head_dim: #path::HeadDim { qk: #qk, v: #v },
            rotation: #path::Rotation::#rotation,
            scales: #path::Granularities { q: #q_scales, k: #k_scales, v: #v_scales },
            stages: #stages,
            roles: #path::Roles {
                producer: #path::Producer { warps: #warps, registers: #given },
                consumer: #path::Consumer { warpgroups: #warpgroups, registers: #taken },
            },
        }
    }
}

fn granularity(path: &Path, granularity: Granularity) -> TokenStream {
    match granularity {
        Granularity::Block(rows) => quote!(#path::Granularity::Block(#rows)),
        Granularity::Head => quote!(#path::Granularity::Head),
        Granularity::Tensor => quote!(#path::Granularity::Tensor),
        other => unknown(&other),
    }
}

/// The case of a plain enum, whose `Debug` is its Rust name.
fn case(value: impl Debug) -> Ident {
    format_ident!("{value:?}")
}

fn rescale(path: &Path, rescale: Rescale) -> TokenStream {
    match rescale {
        Rescale::Always => quote!(#path::Rescale::Always),
        Rescale::OnOverflow => quote!(#path::Rescale::OnOverflow),
        Rescale::Above(threshold) => {
            let value = threshold.get();
            quote! {
                #path::Rescale::Above(
                    const { #path::Threshold::new(#value).expect("a threshold is finite and above zero") }
                )
            }
        }
        other => unknown(&other),
    }
}

fn fp8(path: &Path, fp8: Option<Fp8>) -> TokenStream {
    let Some(Fp8 { output, scales, values, accumulate, exponential }) = fp8 else {
        return quote!(::core::option::Option::None);
    };
    let [output, scales, values] = [case(output), case(scales), case(values)];
    let accumulate = match accumulate {
        Accumulate::TensorCore => quote!(#path::Accumulate::TensorCore),
        Accumulate::Every(tiles) => quote!(#path::Accumulate::Every(#tiles)),
        other => unknown(&other),
    };
    let exponential = match exponential {
        Exponential::Unit => quote!(#path::Exponential::Unit),
        Exponential::Linear(quarters) => quote!(#path::Exponential::Linear(#quarters)),
        Exponential::Polynomial(eighths) => quote!(#path::Exponential::Polynomial(#eighths)),
        other => unknown(&other),
    };
    quote! {
        ::core::option::Option::Some(#path::Fp8 {
            output: #path::Output::#output,
            scales: #path::Scales::#scales,
            values: #path::Values::#values,
            accumulate: #accumulate,
            exponential: #exponential,
        })
    }
}

fn grid(path: &Path, grid: Grid) -> TokenStream {
    let scheduler = case(grid.scheduler);
    let order = match grid.order {
        Order::HeadMajor => quote!(#path::Order::HeadMajor),
        Order::LongestFirst { l2_bytes, heads } => {
            let heads = match heads.map(NonZeroU32::get) {
                None => quote!(None),
                Some(heads) => quote!(::core::num::NonZeroU32::new(#heads)),
            };
            quote!(#path::Order::LongestFirst { l2_bytes: #l2_bytes, heads: #heads })
        }
        other => unknown(&other),
    };
    quote!(#path::Grid { scheduler: #path::Scheduler::#scheduler, order: #order })
}

/// The data types may grow; a macro that did not grow with them says so.
fn unknown(value: &impl std::fmt::Display) -> TokenStream {
    let message = format!("schedule! reads `{value}` but cannot make Rust code of it");
    quote!(::core::compile_error!(#message))
}
