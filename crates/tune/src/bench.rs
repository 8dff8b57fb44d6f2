//! Buffers, the check of one kernel against another on the same data, and times by CUDA events.

use std::sync::Arc;

use tilewright::cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
use tilewright::cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use tilewright::error::{absolute, relative};
use tilewright::reference::normal;
use tilewright::{Half, Plan, PreparedPlan, Problem, RawPointers, Tilewright};

use crate::Fallible;

/// Random numbers that are made; longer buffers repeat them.
const PATTERN: usize = (1 << 20) + 7;
/// Elements at each end of O that are compared.
const COMPARED: usize = 1 << 18;
/// The most that two right kernels differ by in O, relative to its norm: each rounds P and O to 16 bits.
const O_BOUND: f64 = 1e-2;
/// The same in LSE, which is computed in f32.
const LSE_BOUND: f64 = 1e-3;
/// The time that a burst aims at.
const BURST: f64 = 4e-3;
/// The most launches of a burst.
const LAUNCHES: f64 = 40.0;

/// Memory for the largest of some problems; each uses the beginning.
pub struct Bench<T> {
    stream: Arc<CudaStream>,
    q: CudaSlice<T>,
    k: CudaSlice<T>,
    v: CudaSlice<T>,
    o: CudaSlice<T>,
    lse: CudaSlice<f32>,
    events: [CudaEvent; 2],
}

/// What a kernel wrote, both ends of it.
pub struct Sample<T> {
    o: Vec<T>,
    lse: Vec<f32>,
}

impl<T: Half + DeviceRepr + ValidAsZeroBits> Bench<T> {
    /// Allocates and fills.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn new(engine: &Tilewright, problems: &[Problem]) -> Fallible<Self> {
        let context = engine.device().context();
        let stream = context.new_stream()?;
        let most = |of: fn(&Problem) -> u64| problems.iter().map(of).max().unwrap_or(0) as usize;
        let filled = |seed, count: usize| -> Fallible<CudaSlice<T>> {
            let pattern: Vec<T> = normal(seed, count.min(PATTERN)).into_iter().map(T::round).collect();
            let all: Vec<T> = pattern.iter().copied().cycle().take(count).collect();
            Ok(stream.clone_htod(&all)?)
        };
        Ok(Self {
            q: filled(1, most(|p| p.batch() * p.queries() * p.heads() * u64::from(p.head_dim().qk)))?,
            k: filled(2, most(|p| p.batch() * p.keys() * p.kv_heads() * u64::from(p.head_dim().qk)))?,
            v: filled(3, most(|p| p.batch() * p.keys() * p.kv_heads() * u64::from(p.head_dim().v)))?,
            o: stream.alloc_zeros(most(Problem::output_elements))?,
            lse: stream.alloc_zeros(most(Problem::lse_elements))?,
            events: [context.new_event(Some(CU_EVENT_DEFAULT))?, context.new_event(Some(CU_EVENT_DEFAULT))?],
            stream,
        })
    }

    /// A plan bound to the buffers; its kernel is loaded if it is not yet.
    ///
    /// # Errors
    /// Those of [`Plan::prepare_raw`].
    pub fn prepare(&self, plan: &Plan) -> Fallible<PreparedPlan> {
        fn address<U>(stream: &CudaStream, slice: &CudaSlice<U>) -> u64
        where
            CudaSlice<U>: DevicePtr<U>,
        {
            slice.device_ptr(stream).0
        }
        let s = &*self.stream;
        let at = RawPointers {
            q: address(s, &self.q),
            k: address(s, &self.k),
            v: address(s, &self.v),
            o: address(s, &self.o),
            lse: address(s, &self.lse),
        };
        // SAFETY: the buffers are of the engine's context, as long as the largest problem needs, initialised, apart from one
        // another, and live as long as the bench; everything that uses them is on its one stream.
        Ok(unsafe { plan.prepare_raw(at) }?)
    }

    fn launch(&self, prepared: &PreparedPlan) -> Fallible {
        // SAFETY: as in `prepare`; launches follow one another on one stream.
        Ok(unsafe { prepared.launch(self.stream.cu_stream()) }?)
    }

    /// Runs once and takes what was written.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn sample(&mut self, problem: &Problem, prepared: &PreparedPlan) -> Fallible<Sample<T>> {
        self.stream.memset_zeros(&mut self.o)?;
        self.stream.memset_zeros(&mut self.lse)?;
        self.launch(prepared)?;
        let (count, rows) = (problem.output_elements() as usize, problem.lse_elements() as usize);
        let ends = |count: usize| (count.min(COMPARED), count.saturating_sub(COMPARED));
        let (head, tail) = ends(count);
        let mut o = self.stream.clone_dtoh(&self.o.slice(..head))?;
        o.extend(self.stream.clone_dtoh(&self.o.slice(tail..count))?);
        let (head, tail) = ends(rows);
        let mut lse = self.stream.clone_dtoh(&self.lse.slice(..head))?;
        lse.extend(self.stream.clone_dtoh(&self.lse.slice(tail..rows))?);
        self.stream.synchronize()?;
        Ok(Sample { o, lse })
    }

    /// Seconds of a launch, over a burst that takes about as long as `guess` says of one.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn burst(&self, prepared: &PreparedPlan, guess: f64) -> Fallible<f64> {
        let launches = (BURST / guess).ceil().clamp(2.0, LAUNCHES);
        let [start, end] = &self.events;
        self.launch(prepared)?;
        start.record(&self.stream)?;
        for _ in 0..launches as u32 {
            self.launch(prepared)?;
        }
        end.record(&self.stream)?;
        Ok(f64::from(start.elapsed_ms(end)?) / 1e3 / launches)
    }
}

/// The largest difference in O, if both that and LSE are within what two right kernels may differ by.
///
/// # Errors
/// What differs, and by how much.
pub fn compare<T: Half>(found: &Sample<T>, reference: &Sample<T>) -> Result<f64, String> {
    let (norm, most) = (relative(&found.o, &reference.o), absolute(&found.o, &reference.o));
    let lse = absolute(&found.lse, &reference.lse);
    // So that NaN is refused too.
    if norm <= O_BOUND && lse <= LSE_BOUND {
        return Ok(most);
    }
    Err(format!("differs from the shipped kernel: O by {norm:.1e} of its norm (at most {most:.1e}), LSE by {lse:.1e}"))
}
