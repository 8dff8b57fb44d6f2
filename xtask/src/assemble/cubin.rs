//! The size of a cubin's machine code. A cubin is an ELF file with one `.text.<kernel>` section a kernel.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// Bytes of machine code, all kernels together; none if the bytes are no cubin.
pub fn code_bytes(cubin: &[u8]) -> Option<u64> {
    let file: ElfFile64<'_> = ElfFile64::parse(cubin).ok()?;
    let is_code = |name: object::Result<&str>| name.is_ok_and(|name| name.starts_with(".text."));
    Some(file.sections().filter(|section| is_code(section.name())).map(|section| section.size()).sum())
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_no_cubin_has_no_size() {
        assert_eq!(super::code_bytes(b""), None);
        assert_eq!(super::code_bytes(b"\x7fELF and nothing more"), None);
    }
}
