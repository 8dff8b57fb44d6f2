//! Abstract values of a warp's registers: a few alternatives, each known for all 32 lanes, or unknown.
//!
//! Values derived from `%tid`, `%laneid`, constants and the shared-memory symbol are computed exactly, lane by lane;
//! ring stages and parities are small sets of alternatives; what comes from parameters, memory or a long loop is
//! unknown. Knows no instruction: `eval` maps those onto the operations here.

use std::rc::Rc;

/// Alternatives that a value may have before it counts as unknown. Rings have at most eight stages.
const MOST_ALTERNATIVES: usize = 12;
/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// A set of lanes.
pub(crate) type Mask = u32;
/// All lanes.
pub(crate) const ALL: Mask = u32::MAX;

/// One value for every lane of a warp.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lanes {
    /// The same in all lanes.
    Same(u64),
    /// One each.
    Each(Rc<[u64; LANES]>),
}

impl Lanes {
    /// From a value for each lane.
    pub fn new(values: [u64; LANES]) -> Lanes {
        if values.iter().all(|v| *v == values[0]) { Lanes::Same(values[0]) } else { Lanes::Each(Rc::new(values)) }
    }

    /// The value of a lane.
    pub fn get(&self, lane: usize) -> u64 {
        match self {
            Lanes::Same(v) => *v,
            Lanes::Each(v) => v[lane],
        }
    }

    /// `self` in the lanes of the mask, `other` elsewhere.
    fn select(&self, mask: Mask, other: &Lanes) -> Lanes {
        match mask {
            ALL => self.clone(),
            0 => other.clone(),
            _ => Lanes::new(std::array::from_fn(|l| if mask >> l & 1 == 1 { self.get(l) } else { other.get(l) })),
        }
    }
}

/// What is known of a register.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Not written on any path so far.
    Unset,
    /// One of these alternatives, sorted.
    Known(Rc<Vec<Lanes>>),
    /// The address of a parameter (index), in parameter space or generic.
    Param { index: usize, generic: bool },
    /// Anything; the same in all lanes, or not.
    Unknown { uniform: bool },
}

impl Value {
    /// A constant.
    pub fn constant(v: u64) -> Value {
        Value::Known(Rc::new(vec![Lanes::Same(v)]))
    }

    /// One known value for each lane.
    pub fn lanes(f: impl FnMut(usize) -> u64) -> Value {
        Value::Known(Rc::new(vec![Lanes::new(std::array::from_fn(f))]))
    }

    /// Any of these.
    pub fn any_of(mut alternatives: Vec<Lanes>) -> Value {
        alternatives.sort_unstable();
        alternatives.dedup();
        if alternatives.is_empty() || alternatives.len() > MOST_ALTERNATIVES {
            return Value::Unknown { uniform: alternatives.iter().all(|a| matches!(a, Lanes::Same(_))) };
        }
        Value::Known(Rc::new(alternatives))
    }

    /// The alternatives, if known.
    pub fn alternatives(&self) -> Option<&[Lanes]> {
        match self {
            Value::Known(a) => Some(a),
            _ => None,
        }
    }

