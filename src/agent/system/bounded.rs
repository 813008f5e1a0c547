//! Calls with a deadline: a driver that does not return holds up its own worker, and nobody who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::agent::devices::{DeviceError, Interface};

type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A worker thread that owns a `T` and is called with a deadline.
///
/// A call into a driver cannot be broken off. One that does not return in time is given up: its result is dropped when
/// it comes, and until then every further call on the same worker says at once that there is no answer.
#[derive(Debug)]
pub struct Bounded<T> {
    jobs: Sender<Job<T>>,
    worker: JoinHandle<()>,
    /// Calls that were handed over, and those that came back.
    begun: u64,
    done: Arc<AtomicU64>,
    limit_s: u32,
}

impl<T: Send + 'static> Bounded<T> {
    /// Starts the worker.
    ///
    /// Errors: the system's, if it gives no thread.
    pub fn new(name: &str, limit_s: u32, mut owned: T) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job<T>>();
        let done = Arc::new(AtomicU64::new(0));
        let finished = Arc::clone(&done);
        let work = move || {
            for job in queue {
                job(&mut owned);
                finished.fetch_add(1, Ordering::SeqCst);
            }
        };
        let worker = std::thread::Builder::new().name(name.to_string()).spawn(work)?;
        Ok(Self { jobs, worker, begun: 0, done, limit_s })
    }

    /// Calls, and waits for the answer until the deadline; the call itself is told the deadline.
    ///
    /// Errors: `TimedOut`; `Failed` if the call panicked; its own.
    pub fn call<R: Send + 'static>(
        &mut self,
        interface: Interface,
        call: impl FnOnce(&mut T, Instant) -> Result<R, DeviceError> + Send + 'static,
    ) -> Result<R, DeviceError> {
        let ended = || DeviceError::Failed { interface, what: "the call ended its own thread".to_string() };
        let late = DeviceError::TimedOut { interface, after_s: self.limit_s };
        if self.worker.is_finished() {
            return Err(ended());
        }
        if self.done.load(Ordering::SeqCst) != self.begun {
            return Err(late);
        }
        let limit = Duration::from_secs(u64::from(self.limit_s));
        let deadline = Instant::now() + limit;
        let (answer, answers) = mpsc::sync_channel(1);
        let job: Job<T> = Box::new(move |owned| {
            // Nobody may be waiting any more.
            answer.send(call(owned, deadline)).ok();
        });
        self.jobs.send(job).map_err(|_| ended())?;
        self.begun += 1;
        match answers.recv_timeout(limit) {
            Ok(answer) => {
                // The answer leaves before the worker has counted it.
                while self.done.load(Ordering::SeqCst) != self.begun && !self.worker.is_finished() {
                    std::thread::yield_now();
                }
                answer
            }
            Err(RecvTimeoutError::Timeout) => Err(late),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NVML: Interface = Interface::Nvml;

    #[test]
    fn answers_come_back_and_what_is_owned_stays() {
        let mut counter = Bounded::new("counter", 30, 0_u32).unwrap();
        for expected in 1..=3 {
            let count = counter.call(NVML, |count, _| {
                *count += 1;
                Ok(*count)
            });
            assert_eq!(count, Ok(expected));
        }
    }

    #[test]
    fn a_call_that_does_not_return_is_given_up_and_later_ones_do_not_wait() {
        let (release, released) = mpsc::channel::<()>();
        let mut worker = Bounded::new("stuck", 1, released).unwrap();
        let late = DeviceError::TimedOut { interface: NVML, after_s: 1 };
        let stuck = worker.call(NVML, |released, _| {
            released.recv().ok();
            Ok(())
        });
        assert_eq!(stuck, Err(late.clone()));
        // Whoever waited here for a second turn would wait for ever: nobody releases the first.
        assert_eq!(worker.call(NVML, |_, _| Ok(())), Err(late));
        release.send(()).unwrap();
        while worker.done.load(Ordering::SeqCst) != worker.begun {
            std::thread::yield_now();
        }
        assert_eq!(worker.call(NVML, |_, _| Ok(7)), Ok(7));
    }

    #[test]
    fn a_call_that_panics_is_a_failure_and_so_are_those_after_it() {
        let mut worker = Bounded::new("panics", 30, ()).unwrap();
        for _ in 0..2 {
            let failed = worker.call::<()>(NVML, |(), _| panic!("on purpose"));
            assert!(matches!(failed, Err(DeviceError::Failed { .. })), "{failed:?}");
        }
    }
}
