//! What the stub was told to answer and what it wrote down, with the functions by which the tests tell and ask.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_uint};
use std::sync::{LazyLock, Mutex};

/// The driver's answer; 0 is success.
pub type Code = c_uint;

static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static TOLD: LazyLock<Mutex<HashMap<String, i64>>> = LazyLock::new(Mutex::default);
pub static LOGS: Mutex<[Vec<u8>; 2]> = Mutex::new([Vec::new(), Vec::new()]);

pub fn wrote(call: String) {
    CALLS.lock().unwrap().push(call);
}

pub fn told(name: &str, otherwise: i64) -> i64 {
    TOLD.lock().unwrap().get(name).copied().unwrap_or(otherwise)
}

/// The call is written down and answered with the code it was told to, or success.
pub fn answer(call: &str) -> Code {
    wrote(call.into());
    told(call, 0) as Code
}

/// Forgets all calls and answers.
#[unsafe(no_mangle)]
pub extern "C" fn stub_reset() {
    CALLS.lock().unwrap().clear();
    TOLD.lock().unwrap().clear();
    *LOGS.lock().unwrap() = [Vec::new(), Vec::new()];
}

/// Tells an answer: a call's code, or a value by its name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stub_tell(name: *const c_char, value: i64) {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned();
    TOLD.lock().unwrap().insert(name, value);
}

/// Sets the compiler's log: 0 information, 1 errors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stub_log(which: usize, text: *const c_char) {
    LOGS.lock().unwrap()[which] = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
}

/// Takes the calls so far, joined by newlines; gives their length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stub_calls(into: *mut u8, room: usize) -> usize {
    let all = std::mem::take(&mut *CALLS.lock().unwrap()).join("\n");
    assert!(all.len() <= room);
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), into, all.len()) };
    all.len()
}
