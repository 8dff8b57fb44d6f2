//! The choice for 8-bit problems.

use super::*;
use crate::{Accumulation, Element, Exponentials, Fp8, Output, ProblemBuilder, ScaleBy, Values};
use schedule::{Rescale, Schedule, Variant};

fn small(fp8: Fp8) -> ProblemBuilder {
    let builder = Problem::builder().element(Element::E4m3).batch(2).queries(1024).heads(16).kv_heads(4);
    builder.head_dim(128).fp8(fp8)
}

fn choice(builder: ProblemBuilder) -> Result<Arc<Entry>> {
    choose(Registry::shipped(), &builder.build().expect("fine"), USUAL_SMS)
}

#[test]
fn every_kind_of_problem_has_its_schedule_and_none_approximates() {
    for element in [Element::E4m3, Element::E5m2] {
        for (output, values) in
            [Output::Bf16, Output::F16].into_iter().flat_map(|o| Values::ALL.iter().map(move |v| (o, *v)))
        {
            for (dim, causal) in [64, 96, 128, 192, 256].into_iter().flat_map(|dim| [(dim, false), (dim, true)]) {
                let fp8 = Fp8 { output, values, ..Fp8::default() };
                let entry = choice(small(fp8).element(element).head_dim(dim).causal(causal)).expect("supported");
                let schedule = entry.schedule();
                let has = schedule.fp8.expect("8 bits");
                let variant = if causal { Variant::Causal } else { Variant::Full };
                assert_eq!((schedule.element, schedule.head_dim.qk, schedule.variant), (element, dim, variant));
                assert_eq!((has.output, has.values), (output, values), "{}", schedule.name);
                assert!(is_exact(schedule) && !eligible::is_accurate(schedule), "{}", schedule.name);
            }
        }
    }
}

#[test]
fn the_measured_best_are_chosen() {
    let name = |builder| choice(builder).expect("supported").schedule().name.clone();
    let fp8 = Fp8 { values: Values::Transposed, ..Fp8::default() };
    for (tokens, batch) in [(512, 32), (4096, 4), (16_384, 1), (333, 1), (1, 1)] {
        let of = |dim: u32| small(fp8).batch(batch).queries(tokens).heads(2048 / u64::from(dim)).head_dim(dim);
        for dim in [64, 128, 256] {
            let heads = 2048 / u64::from(dim);
            assert_eq!(name(of(dim).kv_heads(heads)), format!("fwd_e4m3_d{dim}"), "{tokens}");
        }
    }
}

#[test]
fn accuracy_is_given_where_asked_for_and_refused_where_there_is_none() {
    let of = |accumulation, values| small(Fp8 { accumulation, values, ..Fp8::default() });
    let accurate = |builder| eligible::is_accurate(choice(builder).expect("supported").schedule());
    for values in [Values::Transposed, Values::Rows] {
        for dim in [64, 96, 128] {
            assert!(accurate(of(Accumulation::Accurate, values).head_dim(dim)));
            assert!(!accurate(of(Accumulation::Auto, values).head_dim(dim)));
            assert!(accurate(of(Accumulation::Auto, values).head_dim(dim).keys(Accumulation::LONG)));
        }
        let told = choice(of(Accumulation::Accurate, values).head_dim(192)).expect_err("none").to_string();
        assert!(told.contains("keeps sums of O in the tensor cores"), "{told}");
        assert!(!accurate(of(Accumulation::Auto, values).head_dim(256).keys(1 << 17)));
    }
}

/// Who rounds K before the mask and the length of a call are known counts on it.
#[test]
fn the_key_tile_of_codes_depends_on_head_dimension_and_sums_alone() {
    for (dim, accumulation) in [64, 96, 128, 192, 256]
        .map(|dim| (dim, Accumulation::Fast))
        .into_iter()
        .chain([64, 96, 128].map(|dim| (dim, Accumulation::Accurate)))
    {
        let fp8 = Fp8 { values: Values::Transposed, accumulation, ..Fp8::default() };
        let tile = |tokens: u64, batch: u64, causal: bool, exponentials| {
            let fp8 = fp8.exponentials(exponentials);
            let builder = small(fp8).queries(tokens).batch(batch).head_dim(dim).causal(causal);
            choice(builder).expect("supported").schedule().tile.columns
        };
        let first = tile(1, 1, false, Exponentials::Exact);
        for (tokens, batch) in [(1, 1), (333, 1), (1024, 64), (16_384, 4)] {
            for exponentials in [Exponentials::Exact, Exponentials::Linear] {
                let both = [false, true].map(|causal| tile(tokens, batch, causal, exponentials));
                assert_eq!(both, [first; 2], "{dim} {tokens} {exponentials:?}");
            }
        }
    }
}

