//! A timeline of a run, in Perfetto's JSON (the Chrome trace event format: complete events and thread names).
//!
//! Its clock is a rough machine: one instruction a warp and clock, N/2 clocks a product on the warp's tensor core, a fixed
//! latency and 16 bytes a clock for a copy. Waits end when what they wait for does. It shows who overlaps with whom and
//! who waits for whom, not how long a kernel takes; the run itself does not follow it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Debug)]
struct Span {
    cta: u32,
    track: String,
    name: String,
    from: u64,
    to: u64,
}

/// Spans of time by track.
#[derive(Debug, Default)]
pub struct Trace {
    on: bool,
    /// By warp.
    roles: Vec<String>,
    spans: Vec<Span>,
    barriers: BTreeMap<(u32, String), u64>,
}

impl Trace {
    /// Keeps nothing.
    pub(crate) fn off() -> Trace {
        Trace::default()
    }

    /// Keeps everything; the roles of the warps.
    pub(crate) fn on(roles: Vec<String>) -> Trace {
        Trace { on: true, roles, ..Trace::default() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    fn track(&self, warp: usize) -> String {
        let role = self.roles.get(warp).map_or("", String::as_str);
        format!("{role} warp {warp:02}")
    }

    fn span(&mut self, cta: u32, track: String, name: String, from: u64, to: u64) {
        if from < to {
            self.spans.push(Span { cta, track, name, from, to });
        }
    }

    /// A warp does not run.
    pub(crate) fn warp(&mut self, cta: u32, warp: usize, name: impl FnOnce() -> String, from: u64, to: u64) {
        if self.on && from < to {
            self.span(cta, self.track(warp), name(), from, to);
        }
    }

    /// A group of products runs.
    pub(crate) fn product(&mut self, cta: u32, warp: usize, from: u64, to: u64) {
        if self.on {
            self.span(cta, format!("{} products", self.track(warp)), "products".to_owned(), from, to);
        }
    }

    /// A copy runs.
    pub(crate) fn copy(&mut self, cta: u32, name: &str, from: u64, to: u64) {
        self.span(cta, format!("copy: {name}"), name.to_owned(), from, to);
    }

    /// A phase of a barrier ends.
    pub(crate) fn barrier(&mut self, cta: u32, name: &str, phase: u64, when: u64) {
        let from = self.barriers.insert((cta, name.to_owned()), when).unwrap_or(0);
        self.span(cta, format!("barrier: {name}"), format!("phase {phase}"), from, when);
    }

    /// The file for <https://ui.perfetto.dev>.
    pub fn to_json(&self) -> String {
        let mut tracks: BTreeMap<(u32, &str), Vec<&Span>> = BTreeMap::new();
        for span in &self.spans {
            tracks.entry((span.cta, &span.track)).or_default().push(span);
        }
        let mut out = String::from("{\"traceEvents\":[\n");
        let mut event = |text: std::fmt::Arguments<'_>| {
            let comma = if out.ends_with("[\n") { "" } else { ",\n" };
            // Writing to a String cannot fail.
            let _ = write!(out, "{comma}{text}");
        };
        let ctas: std::collections::BTreeSet<u32> = tracks.keys().map(|(cta, _)| *cta).collect();
        for cta in ctas {
            event(format_args!(
                r#"{{"ph":"M","name":"process_name","pid":{cta},"tid":0,"args":{{"name":"CTA {cta}"}}}}"#
            ));
        }
        let mut tid = 0;
        for ((cta, track), spans) in tracks {
            for row in rows(spans) {
                tid += 1;
                event(format_args!(
                    r#"{{"ph":"M","name":"thread_name","pid":{cta},"tid":{tid},"args":{{"name":"{track}"}}}}"#
                ));
                for Span { name, from, to, .. } in row {
                    let length = to - from;
                    event(format_args!(
                        r#"{{"ph":"X","name":"{name}","pid":{cta},"tid":{tid},"ts":{from},"dur":{length}}}"#
                    ));
                }
            }
        }
        out.push_str("\n]}\n");
        out
    }
}

/// Spans of a track in rows in which none overlaps another.
fn rows(mut spans: Vec<&Span>) -> Vec<Vec<&Span>> {
    spans.sort_by_key(|s| (s.from, s.to));
    let mut rows: Vec<Vec<&Span>> = Vec::new();
    for span in spans {
        match rows.iter_mut().find(|row| row.last().is_none_or(|last| last.to <= span.from)) {
            Some(row) => row.push(span),
            None => rows.push(vec![span]),
        }
    }
    rows
}
