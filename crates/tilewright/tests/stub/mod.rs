//! The tests' side of the stub driver: what it is told, what it wrote down.

use std::ffi::{CStr, CString, c_char};

use tilewright::{Problem, RawPointers};

/// Addresses of a launch that never happens.
pub const AT: RawPointers = RawPointers { q: 0x1000, k: 0x2000, v: 0x3000, o: 0x4000, lse: 0x5000 };

/// A problem of grouped heads and unequal lengths.
pub fn problem(causal: bool) -> Problem {
    let builder = Problem::builder().batch(2).queries(300).keys(1000).heads(8).kv_heads(2).head_dim(128);
    builder.causal(causal).build().expect("fine")
}

/// Calls whose line has the word in it.
pub fn count(calls: &[String], word: &str) -> usize {
    calls.iter().filter(|call| call.contains(word)).count()
}

/// The context that is current on this thread, as a number.
pub fn current() -> usize {
    let mut context = std::ptr::null_mut();
    // SAFETY: the stub is loaded; `context` outlives the call.
    let _ = unsafe { tilewright::cudarc::driver::sys::cuCtxGetCurrent(&mut context) };
    context.addr()
}

/// A launch that the stub wrote down.
pub struct Launch {
    /// Grid x, y, z, threads, dynamic shared bytes, stream.
    pub head: [u64; 6],
    /// Sixteen words of each argument.
    pub arguments: Vec<Vec<u64>>,
}

/// The stub, in a process that has it for a driver.
pub struct Stub {
    library: libloading::Library,
}

impl Stub {
    /// Set where the stub is the driver.
    pub const VARIABLE: &str = "TILEWRIGHT_STUB_DRIVER";

    /// The stub, with nothing told and nothing written down.
    pub fn open() -> Self {
        assert!(std::env::var_os(Self::VARIABLE).is_some(), "not run: only `with_a_stub_driver` runs this test");
        // SAFETY: the stub's initialisers do nothing.
        let library = unsafe { libloading::Library::new("libcuda.so.1") }.expect("the stub");
        let stub = Self { library };
        stub.reset();
        stub
    }

    /// Forgets everything.
    pub fn reset(&self) {
        // SAFETY: the stub has the function with this signature.
        unsafe { self.library.get::<extern "C" fn()>(b"stub_reset").expect("the stub")() }
    }

    /// A call's code, or a value by its name.
    pub fn tell(&self, name: &str, value: i64) {
        let name = CString::new(name).expect("a name");
        // SAFETY: the stub has the function with this signature; the name outlives the call.
        unsafe {
            self.library.get::<extern "C" fn(*const c_char, i64)>(b"stub_tell").expect("the stub")(name.as_ptr(), value)
        }
    }

    /// The compiler's log: 0 information, 1 errors.
    pub fn log(&self, which: usize, text: &CStr) {
        // SAFETY: the stub has the function with this signature; the text outlives the call.
        unsafe {
            self.library.get::<extern "C" fn(usize, *const c_char)>(b"stub_log").expect("the stub")(
                which,
                text.as_ptr(),
            )
        }
    }

    /// Takes the calls so far.
    pub fn calls(&self) -> Vec<String> {
        let mut bytes = Vec::<u8>::with_capacity(16 << 20);
        // SAFETY: the stub has the function with this signature, and writes as much as it says and at most as much as told.
        // Zeros for all that room would take most of the time of a test that looks often.
        unsafe {
            let take = self.library.get::<extern "C" fn(*mut u8, usize) -> usize>(b"stub_calls").expect("the stub");
            let length = take(bytes.as_mut_ptr(), bytes.capacity());
            bytes.set_len(length);
        }
        let all = String::from_utf8(bytes).expect("text");
        all.lines().map(str::to_owned).collect()
    }

    /// Takes the calls so far, and of them the launches.
    pub fn launches(&self) -> Vec<Launch> {
        let numbers =
            |text: &str| -> Vec<u64> { text.split_whitespace().map(|n| n.parse().expect("a number")).collect() };
        let calls = self.calls();
        let lines = calls.iter().filter_map(|call| call.strip_prefix("launch "));
        lines
            .map(|line| {
                let mut parts = line.split(" | ").map(numbers);
                let head = parts.next().and_then(|head| head.try_into().ok()).expect("six numbers");
                Launch { head, arguments: parts.collect() }
            })
            .collect()
    }
}
