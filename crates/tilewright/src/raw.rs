//! Running a plan on addresses and a driver stream: for frameworks, which check their own tensors.

use runtime::{Argument, CUstream, OwnWorkspace, Prepared, Result, Workspace};

use crate::Plan;
use crate::abi::forward::{self, Addresses, ScaleAddresses};

/// Device addresses of Q, K, V, O and LSE.
pub type RawPointers = Addresses;

/// Device addresses of the scales of Q, K and V.
pub type ScalePointers = ScaleAddresses;

/// A plan with fixed addresses: a launch is one driver call.
#[derive(Debug)]
pub struct PreparedPlan {
    /// None where there is nothing to compute.
    launch: Option<Prepared>,
    /// What the launch leaves parts of O in, where it splits query tiles.
    _workspace: Option<OwnWorkspace>,
}

/// A launch for one stream, with the workspace that it holds until it is launched.
pub(crate) struct Ready {
    launch: Prepared,
    _workspace: Option<Workspace>,
}

impl Plan {
    /// Checks, encodes and launches on the stream, and returns; nothing on the device is set or waited for, nor allocated,
    /// but for a workspace ([`Plan::workspace_bytes`]), which is taken and given back in the stream's order. Inside a capture
    /// that is recorded with the launch, and a graph with memory of its own cannot be cloned or be a child of another (CUDA
    /// driver API, "Graph Memory Nodes"). The first run loads the kernel unless [`Plan::warm_up`] did.
    ///
    /// Where there is no row to compute, nothing is launched and no address looked at. Where there are no keys, those
    /// of K and V are not. 8-bit elements with scales take [`Plan::run_scaled_raw`].
    ///
    /// # Errors
    /// [`crate::Error::Misaligned`] with the tensor and the rule, before anything is launched;
    /// [`crate::Error::CaptureCold`], [`crate::Error::CountersExhausted`] inside a capture; those of [`Plan::warm_up`];
    /// the driver's answer.
    ///
    /// # Safety
    /// The stream must be alive and belong to the plan's context (frameworks use the device's primary context). The
    /// addresses must be memory that the plan's device can reach, as large as the problem's shapes and strides say,
    /// initialised for Q, K and V, and neither freed nor used otherwise until the work on the stream is done; O and LSE
    /// must not overlap anything else.
    pub unsafe fn run_raw(&self, stream: CUstream, at: RawPointers) -> Result<()> {
        // SAFETY: asked of the caller; a tensor with scales is refused for their null address.
        unsafe { self.run_scaled_raw(stream, at, ScalePointers::default()) }
    }

    /// [`Plan::run_raw`] with the scales of 8-bit elements. Those of 16-bit elements are not looked at.
    ///
    /// # Errors
    /// Those of [`Plan::run_raw`]; [`crate::Error::Misaligned`] with `q scales`, `k scales` or `v scales` where an address
    /// is null or odd, for tensors that the problem gives scales.
    ///
    /// # Safety
    /// As for [`Plan::run_raw`]; scales are initialised memory that reaches as far as the problem says.
    pub unsafe fn run_scaled_raw(&self, stream: CUstream, at: RawPointers, scales: ScalePointers) -> Result<()> {
        if self.problem().is_empty() {
            return Ok(());
        }
        let _current = self.engine().device().enter()?;
        // SAFETY: asked of the caller above.
        match unsafe { self.ready(stream, &at, &scales) }? {
            // SAFETY: as above; the arguments are this plan's.
            Some(launch) => unsafe { launch.launch(stream) },
            None => Ok(()),
        }
    }

    /// Everything but the launch itself; none where there is no row to compute.
    ///
    /// # Errors
    /// Those of [`Plan::run_scaled_raw`].
    ///
    /// # Safety
    /// As for [`Plan::run_scaled_raw`], and the plan's context must be current until the result is gone. To be launched on
    /// that stream at once.
    pub(crate) unsafe fn ready(
        &self,
        stream: CUstream,
        at: &RawPointers,
        scales: &ScalePointers,
    ) -> Result<Option<Ready>> {
        if self.problem().is_empty() {
            return Ok(None);
        }
        let mut arguments = self.arguments(at, scales)?;
        // SAFETY: the caller vouches for the stream; its context is current.
        let kernel = unsafe { self.loaded_for(stream) }?;
        let device = self.engine().device();
        let counters = match self.counter_bytes() {
            0 => 0,
            // SAFETY: as above.
            bytes => unsafe { device.counters().for_launch(stream, bytes) }?,
        };
        let workspace = match self.workspace_bytes() {
            0 => None,
            // SAFETY: as above; the context is current until the workspace is dropped with the result.
            bytes => Some(unsafe { device.workspaces().for_launch(stream, bytes) }?),
        };
        let at = workspace.as_ref().map_or(0, Workspace::address);
        arguments.extend(forward::memory(kernel.params(), counters, at));
        // The kernel was lowered for this problem's schedule and its arguments describe the caller's memory by the
        // problem's shapes. Counters and workspace are shared with no launch that may run at the same time.
        Ok(Some(Ready { launch: kernel.prepare(self.grid(), &arguments)?, _workspace: workspace }))
    }