#[test]
fn a_block_of_keys_is_the_key_tile() {
    let of = |rows| small(Fp8::quantized(rows));
    assert_eq!(choice(of(96)).expect("its tile").schedule().tile.columns, 96);
    let told = choice(of(128)).expect_err("none has such a tile").to_string();
    assert!(told.contains("fwd_e4m3_d128: has a scale for every 96 rows of K"), "{told}");
    let problem = of(96).build().expect("fine");
    let heads = templates::named("fwd_e5m2_d128_heads").expect("it ships");
    let head = |k: ScaleBy, q: ScaleBy| {
        let fp8 = Fp8 { k: k.into(), q: q.into(), output: Output::F16, ..Fp8::default() };
        eligible(&heads, &small(fp8).element(Element::E5m2).build().expect("fine"))
    };
    assert_eq!(head(ScaleBy::Head, ScaleBy::KvHead), Ok(()));
    assert_eq!(head(ScaleBy::Head, ScaleBy::Block(64)), Err(Ineligible::ScalesByHead));
    assert!(eligible(&heads, &problem).is_err());
}

#[test]
fn what_approximates_is_not_chosen_unasked() {
    let linear = templates::named("fwd_linear_e4m3_d128").expect("it ships");
    let problem = small(Fp8::quantized(96)).build().expect("fine");
    assert_eq!(eligible(&linear, &problem), Ok(()));
    let told = choose(&Registry::new(vec![linear.clone()]), &problem, USUAL_SMS).expect_err("not chosen").to_string();
    assert!(told.contains("fwd_linear_e4m3_d128: approximates P"), "{told}");
    let tuned = "[[prefer]]\nschedule = 'fwd_linear_e4m3_d128'\nelement = 'e4m3'\nhead_dim = 128\nvariant = 'full'\n";
    let registry = Registry::shipped().with_tuning(tuned).expect("reads");
    assert_eq!(choose(&registry, &problem, USUAL_SMS).expect("another").schedule().name, "fwd_e4m3_d128");
    let derived = tuned.replace("fwd_linear_e4m3_d128", "fwd_long_e4m3_d128");
    let registry = Registry::shipped().with_tuning(&derived).expect("reads");
    assert_eq!(choose(&registry, &problem, USUAL_SMS).expect("it").schedule().name, "fwd_long_e4m3_d128");
}

#[test]
fn linear_exponentials_are_chosen_where_asked_for_and_there() {
    let of = |fp8: Fp8| small(fp8.exponentials(Exponentials::Linear));
    let name = |builder| choice(builder).expect("supported").schedule().name.clone();
    let transposed = Fp8 { values: Values::Transposed, ..Fp8::default() };
    for (tokens, batch) in [(512, 32), (4096, 4), (16_384, 1), (333, 1), (1, 1)] {
        let of = |fp8| of(fp8).batch(batch).queries(tokens);
        for dim in [64, 128, 256] {
            assert_eq!(name(of(transposed).head_dim(dim)), format!("fwd_linear_e4m3_d{dim}"), "{tokens}");
            let f16 = Fp8 { output: Output::F16, ..transposed };
            assert_eq!(name(of(f16).head_dim(dim)), format!("fwd_linear_e4m3_d{dim}_f16_out"), "{tokens}");
        }
        // One query sees all there is: the mask hides nothing.
        let causal = if tokens == 1 { "" } else { "_causal" };
        assert_eq!(name(of(Fp8::quantized(96)).causal(true)), format!("fwd_linear_e4m3_d128{causal}"));
    }
    // None for these: as if it was not asked for.
    for dim in [96, 192] {
        assert_eq!(name(of(transposed).head_dim(dim)), format!("fwd_e4m3_d{dim}"));
    }
    assert_eq!(name(of(Fp8::default())), name(small(Fp8::default())));
    assert_eq!(name(of(transposed).element(Element::E5m2)), name(small(transposed).element(Element::E5m2)));
}

