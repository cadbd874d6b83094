//! Hosts: each runs a component in its own runtime, on simulated time. A host that crashes loses all its tasks, wherever
//! they wait.

use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::platform;

pub type HostId = usize;

/// What a host does from its start.
pub type Program = Box<dyn FnMut() -> BoxFuture<'static, ()>>;

/// A simulated machine with one component.
pub struct Host {
    /// The name in logs and reports.
    pub name: &'static str,
    program: Program,
    runtime: Option<(Runtime, JoinHandle<()>)>,
    /// How long after its program has ended it starts again; never if there is no time.
    restarts_after: Option<Duration>,
    /// Not run until then.
    paused_until: Duration,
    /// When it starts again after a crash.
    restarts_at: Option<Duration>,
    /// Seconds that its wall clock is ahead.
    pub skew: i64,
}

/// A turn ends when the runtime has found nothing to do this many times. Each time timers that are due expire, and their tasks
/// run.
const IDLE_TIMES: u32 = 3;

thread_local! {
    static IDLE: Cell<u32> = const { Cell::new(0) };
    static TURN: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Called instead of waiting: time does not pass within a turn.
fn idle() {
    IDLE.set(IDLE.get() + 1);
    TURN.with_borrow(|turn| turn.iter().for_each(Waker::wake_by_ref));
}

impl Host {
    /// A host that starts at a time.
    pub fn new(name: &'static str, starts_at: Duration, program: Program) -> Host {
        Host {
            name,
            program,
            runtime: None,
            restarts_after: None,
            paused_until: Duration::ZERO,
            restarts_at: Some(starts_at),
            skew: 0,
        }
    }

    /// The host starts again when its program has ended, after this time.
    pub fn restarting(self, after: Duration) -> Host {
        Host { restarts_after: Some(after), ..self }
    }

    /// Drops all tasks; the host starts again at that time.
    pub fn crash(&mut self, restarts_at: Duration) {
        drop(self.runtime.take());
        self.restarts_at = Some(restarts_at);
    }

    /// Stops the host without its knowledge, as a suspended virtual machine.
    pub fn pause(&mut self, until: Duration) {
        self.paused_until = self.paused_until.max(until);
    }

    /// Does all that can be done at this time.
    pub fn turn(&mut self) {
        let now = platform::now();
        if self.paused_until > now {
            return;
        }
        platform::set_skew(self.skew);
        if self.restarts_at.is_some_and(|at| at <= now) {
            self.restarts_at = None;
            let runtime = Builder::new_current_thread().enable_time().on_thread_park(idle).build();
            let runtime = runtime.expect("a runtime without I/O needs no resources of the system");
            let in_runtime = runtime.enter();
            let task = runtime.spawn((self.program)());
            drop(in_runtime);
            self.runtime = Some((runtime, task));
        }
        if let Some((runtime, task)) = &self.runtime {
            IDLE.set(0);
            runtime.block_on(std::future::poll_fn(|context| {
                TURN.replace(Some(context.waker().clone()));
                if IDLE.get() < IDLE_TIMES { Poll::Pending } else { Poll::Ready(()) }
            }));
            TURN.replace(None);
            let ended = task.is_finished();
            if let (true, Some(after)) = (ended, self.restarts_after) {
                self.crash(now + after);
            }
        }
        platform::set_skew(0);
    }
}
