//! What the verifier says: a finding names the rule, the place and what would do instead. Collects findings and
//! drops repetitions; judges nothing itself.

use std::collections::BTreeMap;
use std::fmt;

use ptx::{Kernel, Line};

/// One fault of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's code, of [`crate::RULES`].
    pub rule: &'static str,
    /// Index into the kernel's body, if it concerns one line.
    pub line: Option<usize>,
    /// What is wrong, and what would do instead.
    pub message: String,
    /// The kernel.
    pub kernel: String,
    /// The role whose code the line belongs to, if any.
    pub role: Option<String>,
    /// The shared-memory region that it concerns, if one.
    pub region: Option<String>,
    /// The text of the line.
    pub instruction: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = crate::rule(self.rule).map_or("", |r| r.title);
        write!(f, "{} {title}: {}\n  in kernel {}", self.rule, self.message, self.kernel)?;
        if let Some(role) = &self.role {
            write!(f, ", role {role}")?;
        }
        if let Some(region) = &self.region {
            write!(f, ", region {region}")?;
        }
        if let Some(line) = self.line {
            write!(f, ", line {line} of the body")?;
        }
        if let Some(text) = &self.instruction {
            // A product names a hundred registers; its head says which one it is.
            match text.char_indices().nth(110) {
                Some((cut, _)) => write!(f, "\n  at `{} ...`", &text[..cut])?,
                None => write!(f, "\n  at `{text}`")?,
            }
        }
        Ok(())
    }
}

/// Collects findings, one for each rule and line.
pub(crate) struct Report<'a> {
    kernel: &'a Kernel,
    found: BTreeMap<(Option<usize>, &'static str, String), Finding>,
}

impl<'a> Report<'a> {
    pub fn new(kernel: &'a Kernel) -> Report<'a> {
        Report { kernel, found: BTreeMap::new() }
    }

    /// A finding about the kernel's declarations.
    pub fn declared(&mut self, rule: &'static str, message: String) {
        let key = (None, rule, message.clone());
        self.found.entry(key).or_insert_with(|| finding(self.kernel, rule, None, message));
    }

    /// A finding about one region.
    pub fn region(&mut self, rule: &'static str, name: &str, line: Option<usize>, message: String) {
        let key = (line, rule, name.to_owned());
        self.found
            .entry(key)
            .or_insert_with(|| Finding { region: Some(name.to_owned()), ..finding(self.kernel, rule, line, message) });
    }

    /// A finding about a line; the first message of a rule there is kept.
    pub fn at(&mut self, rule: &'static str, line: usize, message: String) {
        let key = (Some(line), rule, String::new());
        self.found.entry(key).or_insert_with(|| finding(self.kernel, rule, Some(line), message));
    }

    /// True if nothing of these families was found.
    pub fn clean_of(&self, families: &[char]) -> bool {
        !self.found.keys().any(|(_, rule, _)| families.iter().any(|f| rule.starts_with(*f)))
    }

    /// True if nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All findings, by line.
    pub fn into_findings(self) -> Vec<Finding> {
        self.found.into_values().collect()
    }
}

fn finding(kernel: &Kernel, rule: &'static str, line: Option<usize>, message: String) -> Finding {
    let instruction = line.and_then(|l| kernel.body.get(l)).and_then(|l| match l {
        Line::Inst(inst) => Some(inst.to_string()),
        Line::Label(label) => Some(format!("{label}:")),
        _ => None,
    });
    let role = line.and_then(|l| crate::cfg::role_at(kernel, l)).and_then(|r| kernel.roles.get(r));
    Finding {
        rule,
        line,
        message,
        kernel: kernel.name.clone(),
        role: role.map(|r| r.name.clone()),
        region: None,
        instruction,
    }
}
