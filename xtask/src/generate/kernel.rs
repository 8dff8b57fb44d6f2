//! One schedule to one kernel's text and manifest entry, or the whole reason why not.

use super::manifest::Entry;
use schedule::{Quantize, Schedule};
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

/// What becomes a kernel.
pub enum Source {
    /// An attention schedule.
    Attention(Schedule),
    /// A quantizer.
    Quantizer(Quantize),
}

impl Source {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Attention(schedule) => &schedule.name,
            Self::Quantizer(quantize) => &quantize.name,
        }
    }

    /// Lowers, verifies and prints.
    pub fn generate(&self) -> Result<Generated, Failure> {
        let name = || self.name().to_owned();
        let (hash, lowered) = match self {
            Self::Attention(schedule) => (schedule.hash(), kernels::lower(schedule)),
            Self::Quantizer(quantize) => (quantize.hash(), kernels::lower_quantize(quantize)),
        };
        let module = lowered.map_err(|refused| Failure::Refused(name(), refused))?;
        let verified = check::verify(module).map_err(|findings| Failure::Broken(name(), findings))?;
        let text = ptx::print(&verified);
        let entry = Entry::new(hash, ptx::Proven::module(&verified), &text);
        Ok(Generated { text, entry })
    }
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
