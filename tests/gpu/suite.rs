//! The harness of the GPU suites: trials that say "not run" where there is no GPU, instead of passing.
//!
//! Trials run one after another, so that a time or a fault belongs to one of them. A call that does not end is told with the trial's
//! name, and the process is aborted: the GPU would never answer again.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::gpu::device::Gpu;

/// Why a trial was not run.
#[derive(Debug)]
pub struct NotRun(pub String);

/// What a trial comes to unless it panics.
pub type Verdict = Result<(), NotRun>;

type Body = Box<dyn FnOnce(&Gpu) -> Verdict + Send>;

/// A named trial.
pub struct Case {
    name: String,
    body: Kind,
}

enum Kind {
    Gpu(Body),
    Cpu(Box<dyn FnOnce() + Send>),
}

/// A trial on the GPU.
pub fn gpu(name: impl Into<String>, body: impl FnOnce(&Gpu) + Send + 'static) -> Case {
    gpu_if(name, |gpu| {
        body(gpu);
        Ok(())
    })
}

/// A trial on the GPU that may find that this machine cannot run it.
pub fn gpu_if(name: impl Into<String>, body: impl FnOnce(&Gpu) -> Verdict + Send + 'static) -> Case {
    Case { name: name.into(), body: Kind::Gpu(Box::new(body)) }
}

/// A trial that needs no GPU.
pub fn cpu(name: impl Into<String>, body: impl FnOnce() + Send + 'static) -> Case {
    Case { name: name.into(), body: Kind::Cpu(Box::new(body)) }
}

/// The trial that runs, for whoever has to tell about it.
static CURRENT: Mutex<String> = Mutex::new(String::new());

/// The name of the trial that runs.
pub fn current() -> String {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Says it where nobody can miss it, and ends the process without asking the driver anything more.
pub fn abort(what: &str) -> ! {
    let told = format!("\n{}: {what}\n", current());
    // The process ends either way.
    let _ = std::io::stdout().write_all(told.as_bytes());
    let _ = std::io::stdout().flush();
    eprint!("{told}");
    std::process::abort()
}

/// Runs the cases as the command line says. Without a GPU those that need one are ignored, loudly.
pub fn main(cases: Vec<Case>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let found = if arguments.list { Err("only listed".to_owned()) } else { Gpu::open(0) };
    match &found {
        Ok(gpu) => println!("on {}", gpu.attention.device()),
        Err(reason) if !arguments.list => {
            let told = format!("not run: {reason}");
            println!("{told}");
            eprintln!("{told}");
        }
        Err(_) => {}
    }
    let found = Arc::new(found);
    let trials = cases.into_iter().map(|case| trial(case, &found)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(Case { name, body }: Case, found: &Arc<Result<Gpu, String>>) -> Trial {
    let (found, known) = (found.clone(), name.clone());
    Trial::ignorable_test(name, move || {
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = known;
        let body = match body {
            Kind::Cpu(body) => {
                body();
                return Ok(Completion::Completed);
            }
            Kind::Gpu(body) => body,
        };
        let gpu = match &*found {
            Ok(gpu) => gpu,
            Err(reason) => return Ok(Completion::ignored_with(format!("not run: {reason}"))),
        };
        gpu.alive().map_err(|lost| Failed::from(format!("an earlier trial lost the context: {lost}")))?;
        let verdict = body(gpu);
        gpu.alive().map_err(|lost| Failed::from(format!("the context is lost: {lost}")))?;
        match verdict {
            Ok(()) => Ok(Completion::Completed),
            Err(NotRun(reason)) => Ok(Completion::ignored_with(format!("not run: {reason}"))),
        }
    })
}
