//! What requests wait for, and what they share: seats, watches and memory.

use std::sync::Arc;
use std::time::Duration;

use super::budget::{Budget, Share};
use crate::fairness::{Fairness, Level, Seat};
use crate::options::Limits;
use crate::request::{ApiResult, MAX_BODY_BYTES, RequestInfo, Status, User};

/// The seats, watches and memory that all requests share.
pub struct Throttle {
    fairness: Fairness,
    /// How long a request waits for its seat.
    queue: Duration,
    watches: Arc<Budget>,
    selector_bytes: Arc<Budget>,
    request_bytes: Arc<Budget>,
    response_bytes: Arc<Budget>,
}

impl Throttle {
    pub fn new(limits: &Limits) -> Throttle {
        Throttle {
            fairness: Fairness::new(limits.in_flight),
            queue: limits.queue,
            watches: Budget::new(limits.watches, limits.watches.div_ceil(2)),
            selector_bytes: Budget::new(limits.watch_selector_bytes, limits.watch_selector_bytes / 2),
            request_bytes: Budget::new(
                limits.body_bytes_held.max(MAX_BODY_BYTES),
                (limits.body_bytes_held / 4).max(MAX_BODY_BYTES),
            ),
            response_bytes: Budget::new(limits.response_bytes_held, limits.response_bytes_held / 2),
        }
    }

    pub async fn seat(&self, user: &Arc<User>, info: Option<&RequestInfo>) -> ApiResult<Seat> {
        let level = Level::of(user, info);
        self.fairness.seat(level, user, self.queue).await.ok_or_else(too_many)
    }

    /// The priority levels with their seats in use.
    pub fn seats(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.fairness.executing()
    }

    pub fn watch(&self, user: &Arc<User>) -> ApiResult<Share> {
        let mut slot = self.watches.share(user);
        if slot.try_grow(1) { Ok(slot) } else { Err(too_many()) }
    }

    pub fn watch_selector(&self, user: &Arc<User>, bytes: usize) -> ApiResult<Share> {
        let mut memory = self.selector_bytes.share(user);
        if memory.try_grow(bytes) {
            return Ok(memory);
        }
        let message = format!(
            "Too many requests: the selectors of the open watches are too large for another one of {bytes} bytes: \
             use shorter selectors, or fewer watches."
        );
        Err(Status::too_many_requests(message, 1))
    }

    pub fn request_memory(&self, user: &Arc<User>) -> Share {
        self.request_bytes.share(user)
    }

    pub fn response_memory(&self, user: &Arc<User>) -> Share {
        self.response_bytes.share(user)
    }
}

pub fn too_many() -> Box<Status> {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}
