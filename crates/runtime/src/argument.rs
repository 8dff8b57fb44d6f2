//! Kernel arguments: brought by name, matched against the parameters, laid out for the driver.

use std::ffi::c_void;

use ptx::{Param, ParamKind};

use crate::tensor_map::{CUtensorMap128, TensorMapArg};
use crate::{Error, Result};

/// A value for a kernel parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// 32 bits.
    U32(u32),
    /// 64 bits, device addresses among them.
    U64(u64),
    /// Single precision.
    F32(f32),
    /// A tensor map, encoded for the very parameter it is passed to.
    Tensor(Box<TensorMapArg>),
}

impl From<TensorMapArg> for Argument {
    fn from(map: TensorMapArg) -> Self {
        Self::Tensor(Box::new(map))
    }
}

impl Argument {
    /// Whether a parameter of that kind takes it.
    fn fits(&self, kind: &ParamKind) -> bool {
        match (self, kind) {
            (Self::U32(_), ParamKind::U32) | (Self::U64(_), ParamKind::U64) | (Self::F32(_), ParamKind::F32) => true,
            (Self::Tensor(map), ParamKind::Tensor(spec)) => map.spec() == spec,
            _ => false,
        }
    }

    /// Its kind in words.
    fn kind(&self) -> String {
        match self {
            Self::U32(_) => "a 32-bit integer".into(),
            Self::U64(_) => "a 64-bit integer".into(),
            Self::F32(_) => "a single-precision number".into(),
            Self::Tensor(map) => tensor_words(map.spec()),
        }
    }

    /// Its bytes, little-endian, at the start of a slot.
    fn slot(&self) -> Slot {
        let mut slot = CUtensorMap128([0; 128]);
        match self {
            Self::U32(value) => slot.0[..4].copy_from_slice(&value.to_ne_bytes()),
            Self::U64(value) => slot.0[..8].copy_from_slice(&value.to_ne_bytes()),
            Self::F32(value) => slot.0[..4].copy_from_slice(&value.to_ne_bytes()),
            Self::Tensor(map) => slot = map.bytes,
        }
        slot
    }
}

/// Room for any argument: 128 bytes on a 128-byte boundary.
type Slot = CUtensorMap128;

/// A parameter's kind in words.
fn kind_words(kind: &ParamKind) -> String {
    match kind {
        ParamKind::U32 => "a 32-bit integer".into(),
        ParamKind::U64 => "a 64-bit integer".into(),
        ParamKind::F32 => "a single-precision number".into(),
        ParamKind::Tensor(spec) => tensor_words(spec),
    }
}

/// A tensor map's kind in words.
fn tensor_words(spec: &ptx::TensorMap) -> String {
    let edges: Vec<String> = spec.box_dims.iter().map(u32::to_string).collect();
    format!("a {} tensor map with box {} and swizzle {}", spec.element.word(), edges.join("x"), spec.swizzle.word())
}

/// The arguments of a launch in the order of the kernel's parameters. Owns their bytes.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    slots: Vec<Slot>,
}

impl Block {
    /// Parameters that a kernel may have here.
    pub(crate) const MOST: usize = 64;

    /// Orders named arguments by the parameters.
    pub(crate) fn new(kernel: &str, params: &[Param], given: &[(&str, Argument)]) -> Result<Self> {
        let mismatch = |detail: String| Err(Error::ArgumentMismatch { kernel: kernel.into(), detail });
        if params.len() > Self::MOST {
            return mismatch(format!("{} parameters, at most {} can be passed", params.len(), Self::MOST));
        }
        let mut slots = Vec::with_capacity(params.len());
        for (at, param) in params.iter().enumerate() {
            // Callers mostly keep the kernel's order, so the same place is looked at first.
            let hit = given.get(at).filter(|(name, _)| *name == param.name);
            let Some((_, value)) = hit.or_else(|| given.iter().find(|(name, _)| *name == param.name)) else {
                return mismatch(format!("argument {} is missing: it takes {}", param.name, kind_words(&param.kind)));
            };
            if !value.fits(&param.kind) {
                let (wanted, found) = (kind_words(&param.kind), value.kind());
                return mismatch(format!("argument {} takes {wanted}, given was {found}", param.name));
            }
            slots.push(value.slot());
        }
        for (at, (name, _)) in given.iter().enumerate() {
            if !params.iter().any(|param| param.name == *name) {
                let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
                return mismatch(format!("argument {name} is none of its parameters, which are {}", names.join(", ")));
            }
            if given[..at].iter().any(|(earlier, _)| earlier == name) {
                return mismatch(format!("argument {name} is given twice"));
            }
        }
        Ok(Self { slots })
    }

