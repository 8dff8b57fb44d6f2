//! A stand-in for libcuda: answers as it is told, runs nothing, writes down every call.
//!
//! Compiled by `with_a_stub_driver` to a shared library of the driver's name. Device memory is host memory; an encoded
//! tensor map holds in plain numbers what it was encoded from; a launch writes down its configuration and 128 bytes of
//! each argument.

#![allow(non_snake_case, clippy::missing_safety_doc)]

mod control;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use control::{Code, LOGS, answer, told, wrote};

static NEXT: AtomicU64 = AtomicU64::new(0x1000);

thread_local! {
    static CONTEXTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn handle() -> u64 {
    NEXT.fetch_add(0x10, Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: c_uint) -> Code {
    answer("cuInit")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    unsafe { *version = told("version", 13_000) as c_int };
    answer("cuDriverGetVersion")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    unsafe { *count = told("devices", 2) as c_int };
    answer("cuDeviceGetCount")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    unsafe { *device = ordinal };
    answer("cuDeviceGet")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, _: c_int, _: c_int) -> Code {
    unsafe { std::ptr::copy_nonoverlapping(c"Stub".as_ptr(), name, 5) };
    answer("cuDeviceGetName")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _: c_int) -> Code {
    let found = match attribute {
        16 => told("sms", 132),
        38 => 50 << 20,
        75 => told("major", 9),
        76 => told("minor", 0),
        97 => 232_448,
        _ => 0,
    };
    unsafe { *value = found as c_int };
    answer("cuDeviceGetAttribute")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, device: c_int) -> Code {
    unsafe { *context = 0xc0 + device as u64 };
    answer("cuDevicePrimaryCtxRetain")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> Code {
    answer("cuDevicePrimaryCtxRelease")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut u64) -> Code {
    unsafe { *context = CONTEXTS.with_borrow(|stack| stack.last().copied().unwrap_or(0)) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: u64) -> Code {
    CONTEXTS.with_borrow_mut(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
    answer("cuCtxSetCurrent")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: u64) -> Code {
    CONTEXTS.with_borrow_mut(|stack| stack.push(context));
    answer("cuCtxPushCurrent")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut u64) -> Code {
    unsafe { *context = CONTEXTS.with_borrow_mut(|stack| stack.pop()).unwrap_or(0) };
    answer("cuCtxPopCurrent")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Code {
    answer("cuCtxSynchronize")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(_: Code, text: *mut *const c_char) -> Code {
    unsafe { *text = c"the stub was told to".as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) -> Code {
    thread_local! { static MODE: RefCell<c_int> = const { RefCell::new(0) } }
    MODE.with_borrow_mut(|held| std::mem::swap(held, unsafe { &mut *mode }));
    wrote(format!("cuThreadExchangeStreamCaptureMode was {}", unsafe { *mode }));
    0
}

/// Every call but `cuCtxGetCurrent` and `cuTensorMapEncodeTiled` wants a context; this one says which it got.
fn in_context(call: &str) -> Code {
    let context = CONTEXTS.with_borrow(|stack| stack.last().copied());
    match context {
        Some(_) => answer(call),
        None => {
            wrote(format!("{call} without a context"));
            201
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut u64, flags: c_uint) -> Code {
    assert_eq!(flags, 1, "a stream that waits for the legacy default stream");
    unsafe { *stream = handle() };
    in_context("cuStreamCreate")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(_: u64) -> Code {
    in_context("cuStreamDestroy")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: u64) -> Code {
    assert_ne!(stream, 0, "the legacy default stream is waited for");
    in_context("cuStreamSynchronize")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(_: u64, status: *mut c_int) -> Code {
    unsafe { *status = told("capturing", 0) as c_int };
    in_context("cuStreamIsCapturing")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetId(stream: u64, id: *mut u64) -> Code {
    unsafe { *id = stream + 7 };
    in_context("cuStreamGetId")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Code {
    let code = in_context("cuMemAlloc");
    if code == 0 {
        let layout = std::alloc::Layout::from_size_align(bytes.max(1), 256).unwrap();
        unsafe { *address = std::alloc::alloc_zeroed(layout) as u64 };
    }
    code
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(_: u64) -> Code {
    in_context("cuMemFree")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolCreate(pool: *mut u64, properties: *const [u32; 4]) -> Code {
    assert_eq!(unsafe { *properties }[..3], [1, 0, 1], "pinned memory of a device, not shared with other processes");
    unsafe { *pool = handle() };
    in_context("cuMemPoolCreate")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolDestroy(_: u64) -> Code {
    in_context("cuMemPoolDestroy")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolSetAttribute(_: u64, attribute: c_int, _: *const c_void) -> Code {
    assert!(matches!(attribute, 3 | 4), "which streams wait for one another, and what is kept");
    in_context("cuMemPoolSetAttribute")
}

/// An address that nothing else has; no memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, _: u64, stream: u64) -> Code {
    unsafe { *address = handle() << 20 };
    wrote(format!("taken {bytes} on {stream}"));
    in_context("cuMemAllocFromPoolAsync")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(address: u64, stream: u64) -> Code {
    wrote(format!("given back {address} on {stream}"));
    in_context("cuMemFreeAsync")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(address: u64, value: u8, bytes: usize, stream: u64) -> Code {
    assert_ne!(stream, 0, "work on the legacy default stream");
    unsafe { std::ptr::write_bytes(address as *mut u8, value, bytes) };
    in_context("cuMemsetD8Async")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD32Async(address: u64, value: c_uint, words: usize, stream: u64) -> Code {
    assert_ne!(stream, 0, "work on the legacy default stream");
    (0..words).for_each(|at| unsafe { *(address as *mut c_uint).add(at) = value });
    in_context("cuMemsetD32Async")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut u64,
    text: *const c_char,
    count: c_uint,
    options: *const c_int,
    values: *const *mut c_void,
) -> Code {
    let text = unsafe { CStr::from_ptr(text) }.to_str().expect("the text is not UTF-8");
    assert!(text.starts_with("//") || text.starts_with(".version"), "no PTX");
    let logs = LOGS.lock().unwrap();
    for at in 0..count as usize {
        let (option, value) = unsafe { (*options.add(at), *values.add(at)) };
        let log = match option {
            3 => &logs[0],
            5 => &logs[1],
            _ => continue,
        };
        unsafe { std::ptr::copy_nonoverlapping(log.as_ptr(), value.cast(), log.len()) };
    }
    std::thread::sleep(std::time::Duration::from_millis(told("load_ms", 0) as u64));
    unsafe { *module = handle() };
    in_context("cuModuleLoadDataEx")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(_: u64) -> Code {
    in_context("cuModuleUnload")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut u64, module: u64, _: *const c_char) -> Code {
    unsafe { *function = module + 1 };
    in_context("cuModuleGetFunction")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, _: u64) -> Code {
    let found = match attribute {
        3 => told("local", 0),
        4 => 168,
        _ => 0,
    };
    unsafe { *value = found as c_int };
    in_context("cuFuncGetAttribute")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(_: u64, attribute: c_int, value: c_int) -> Code {
    assert_eq!(attribute, 8, "the size of dynamic shared memory");
    wrote(format!("shared {value}"));
    in_context("cuFuncSetAttribute")
}

/// Packs address, rank, five extents, four strides, and five box edges.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut u64,
    _type: c_int,
    rank: c_uint,
    address: u64,
    dims: *const u64,
    strides: *const u64,
    edges: *const c_uint,
    _element_strides: *const c_uint,
    _interleave: c_int,
    _swizzle: c_int,
    promotion: c_int,
    fill: c_int,
) -> Code {
    assert_eq!((map as usize % 64, promotion, fill), (0, 3, 0));
    unsafe {
        *map = address;
        *map.add(1) = rank.into();
        for at in 0..rank as usize {
            *map.add(2 + at) = *dims.add(at);
            *map.add(11 + at) = (*edges.add(at)).into();
        }
        for at in 0..rank as usize - 1 {
            *map.add(7 + at) = *strides.add(at);
        }
    }
    answer("cuTensorMapEncodeTiled")
}

/// `CUlaunchConfig` up to the stream.
#[repr(C)]
pub struct Launch {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(launch: *const Launch, _: u64, arguments: *const *const u64, _: u64) -> Code {
    let Launch { grid, block, shared, stream } = unsafe { &*launch };
    let mut line = format!("launch {} {} {} {} {shared} {stream}", grid[0], grid[1], grid[2], block[0]);
    for at in 0.. {
        let argument = unsafe { *arguments.add(at) };
        if argument.is_null() {
            break;
        }
        let words: Vec<String> = (0..16).map(|word| unsafe { *argument.add(word) }.to_string()).collect();
        line.push_str(&format!(" | {}", words.join(" ")));
    }
    wrote(line);
    in_context("cuLaunchKernelEx")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut u64, _: c_uint) -> Code {
    unsafe { *event = handle() };
    in_context("cuEventCreate")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(_: u64) -> Code {
    in_context("cuEventDestroy")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(_: u64, _: u64) -> Code {
    in_context("cuEventRecord")
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(_: u64, _: u64, _: c_uint) -> Code {
    in_context("cuStreamWaitEvent")
}