    /// The only alternative.
    pub fn single(&self) -> Option<&Lanes> {
        match self.alternatives()? {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The one value of all lanes.
    pub fn uniform_constant(&self) -> Option<u64> {
        match self.single()? {
            Lanes::Same(v) => Some(*v),
            Lanes::Each(_) => None,
        }
    }

    /// True if all lanes surely hold the same.
    pub fn is_uniform(&self) -> bool {
        match self {
            Value::Unset | Value::Param { .. } => true,
            Value::Known(a) => a.iter().all(|l| matches!(l, Lanes::Same(_))),
            Value::Unknown { uniform } => *uniform,
        }
    }

    /// Every value that a lane of the mask may hold, if known: sorted, without repetition.
    pub fn possible(&self, mask: Mask) -> Option<Vec<u64>> {
        let mut out: Vec<u64> = Vec::new();
        for a in self.alternatives()? {
            match a {
                Lanes::Same(v) => out.push(*v),
                Lanes::Each(v) => out.extend((0..LANES).filter(|l| mask >> l & 1 == 1).map(|l| v[l])),
            }
        }
        out.sort_unstable();
        out.dedup();
        Some(out)
    }

    /// The lanes of `mask` in which this predicate holds, if that is known.
    pub fn holds(&self, mask: Mask) -> Option<Mask> {
        let one = self.single()?;
        Some((0..LANES).filter(|&l| one.get(l) != 0).fold(0, |m, l| m | 1 << l) & mask)
    }

    /// The sets of lanes of `mask` in which this predicate may have the value, one for each alternative, if known.
    pub fn masks(&self, mask: Mask, value: bool) -> Option<Vec<Mask>> {
        let held = |one: &Lanes| (0..LANES).filter(|&l| (one.get(l) != 0) == value).fold(0, |m, l| m | 1 << l) & mask;
        let mut out: Vec<Mask> = self.alternatives()?.iter().map(held).collect();
        out.sort_unstable();
        out.dedup();
        Some(out)
    }

    /// Applies a function of any number of operands lane by lane.
    pub fn apply(operands: &[&Value], f: impl Fn(&[u64]) -> u64) -> Value {
        let unknown = Value::Unknown { uniform: operands.iter().all(|v| v.is_uniform()) };
        let mut sets: Vec<&[Lanes]> = Vec::with_capacity(operands.len());
        let mut combinations = 1usize;
        for v in operands {
            let Some(a) = v.alternatives() else { return unknown };
            combinations *= a.len();
            sets.push(a);
        }
        if combinations > MOST_ALTERNATIVES * MOST_ALTERNATIVES {
            return unknown;
        }
        let mut out = Vec::with_capacity(combinations);
        for mut n in 0..combinations {
            let pick: Vec<&Lanes> = sets
                .iter()
                .map(|s| {
                    let one = &s[n % s.len()];
                    n /= s.len();
                    one
                })
                .collect();
            let at = |lane: usize| f(&pick.iter().map(|p| p.get(lane)).collect::<Vec<u64>>());
            out.push(match pick.iter().all(|p| matches!(p, Lanes::Same(_))) {
                true => Lanes::Same(at(0)),
                false => Lanes::new(std::array::from_fn(at)),
            });
        }
        Value::any_of(out)
    }

    /// What a register holds where control from two edges meets: `self` came with the lanes `mine`, `other` with
    /// `theirs`. Lanes that only one edge brings take that edge's value.
    pub fn meet(&self, mine: Mask, other: &Value, theirs: Mask) -> Value {
        if self == other {
            return self.clone();
        }
        match (self, other) {
            (Value::Unset, v) | (v, Value::Unset) => v.clone(),
            (Value::Known(a), Value::Known(b)) => {
                let mut out = Vec::with_capacity(2 * a.len() * b.len());
                for x in a.iter() {
                    for y in b.iter() {
                        // Lanes of both edges hold either; lanes of one edge hold that edge's.
                        out.push(x.select(mine | !theirs, y));
                        out.push(y.select(theirs | !mine, x));
                    }
                }
                Value::any_of(out)
            }
            _ => Value::Unknown { uniform: mine == theirs && self.is_uniform() && other.is_uniform() },
        }
    }

    /// The value without the alternatives that `keep` refuses; unknown values stay.
    pub fn refine(&self, keep: impl Fn(u64) -> bool) -> Value {
        match self.alternatives() {
            Some(a) => {
                let left: Vec<Lanes> =
                    a.iter().filter(|l| !matches!(l, Lanes::Same(v) if !keep(*v))).cloned().collect();
                // Nothing left: the path is never taken. The value stays as it was, which errs to silence.
                if left.is_empty() { self.clone() } else { Value::any_of(left) }
            }
            None => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_one_edge_keep_its_value() {
        let (one, two) = (Value::constant(1), Value::constant(2));
        let met = one.meet(1, &two, !1);
        assert_eq!(met, Value::lanes(|l| if l == 0 { 1 } else { 2 }));
        assert_eq!(one.meet(ALL, &two, ALL).possible(ALL), Some(vec![1, 2]));
    }

    #[test]
    fn a_ring_stage_stays_small() {
        let mut stage = Value::constant(0);
        for _ in 0..20 {
            let next = Value::apply(&[&stage], |v| v[0] + 1);
            let wrapped = next.refine(|v| v != 3);
            stage = stage.meet(ALL, &wrapped, ALL).meet(ALL, &Value::constant(0), ALL);
        }
        assert_eq!(stage.possible(ALL), Some(vec![0, 1, 2]));
    }

    #[test]
    fn a_long_count_becomes_unknown() {
        let mut n = Value::constant(0);
        for _ in 0..40 {
            n = n.meet(ALL, &Value::apply(&[&n], |v| v[0] + 1), ALL);
        }
        assert_eq!(n, Value::Unknown { uniform: true });
    }
}