#[test]
fn exponentials_are_exact_where_sums_are_accurate() {
    let of = |accumulation, keys| {
        let fp8 = Fp8 { values: Values::Transposed, accumulation, ..Fp8::default() };
        choice(small(fp8.exponentials(Exponentials::Linear)).keys(keys)).expect("supported").schedule().name.clone()
    };
    assert_eq!(of(Accumulation::Accurate, 1024), "fwd_long_e4m3_d128");
    assert_eq!(of(Accumulation::Auto, Accumulation::LONG), "fwd_long_e4m3_d128");
    assert_eq!(of(Accumulation::Auto, Accumulation::LONG - 1), "fwd_linear_e4m3_d128");
}

#[test]
fn a_tuning_is_followed_among_schedules_that_make_p_as_asked() {
    let told =
        |name: &str| format!("[[prefer]]\nschedule = '{name}'\nelement = 'e4m3'\nhead_dim = 128\nvariant = 'full'\n");
    let [exact, linear] =
        ["fwd_e4m3_d128", "fwd_linear_e4m3_d128"].map(|name| templates::named(name).expect("it ships"));
    let other = Schedule { name: "other".into(), rescale: Rescale::Always, ..linear.clone() };
    let shipped = Registry::new(vec![exact, linear, other]);
    let chosen = |tuned: &str, exponentials| {
        let problem = small(Fp8::quantized(96).exponentials(exponentials)).build().expect("fine");
        let registry = shipped.with_tuning(tuned).expect("reads");
        choose(&registry, &problem, USUAL_SMS).expect("supported").schedule().name.clone()
    };
    let both = told("fwd_e4m3_d128") + &told("other");
    assert_eq!(chosen(&both, Exponentials::Exact), "fwd_e4m3_d128");
    assert_eq!(chosen(&both, Exponentials::Linear), "other");
    assert_eq!(chosen(&told("fwd_e4m3_d128"), Exponentials::Linear), "fwd_linear_e4m3_d128");
}

#[test]
fn explanations_say_how_p_is_made_where_it_was_asked_for() {
    let told = |fp8: Fp8| {
        let problem = small(fp8.exponentials(Exponentials::Linear)).build().expect("fine");
        let registry = Registry::shipped();
        let chosen = choose(registry, &problem, USUAL_SMS).expect("fine");
        Explanation { registry, problem: &problem, chosen: &chosen, sms: USUAL_SMS, given: false, report: None }
            .to_string()
    };
    for (fp8, parts) in [
        (
            Fp8::quantized(96),
            [
                "O in bf16, P linear",
                "P is linear between powers of two, as asked for",
                "not fwd_e4m3_d128: eligible; P is exact, and linear ones go before",
            ],
        ),
        (
            Fp8::default(),
            [
                "P is exact: no schedule for this problem takes it for linear",
                "not fwd_linear_e4m3_d128: takes V transposed",
                "O in bf16, P linear",
            ],
        ),
        (
            Fp8 { accumulation: Accumulation::Accurate, ..Fp8::quantized(96) },
            [
                "P is exact, as it is with accurate sums",
                "not fwd_linear_e4m3_d128: keeps sums of O in the tensor cores",
                "accurate sums, P linear",
            ],
        ),
    ] {
        let told = told(fp8);
        parts.iter().for_each(|part| assert!(told.contains(part), "`{part}` in:\n{told}"));
    }
}

#[test]
fn explanations_of_8_bit_problems_tell_of_the_derived_too() {
    let problem = small(Fp8::quantized(96)).build().expect("fine");
    let chosen = choose(Registry::shipped(), &problem, USUAL_SMS).expect("fine");
    let registry = Registry::shipped();
    let told = Explanation { registry, problem: &problem, chosen: &chosen, sms: USUAL_SMS, given: false, report: None };
    let told = told.to_string();
    for part in [
        "scales by q block(64), k block(96), v head",
        "not fwd_linear_e4m3_d128: eligible; approximates P",
        "not fwd_long_e4m3_d128: eligible; keeps sums of O otherwise",
        "not fwd_rows_e4m3_d128: takes V by rows",
        "not fwd_e4m3_d128_f16_out: writes O in f16",
        "not fwd_bf16_d128: takes bf16",
    ] {
        assert!(told.contains(part), "`{part}` in:\n{told}");
    }
}
