//! Tensor maps: what the copy engine needs to know of a tensor in memory, packed by the driver into 128 opaque bytes.
//!
//! The kernel's parameter says element, box and swizzle; the caller brings address, extents and strides. Every limit of
//! `cuTensorMapEncodeTiled` (CUDA driver API, tensor map object management) is checked here first, under the tensor's
//! name.

use cudarc::driver::sys;
use ptx::{Swizzle, TensorElement, TensorMap};

use crate::driver::ok;
use crate::{Error, Result};

/// Dimensions that a tensor map can have.
const RANK_MAX: usize = 5;
/// Boundary of base addresses and strides, bytes.
const ALIGN: u64 = 16;
/// Largest extent of a dimension.
const EXTENT_MAX: u64 = 1 << 32;
/// Strides stay below this, bytes.
const STRIDE_END: u64 = 1 << 40;
/// Largest edge of a box, elements.
const BOX_MAX: u32 = 256;

/// The driver's `CUtensorMap`. The bindings' own type changes alignment with their CUDA version.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CUtensorMap128(pub(crate) [u8; 128]);

/// An encoded tensor map, together with what it was encoded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMapArg {
    pub(crate) bytes: CUtensorMap128,
    spec: TensorMap,
}

/// A tensor in memory that has passed the rules: what is handed to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// How many of the entries below count.
    pub rank: usize,
    /// Extents in elements, innermost first.
    pub dims: [u64; RANK_MAX],
    /// Strides in bytes of dimensions 1 and up.
    pub strides: [u64; RANK_MAX],
}

/// Holds a tensor against the rules of the copy engine.
///
/// `dims` are extents in elements, innermost first; `strides` the byte strides of dimensions 1 and up, so one fewer.
/// The stride of a dimension of extent 1 is never used: a valid one stands in for it.
///
/// # Errors
/// [`Error::Shape`] for a wrong rank, an extent of 0 or above 2^32, or a box that the swizzle cannot hold;
/// [`Error::Misaligned`] for the base; [`Error::Stride`].
pub fn check_tensor(tensor: &str, spec: &TensorMap, address: u64, dims: &[u64], strides: &[u64]) -> Result<Geometry> {
    let rank = spec.box_dims.len();
    let shape = |what: String| Error::Shape(format!("tensor {tensor}: {what}"));
    if rank == 0 || rank > RANK_MAX || dims.len() != rank || strides.len() + 1 != rank {
        let (dims, strides) = (dims.len(), strides.len());
        let what = format!("{dims} extents and {strides} strides for a map of rank {rank}; 1 to {RANK_MAX} have maps");
        return Err(shape(what));
    }
    check_box(spec).map_err(shape)?;
    if let Some(at) = dims.iter().position(|&extent| extent == 0 || extent > EXTENT_MAX) {
        return Err(shape(format!("extent {} of dimension {at} is not within 1 ..= 2^32", dims[at])));
    }
    if address == 0 || !address.is_multiple_of(ALIGN) {
        let rule = "a base address is not null and a multiple of 16 bytes";
        return Err(Error::Misaligned { tensor: tensor.into(), address, rule });
    }
    let mut found = Geometry { rank, dims: [1; RANK_MAX], strides: [0; RANK_MAX] };
    found.dims[..rank].copy_from_slice(dims);
    let row = (dims[0] * u64::from(spec.element.bytes())).next_multiple_of(ALIGN);
    for (at, &bytes) in strides.iter().enumerate() {
        let rule = if dims[at + 1] == 1 {
            found.strides[at] = row.min(STRIDE_END - ALIGN);
            continue;
        } else if !bytes.is_multiple_of(ALIGN) {
            "a stride is a multiple of 16 bytes"
        } else if bytes >= STRIDE_END {
            "a stride is less than 2^40 bytes"
        } else {
            found.strides[at] = bytes;
            continue;
        };
        return Err(Error::Stride { tensor: tensor.into(), dimension: format!("dimension {}", at + 1), bytes, rule });
    }
    Ok(found)
}

/// Whether a box can be copied: edges of 1 to 256, inner row a multiple of 16 bytes and within the swizzle's span.
fn check_box(spec: &TensorMap) -> std::result::Result<(), String> {
    if let Some(edge) = spec.box_dims.iter().find(|&&edge| edge == 0 || edge > BOX_MAX) {
        return Err(format!("a box edge of {edge} is not within 1 ..= {BOX_MAX}"));
    }
    let row = spec.box_dims[0] * spec.element.bytes();
    if u64::from(row) % ALIGN != 0 {
        return Err(format!("a box row of {row} bytes is not a multiple of 16"));
    }
    if spec.swizzle != Swizzle::None && row > spec.swizzle.row_bytes() {
        let span = spec.swizzle.row_bytes();
        return Err(format!("a box row of {row} bytes is wider than the {span} bytes of its swizzle"));
    }
    Ok(())
}

