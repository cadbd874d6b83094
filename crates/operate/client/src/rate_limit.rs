//! Limits on the rate of requests: a bucket of tokens, and a layer of a client that waits for one before each request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use tokio::time::{Instant, Sleep};
use tower::Service;

/// The rate of a client's requests, as in `clientConnection` of a component's configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second in the long run.
    pub qps: f64,
    /// Requests at once after an idle time.
    pub burst: u32,
}

/// A bucket of tokens, one for each request.
#[derive(Debug)]
pub struct Tokens {
    per_second: f64,
    burst: f64,
    left: f64,
    at: Instant,
}

impl Tokens {
    pub fn new(per_second: f64, burst: u32, now: Instant) -> Tokens {
        let burst = f64::from(burst.max(1));
        Tokens { per_second: per_second.max(0.001), burst, left: burst, at: now }
    }

    /// Takes a token if there is one; returns whether.
    pub fn try_take(&mut self, now: Instant) -> bool {
        self.fill(now);
        let is_left = self.left >= 1.0;
        self.left -= f64::from(u8::from(is_left));
        is_left
    }

    fn fill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.left = (self.left + gained).min(self.burst);
        self.at = now;
    }

    /// Takes a token. Returns how long to wait before it may be used.
    pub(crate) fn take(&mut self, now: Instant) -> Duration {
        self.fill(now);
        self.left -= 1.0;
        if self.left >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.left / self.per_second) }
    }
}

/// A service whose requests wait for tokens.
pub(crate) struct RateLimited<S> {
    inner: S,
    tokens: Tokens,
    /// The wait for the token of the next request.
    wait: Option<Pin<Box<Sleep>>>,
}

impl<S> RateLimited<S> {
    pub(crate) fn new(inner: S, limit: RateLimit) -> RateLimited<S> {
        RateLimited { inner, tokens: Tokens::new(limit.qps, limit.burst, Instant::now()), wait: None }
    }
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for RateLimited<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let tokens = &mut self.tokens;
        let wait = self.wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(tokens.take(Instant::now()))));
        ready!(wait.as_mut().poll(context));
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        self.wait = None;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_allow_a_burst_and_then_the_rate() {
        let start = Instant::now();
        let mut tokens = Tokens::new(10.0, 3, start);
        let waits: Vec<_> = (0..5).map(|_| tokens.take(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        assert_eq!(tokens.take(start + Duration::from_secs(60)).as_millis(), 0);
        let later = start + Duration::from_secs(60);
        assert_eq!([(); 4].map(|()| tokens.try_take(later)), [true, true, false, false]);
        assert!(tokens.try_take(later + Duration::from_millis(150)), "what is refused is not owed");
    }
}
