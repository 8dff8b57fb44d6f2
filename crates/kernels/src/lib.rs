//! Lowering: a schedule becomes a tile program.

/// Why a schedule is not lowered; names the option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The option as the schedule spells it.
    pub option: String,
    /// Why, and what would do instead.
    pub reason: String,
}

/// Lowers a schedule to the kernel it describes.
///
/// # Errors
/// An option that the lowering does not have, by name.
pub fn lower(schedule: &schedule::Schedule) -> Result<ptx::Module, Refused> {
    Err(Refused { option: schedule.name.clone(), reason: "nothing is lowered yet".into() })
}