impl TensorMapArg {
    /// Checks and encodes a tensor for a parameter of that map. A host-side computation: no device memory, no stream.
    ///
    /// The copy engine reads 256 bytes at a time into L2 and fills what lies outside of the extents with zeros.
    ///
    /// # Errors
    /// Those of the rules ([`Error::Shape`], [`Error::Misaligned`], [`Error::Stride`]), [`Error::NoDriver`], the
    /// driver's answer.
    pub fn encode(tensor: &str, spec: &TensorMap, address: u64, dims: &[u64], strides: &[u64]) -> Result<Self> {
        let geometry = check_tensor(tensor, spec, address, dims, strides)?;
        if !crate::driver::present() {
            return Err(Error::NoDriver);
        }
        let mut bytes = CUtensorMap128([0; 128]);
        let ones = [1_u32; RANK_MAX];
        // SAFETY: the map is 128 bytes on a 128-byte boundary, which every version of the driver accepts; the arrays
        // hold `rank` entries (strides one fewer) and outlive the call; the driver reads the address as a number and
        // never follows it.
        let code = unsafe {
            sys::cuTensorMapEncodeTiled(
                (&raw mut bytes).cast(),
                data_type(spec.element),
                geometry.rank as u32,
                address as *mut _,
                geometry.dims.as_ptr(),
                geometry.strides.as_ptr(),
                spec.box_dims.as_ptr(),
                ones.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle(spec.swizzle),
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        ok("cuTensorMapEncodeTiled", code)?;
        Ok(Self { bytes, spec: spec.clone() })
    }

    /// What the map was encoded for.
    pub fn spec(&self) -> &TensorMap {
        &self.spec
    }

    /// A map of that kind with no tensor behind it, for tests of what does not look inside.
    #[cfg(test)]
    pub(crate) fn blank(spec: &TensorMap) -> Self {
        Self { bytes: CUtensorMap128([0; 128]), spec: spec.clone() }
    }
}

/// The driver's name for an element.
fn data_type(element: TensorElement) -> sys::CUtensorMapDataType {
    match element {
        TensorElement::Bf16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        TensorElement::F16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorElement::F32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorElement::U8 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    }
}

/// The driver's name for a swizzle.
fn swizzle(swizzle: Swizzle) -> sys::CUtensorMapSwizzle {
    match swizzle {
        Swizzle::None => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::B32 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> TensorMap {
        TensorMap { element: TensorElement::Bf16, box_dims: vec![64, 128, 1, 1], swizzle: Swizzle::B128 }
    }

    fn of(address: u64, dims: [u64; 4], strides: [u64; 3]) -> Result<Geometry> {
        check_tensor("k", &spec(), address, &dims, &strides)
    }

    #[test]
    fn the_map_is_what_every_driver_takes() {
        assert_eq!((size_of::<CUtensorMap128>(), align_of::<CUtensorMap128>()), (128, 128));
    }

    #[test]
    fn a_plain_tensor_passes_as_it_is() {
        let found = of(0x7000, [128, 300, 8, 2], [2048, 256, 614_400]).expect("fine");
        assert_eq!(
            (found.rank, &found.dims[..4], &found.strides[..3]),
            (4, &[128, 300, 8, 2][..], &[2048, 256, 614_400][..])
        );
    }

    #[test]
    fn base_and_stride_rules_name_the_tensor() {
        for offset in [2, 8] {
            let error = of(0x7000 + offset, [64, 130, 2, 1], [256, 128, 33_280]).expect_err("misaligned").to_string();
            assert!(error.contains("tensor k") && error.contains("16 bytes"), "{error}");
        }
        let odd = of(0x7000, [64, 130, 2, 1], [132, 128, 0]).expect_err("odd stride").to_string();
        assert!(odd.contains("tensor k") && odd.contains("132 bytes") && odd.contains("16 bytes"), "{odd}");
        let far = of(0x7000, [64, 130, 2, 2], [256, 128, 1 << 40]).expect_err("far stride").to_string();
        assert!(far.contains("2^40"), "{far}");
        assert!(of(0, [64, 130, 2, 1], [256, 128, 0]).is_err());
    }

    #[test]
    fn the_stride_of_one_row_is_not_asked_about() {
        let found = of(0x7000, [64, 1, 1, 1], [7, 0, 1 << 50]).expect("extents of 1");
        assert_eq!(found.strides[..3], [128, 128, 128]);
    }

    #[test]
    fn extents_run_from_one_to_two_to_the_32() {
        assert!(of(0x7000, [64, 1 << 32, 1, 1], [128, 0, 0]).is_ok());
        for extent in [0, (1 << 32) + 1] {
            let error = of(0x7000, [64, extent, 1, 1], [128, 0, 0]).expect_err("extent").to_string();
            assert!(error.contains("dimension 1"), "{error}");
        }
    }

    #[test]
    fn boxes_fit_the_engine_and_their_swizzle() {
        let with = |edge: usize, value: u32| {
            let mut wrong = spec();
            wrong.box_dims[edge] = value;
            check_tensor("k", &wrong, 0x7000, &[64, 1, 1, 1], &[0; 3]).expect_err("box").to_string()
        };
        assert!(with(1, 257).contains("257"));
        assert!(with(0, 128).contains("256 bytes is wider than the 128"));
        assert!(with(0, 4).contains("multiple of 16"));
        assert!(check_tensor("k", &spec(), 0x7000, &[64, 1, 1], &[0; 2]).is_err());
    }

    #[test]
    fn without_a_driver_a_right_tensor_says_so() {
        if crate::present() {
            return;
        }
        let found = TensorMapArg::encode("k", &spec(), 0x7000, &[64, 2, 1, 1], &[128, 0, 0]);
        assert_eq!(found, Err(Error::NoDriver));
    }
}