    /// Checks and encodes once, for launches with these very addresses.
    ///
    /// Loads the kernel if need be, so not to be called while a stream captures. Takes 64 bytes of device memory for
    /// good if the schedule's grid is dynamic, and a few hundred if it splits query tiles; then it also keeps a workspace
    /// ([`Plan::workspace_bytes`]) until it is dropped, which waits for the device.
    ///
    /// # Errors
    /// Those of [`Plan::run_raw`].
    ///
    /// # Safety
    /// The addresses must be as for [`Plan::run_raw`] whenever the result is launched.
    pub unsafe fn prepare_raw(&self, at: RawPointers) -> Result<PreparedPlan> {
        // SAFETY: as for `run_raw`.
        unsafe { self.prepare_scaled_raw(at, ScalePointers::default()) }
    }

    /// [`Plan::prepare_raw`] with the scales of 8-bit elements.
    ///
    /// # Errors
    /// Those of [`Plan::run_scaled_raw`].
    ///
    /// # Safety
    /// The addresses must be as for [`Plan::run_scaled_raw`] whenever the result is launched.
    pub unsafe fn prepare_scaled_raw(&self, at: RawPointers, scales: ScalePointers) -> Result<PreparedPlan> {
        if self.problem().is_empty() {
            return Ok(PreparedPlan { launch: None, _workspace: None });
        }
        let _current = self.engine().device().enter()?;
        let mut arguments = self.arguments(&at, &scales)?;
        let kernel = self.loaded()?;
        let device = self.engine().device();
        let counters = match self.counter_bytes() {
            0 => 0,
            bytes => device.counters().fresh(bytes)?,
        };
        let workspace = match self.workspace_bytes() {
            0 => None,
            bytes => Some(device.workspaces().own(bytes)?),
        };
        let at = workspace.as_ref().map_or(0, OwnWorkspace::address);
        arguments.extend(forward::memory(kernel.params(), counters, at));
        Ok(PreparedPlan { launch: Some(kernel.prepare(self.grid(), &arguments)?), _workspace: workspace })
    }

    /// All arguments but counters and workspace.
    fn arguments(&self, at: &Addresses, scales: &ScaleAddresses) -> Result<Vec<(&'static str, Argument)>> {
        let (params, one) = (&self.lowered().kernel().params, self.one());
        forward::arguments(params, self.problem(), self.scalars(), at, scales, one)
    }
}

impl Ready {
    /// Puts the work on the stream and gives the workspace back behind it.
    ///
    /// # Errors
    /// The driver's answer.
    ///
    /// # Safety
    /// Stream, addresses and context must be as for [`Plan::ready`], the stream that it was made for.
    pub(crate) unsafe fn launch(self, stream: CUstream) -> Result<()> {
        // SAFETY: asked of the caller; the arguments were built by `Plan::ready`.
        unsafe { self.launch.launch(stream) }
    }
}

impl PreparedPlan {
    /// Puts the work on the stream and returns. May be recorded by a capture.
    ///
    /// # Errors
    /// The driver's answer.
    ///
    /// # Safety
    /// Stream and addresses must be as for [`Plan::run_raw`]. Two launches of one prepared plan, those of graphs that
    /// recorded it among them, must not run at the same time: they share counters and
    /// a workspace, which both go with the prepared plan.
    pub unsafe fn launch(&self, stream: CUstream) -> Result<()> {
        match &self.launch {
            // SAFETY: what `Prepared::launch` asks for is asked of the caller above; the arguments were built by
            // `prepare_raw`.
            Some(launch) => unsafe { launch.launch(stream) },
            None => Ok(()),
        }
    }
}
