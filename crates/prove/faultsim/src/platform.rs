//! Time and randomness of the whole process.
//!
//! The simulation replaces `clock_gettime` and `getrandom` of the C library. Everything above them is then deterministic
//! without knowing about the simulation: `Instant` and `SystemTime`, the keys of hash maps, uuids, and the order in which
//! `tokio::select!` polls.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use berth_api::split_mix::SplitMix64;
use libc::{c_int, c_uint, c_void, clockid_t, size_t, ssize_t, timespec};
use tokio::time::Instant;

/// Simulated time starts here; the monotonic clock must not be near zero, where subtractions fail.
const START: u64 = 1_000_000_000_000_000;
/// The wall clock at the start: 2026-01-01.
const WALL_START: i64 = 1_767_225_600;

static SIMULATES: AtomicBool = AtomicBool::new(false);
/// Nanoseconds since the start.
static NOW: AtomicU64 = AtomicU64::new(0);
/// Seconds that the wall clock of the running host is ahead.
static SKEW: AtomicI64 = AtomicI64::new(0);
static EPOCH: OnceLock<Instant> = OnceLock::new();

thread_local! {
    /// The state of the random numbers of the thread that simulates; other threads draw real ones.
    static RANDOM: Cell<Option<SplitMix64>> = const { Cell::new(None) };
}

/// A run takes a second of the processor; one without end is killed after this time.
const MOST_SECONDS: u64 = 300;

/// Starts the simulation of time and randomness. There is no way back: a process simulates once.
pub fn simulate(seed: u64) {
    let limit = libc::rlimit { rlim_cur: MOST_SECONDS, rlim_max: MOST_SECONDS };
    // SAFETY: the pointer is valid for reads.
    unsafe { libc::setrlimit(libc::RLIMIT_CPU, &limit) };
    RANDOM.set(Some(SplitMix64::new(seed)));
    SIMULATES.store(true, Ordering::Relaxed);
    EPOCH.get_or_init(Instant::now);
}

/// Simulated time since the start.
pub fn now() -> Duration {
    Duration::from_nanos(NOW.load(Ordering::Relaxed))
}

/// The instant at a simulated time.
pub fn instant(at: Duration) -> Instant {
    EPOCH.get().copied().unwrap_or_else(Instant::now) + at
}

pub fn set_now(at: Duration) {
    NOW.store(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The wall clock at a simulated time, in seconds since 1970, on a host where it was not set.
pub fn wall_clock(at: Duration) -> i64 {
    WALL_START + at.as_secs() as i64
}

/// Sets how many seconds the wall clock is ahead, for the host that runs next.
pub fn set_skew(seconds: i64) {
    SKEW.store(seconds, Ordering::Relaxed);
}

/// The next number of the sequence that the seed determines.
fn random() -> Option<u64> {
    let drawn = RANDOM.try_with(|random| {
        let mut sequence = random.get()?;
        let number = sequence.draw();
        random.set(Some(sequence));
        Some(number)
    });
    drawn.ok()?
}

/// Replaces the function of the C library.
///
/// # Safety
/// As the original: `time` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if !SIMULATES.load(Ordering::Relaxed) {
        // SAFETY: the arguments are the caller's, as the system call takes them.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as c_int;
    }
    let now = START + NOW.load(Ordering::Relaxed);
    let mut seconds = (now / 1_000_000_000) as i64;
    if matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE) {
        seconds += WALL_START - (START / 1_000_000_000) as i64 + SKEW.load(Ordering::Relaxed);
    }
    if !time.is_null() {
        // SAFETY: not null, and valid for writes as the caller promises.
        unsafe { *time = timespec { tv_sec: seconds, tv_nsec: (now % 1_000_000_000) as i64 } };
    }
    0
}

/// Replaces the function of the C library.
///
/// # Safety
/// As the original: `buffer` is valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    for start in (0..length).step_by(8) {
        let Some(random) = random() else {
            // SAFETY: the arguments are the caller's, as the system call takes them.
            return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) } as ssize_t;
        };
        let bytes = random.to_le_bytes();
        // SAFETY: `start` and the count stay within the `length` bytes that the caller promises.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                buffer.cast::<u8>().add(start),
                8.min(length - start),
            );
        }
    }
    length as ssize_t
}
