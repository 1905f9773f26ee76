//! The processor time of a thread: what work costs, whatever else the machine does meanwhile.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds that the calling thread has worked since it began.
pub fn thread_cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