    /// Pointers to the arguments, for as long as the block stays where it is. Entries past the last are null.
    pub(crate) fn pointers(&self) -> [*mut c_void; Self::MOST] {
        let mut pointers = [std::ptr::null_mut(); Self::MOST];
        for (pointer, slot) in pointers.iter_mut().zip(&self.slots) {
            *pointer = (&raw const slot.0).cast_mut().cast();
        }
        pointers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::{Swizzle, TensorElement, TensorMap};

    fn spec(rows: u32) -> TensorMap {
        TensorMap { element: TensorElement::Bf16, box_dims: vec![64, rows], swizzle: Swizzle::B128 }
    }

    fn params() -> Vec<Param> {
        let param = |name: &str, kind| Param { name: name.into(), kind };
        vec![
            param("q", ParamKind::Tensor(spec(128))),
            param("lse", ParamKind::U64),
            param("keys", ParamKind::U32),
            param("scale", ParamKind::F32),
        ]
    }

    fn given() -> Vec<(&'static str, Argument)> {
        vec![
            ("scale", Argument::F32(0.5)),
            ("keys", Argument::U32(300)),
            ("lse", Argument::U64(0x7000_0000_1000)),
            ("q", TensorMapArg::blank(&spec(128)).into()),
        ]
    }

    fn detail(given: &[(&str, Argument)]) -> String {
        Block::new("k", &params(), given).expect_err("a mismatch").to_string()
    }

    #[test]
    fn values_stand_in_the_order_of_the_parameters() {
        let block = Block::new("k", &params(), &given()).expect("all there");
        let pointers = block.pointers();
        // SAFETY: the pointers lead into `block`, which lives; each slot starts with the bytes of its value.
        let (lse, keys, scale) =
            unsafe { (*pointers[1].cast::<u64>(), *pointers[2].cast::<u32>(), *pointers[3].cast::<f32>()) };
        assert_eq!((lse, keys, scale), (0x7000_0000_1000, 300, 0.5));
        assert!(pointers[..4].iter().all(|p| p.addr().is_multiple_of(128)));
        assert!(pointers[4..].iter().all(|p| p.is_null()));
    }

    #[test]
    fn a_missing_an_extra_and_a_double_name_are_told() {
        let mut fewer = given();
        fewer.retain(|(name, _)| *name != "keys");
        assert!(detail(&fewer).contains("argument keys is missing"));
        let mut more = given();
        more.push(("queries", Argument::U32(1)));
        assert!(detail(&more).contains("queries is none of its parameters, which are q, lse, keys, scale"));
        let mut twice = given();
        twice.push(("keys", Argument::U32(1)));
        assert!(detail(&twice).contains("keys is given twice"));
    }

    #[test]
    fn a_wrong_type_and_a_map_of_another_box_are_told() {
        let mut wide = given();
        wide[1].1 = Argument::U64(300);
        assert!(detail(&wide).contains("keys takes a 32-bit integer, given was a 64-bit integer"));
        let mut other = given();
        other[3].1 = TensorMapArg::blank(&spec(64)).into();
        let told = detail(&other);
        assert!(told.contains("box 64x128") && told.contains("box 64x64"), "{told}");
    }
}
