//! What is loaded: one value for each kernel text, made once however many threads ask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::Result;

use crate::Lowered;

/// The place of one kernel. Its lock is held while it loads, so that nobody loads it a second time.
type Slot<T> = Arc<Mutex<Option<T>>>;

/// Kernels whose texts have one fingerprint.
type Alike<T> = Vec<(Arc<Lowered>, Slot<T>)>;

/// Loaded kernels by their whole text: two that differ in anything baked into the code are two.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    /// By fingerprint of the text; texts of one fingerprint are told apart by comparison.
    slots: Mutex<HashMap<u64, Alike<T>>>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self { slots: Mutex::default() }
    }
}

/// Locks; what a thread that panicked inside left is whole, since every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Clone> Cache<T> {
    /// The kernel if it is loaded.
    pub(crate) fn get(&self, lowered: &Arc<Lowered>) -> Option<T> {
        lock(&self.slot(lowered)).clone()
    }

    /// The kernel, and whether this call loaded it. A failed load is tried again by the next call.
    ///
    /// # Errors
    /// Those of `load`.
    pub(crate) fn get_or_load(&self, lowered: &Arc<Lowered>, load: impl FnOnce() -> Result<T>) -> Result<(T, bool)> {
        let slot = self.slot(lowered);
        let mut held = lock(&slot);
        if let Some(found) = &*held {
            return Ok((found.clone(), false));
        }
        let made = load()?;
        *held = Some(made.clone());
        Ok((made, true))
    }

    /// All that is loaded, in no order.
    pub(crate) fn all(&self) -> Vec<T> {
        let slots: Vec<Slot<T>> = lock(&self.slots).values().flatten().map(|(_, slot)| slot.clone()).collect();
        slots.iter().filter_map(|slot| lock(slot).clone()).collect()
    }

    /// The place of the kernel with this very text.
    fn slot(&self, lowered: &Arc<Lowered>) -> Slot<T> {
        let mut slots = lock(&self.slots);
        let alike = slots.entry(lowered.fingerprint()).or_default();
        let same = |other: &Arc<Lowered>| Arc::ptr_eq(other, lowered) || other.text() == lowered.text();
        if let Some((_, slot)) = alike.iter().find(|(other, _)| same(other)) {
            return slot.clone();
        }
        let slot = Slot::default();
        alike.push((lowered.clone(), slot.clone()));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Registry};
    use runtime::Error;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn lowered(at: usize) -> Arc<Lowered> {
        // A new entry each time, so that equal texts come from unlike places.
        Entry::new(Registry::shipped().entries()[at].schedule().clone()).lowered().expect("lowers").clone()
    }

    #[test]
    fn alternating_kernels_are_loaded_once_each_and_never_mixed_up() {
        let (cache, loads) = (Cache::default(), AtomicUsize::new(0));
        for _ in 0..500 {
            for at in [0, 1] {
                let (found, _) = cache
                    .get_or_load(&lowered(at), || {
                        loads.fetch_add(1, Ordering::Relaxed);
                        Ok(at)
                    })
                    .expect("loads");
                assert_eq!(found, at);
            }
            if loads.load(Ordering::Relaxed) == 2 {
                break;
            }
        }
        assert_eq!(loads.load(Ordering::Relaxed), 2);
        assert_eq!((cache.get(&lowered(0)), cache.get(&lowered(1)), cache.get(&lowered(2))), (Some(0), Some(1), None));
    }

    #[test]
    fn threads_that_ask_together_share_one_load() {
        let (cache, loads, one) = (Cache::default(), AtomicUsize::new(0), lowered(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let found = cache.get_or_load(&one, || {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(loads.fetch_add(1, Ordering::Relaxed))
                    });
                    assert_eq!(found.map(|(value, _)| value), Ok(0));
                });
            }
        });
        assert_eq!(loads.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_failed_load_leaves_nothing_behind() {
        let (cache, one) = (Cache::default(), lowered(0));
        assert_eq!(cache.get_or_load(&one, || Err(Error::NoDriver)), Err(Error::NoDriver));
        assert_eq!(cache.get_or_load(&one, || Ok(7)), Ok((7, true)));
        assert_eq!(cache.get_or_load(&one, || Ok(8)), Ok((7, false)));
        assert_eq!(cache.all(), [7]);
    }
}
