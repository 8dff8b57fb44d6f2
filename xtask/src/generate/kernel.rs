//! One schedule to one kernel's text and manifest entry, or the whole reason why not.

use super::manifest::Entry;
use schedule::Schedule;
use std::fmt;

/// A kernel as it goes to disk.
pub struct Generated {
    /// The PTX.
    pub text: String,
    /// Its line of the manifest.
    pub entry: Entry,
}

/// Why a schedule became no kernel; the first field is its name.
pub enum Failure {
    /// The lowering has no such option.
    Refused(String, kernels::Refused),
    /// The kernel breaks rules of the verifier.
    Broken(String, Vec<check::Finding>),
}

/// Lowers, verifies and prints.
pub fn generate(schedule: &Schedule) -> Result<Generated, Failure> {
    let name = || schedule.name.clone();
    let module = kernels::lower(schedule).map_err(|refused| Failure::Refused(name(), refused))?;
    let verified = check::verify(module).map_err(|findings| Failure::Broken(name(), findings))?;
    let text = ptx::print(&verified);
    let entry = Entry::new(schedule, ptx::Proven::module(&verified), &text);
    Ok(Generated { text, entry })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(name, refused) => write!(f, "{name}: {refused}"),
            Self::Broken(name, findings) => {
                write!(f, "{name}: {} findings of the verifier", findings.len())?;
                findings.iter().try_for_each(|finding| write!(f, "\n{finding}"))
            }
        }
    }
}
