//! A share in the context that kernels and counters live in.

use std::ops::Deref;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::sys;

use crate::driver;

/// A context, kept alive. Giving up the last share leaves the thread's current context as it was, which the bindings'
/// own drop does not.
#[derive(Debug)]
pub(crate) struct Home {
    /// None only while being dropped.
    context: Option<Arc<CudaContext>>,
}

impl Home {
    /// A share in the context.
    pub(crate) fn new(context: &Arc<CudaContext>) -> Self {
        Self { context: Some(context.clone()) }
    }
}

impl Deref for Home {
    type Target = Arc<CudaContext>;

    fn deref(&self) -> &Arc<CudaContext> {
        match &self.context {
            Some(context) => context,
            None => unreachable!("a share is given up only when it is dropped"),
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let before = driver::current();
        drop(self.context.take());
        if let (Ok(before), Ok(after)) = (before, driver::current())
            && before != after
        {
            // SAFETY: the context was current on this thread a moment ago, or null for none; it is not the one just
            // released, which is what is current now.
            let _ = unsafe { sys::cuCtxSetCurrent(before) };
        }
    }
}
