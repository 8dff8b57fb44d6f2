//! Groups of asynchronous operations: opened, committed in order, and retired by a wait that leaves the newest. Used
//! for wgmma groups (registers, tiles) and bulk-store groups alike. (PTX ISA, "wgmma.commit_group",
//! "cp.async.bulk.commit_group".)

use std::collections::{BTreeSet, VecDeque};

/// Groups in flight are followed up to this many; older ones melt into the oldest.
const MOST_GROUPS: usize = 10;

/// What is in flight, at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Groups<T: Ord> {
    /// Issued and not committed.
    pub uncommitted: BTreeSet<T>,
    /// Committed and not waited for, the newest first.
    pub committed: VecDeque<BTreeSet<T>>,
}

impl<T: Ord> Default for Groups<T> {
    fn default() -> Self {
        Groups { uncommitted: BTreeSet::new(), committed: VecDeque::new() }
    }
}

impl<T: Ord + Clone> Groups<T> {
    /// Issues an operation.
    pub fn open(&mut self, item: T) {
        self.uncommitted.insert(item);
    }

    /// Closes the group of what was issued.
    pub fn commit(&mut self) {
        self.committed.push_front(std::mem::take(&mut self.uncommitted));
        if self.committed.len() > MOST_GROUPS
            && let Some(last) = self.committed.pop_back()
            && let Some(oldest) = self.committed.back_mut()
        {
            oldest.extend(last);
        }
    }

    /// Waits until at most `newest` groups are in flight; an unknown number retires nothing.
    pub fn wait(&mut self, newest: Option<u64>) {
        if let Some(n) = newest {
            self.committed.truncate(usize::try_from(n).unwrap_or(usize::MAX));
        }
        while self.committed.back().is_some_and(BTreeSet::is_empty) {
            self.committed.pop_back();
        }
    }

    /// True if something in flight fits.
    pub fn any(&self, fits: impl Fn(&T) -> bool) -> bool {
        self.uncommitted.iter().chain(self.committed.iter().flatten()).any(fits)
    }

    /// Keeps only what fits.
    pub fn retain(&mut self, fits: impl Fn(&T) -> bool) {
        self.uncommitted.retain(&fits);
        self.committed.iter_mut().for_each(|g| g.retain(&fits));
        while self.committed.back().is_some_and(BTreeSet::is_empty) {
            self.committed.pop_back();
        }
    }

    /// Joins what another path has in flight: groups meet by age, since a wait counts from the newest.
    pub fn meet(&mut self, other: &Groups<T>) {
        self.uncommitted.extend(other.uncommitted.iter().cloned());
        for (age, group) in other.committed.iter().enumerate() {
            match self.committed.get_mut(age) {
                Some(mine) => mine.extend(group.iter().cloned()),
                None => self.committed.push_back(group.clone()),
            }
        }
    }
}
