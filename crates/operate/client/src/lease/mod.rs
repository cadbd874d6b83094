//! Leader election by a `coordination.k8s.io/v1` Lease, as Kubernetes' own components do it.
//!
//! Clocks of different machines are never compared: a lease has expired when *this* process has seen it unchanged for
//! its whole duration. A leader counts from the moment it *sent* its last successful renewal. After `renew_deadline`
//! without another one it stops leading, which is before another process can acquire the lease. A component checks
//! [`Leadership::leads`] right before each request that only a leader may send.

mod election;

use std::time::Duration;

use berth_api::object::time::rfc3339_micros;
use berth_api::resource::LEASES;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::election::{Election, Record, held_by};
use crate::call::{self, CallError};
use crate::outage_log;

#[derive(Clone, Debug)]
pub struct LeaseOptions {
    pub namespace: String,
    pub name: String,
    /// Identity of this process; unique among all candidates.
    pub identity: String,
    /// How long other candidates wait for a renewal before they acquire the lease. Whole seconds.
    pub lease_duration: Duration,
    /// How long a leader leads after a renewal; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// Interval of renewals, and of reads by other candidates.
    pub retry_period: Duration,
}

impl LeaseOptions {
    /// 12 s, 7 s and 2 s. Kubernetes' components use 15 s, 10 s and 2 s, with which a successor starts up to 17 s
    /// after its predecessor died: the renewal it waits out may be seen 2 s late.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
    ) -> LeaseOptions {
        LeaseOptions {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(12),
            renew_deadline: Duration::from_secs(7),
            retry_period: Duration::from_secs(2),
        }
    }

    /// The timeout of a request that only a leader may send: with an election, at most the time between the end of a
    /// leadership and the earliest beginning of the next.
    pub fn request_timeout(election: Option<&LeaseOptions>, timeout: Duration) -> Duration {
        let Some(lease) = election else { return timeout };
        let grace = lease.lease_duration.saturating_sub(lease.renew_deadline);
        timeout.min(grace).max(Duration::from_millis(100))
    }
}

/// Whether this process leads, and until when.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: watch::Receiver<Option<Instant>>,
}

impl Leadership {
    /// The leadership of a single process without an election.
    pub fn uncontested() -> Leadership {
        // A century from now: `Instant` has no end of time.
        let far = Instant::now() + Duration::from_secs(100 * 365 * 24 * 3600);
        Leadership { until: watch::channel(Some(far)).1 }
    }

    /// Whether it leads at this moment.
    pub fn leads(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    /// The moment at which it stops leading unless the lease is renewed before; none if it does not lead.
    pub fn until(&self) -> Option<Instant> {
        *self.until.borrow()
    }

    /// Waits until the leadership starts, ends or is renewed.
    pub async fn changed(&mut self) {
        if self.until.changed().await.is_err() {
            // The elector has ended: there are no more changes.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it does not lead.
    pub async fn lost(&mut self) {
        while let Some(until) = self.until().filter(|until| Instant::now() < *until) {
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = self.changed() => {}
            }
        }
    }
}

/// Takes part in the election until `stop`, and then releases the lease, so that the next leader need not wait until it
/// expires. Cancel `stop` only after the last request that a leader sends.
pub fn elect(
    client: kube::Client,
    options: LeaseOptions,
    stop: CancellationToken,
) -> (Leadership, JoinHandle<()>) {
    let (sender, until) = watch::channel(None);
    let elector = LeaderElector { client, options, election: Election::default(), until: sender };
    (Leadership { until }, tokio::spawn(elector.run(stop)))
}

struct LeaderElector {
    client: kube::Client,
    options: LeaseOptions,
    election: Election,
    until: watch::Sender<Option<Instant>>,
}

impl LeaderElector {
    async fn run(mut self, stop: CancellationToken) {
        let mut is_interrupted = false;
        loop {
            let holder = self.election.holder().to_owned();
            tokio::select! {
                () = stop.cancelled() => {
                    // The attempt may have taken the lease.
                    is_interrupted = true;
                    break;
                }
                tried = self.try_to_hold() => if let Err(error) = tried {
                    let LeaseOptions { namespace, name, .. } = &self.options;
                    outage_log::failed(|| match error.code() {
                        Some(403) => {
                            let verbs = ["create", "get", "update"];
                            let remedy = call::rule_to_add("coordination.k8s.io", "leases", &verbs);
                            format!("leader election with lease {namespace}/{name}: {error}: {remedy}")
                        }
                        _ => format!("leader election with lease {name}: {error}"),
                    });
                }
            }
            if self.election.holder() != holder {
                tracing::info!(lease = self.options.name, leader = self.election.holder(), "leader");
            }
            self.end_if_over();
            let next = Instant::now() + self.options.retry_period.mul_f64(1.0 + 0.2 * fastrand::f64());
            let free = self.election.free_at(&self.options.identity).filter(|free| *free > Instant::now());
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(free.map_or(next, |free| free.min(next))) => {}
            }
            self.end_if_over();
        }
        if (self.until.send_replace(None).is_some() || is_interrupted)
            && let Err(error) = self.release().await
        {
            tracing::warn!(lease = self.options.name, "the lease is not released and will expire: {error}");
        }
    }

    fn end_if_over(&self) {
        let is_over = self.until.borrow().is_some_and(|until| Instant::now() >= until);
        if is_over {
            tracing::warn!(
                lease = self.options.name,
                "no longer leader: the lease could not be renewed in time"
            );
            self.until.send_replace(None);
        }
    }

    /// Each attempt must leave time for another one before the deadline.
    fn timeout(&self) -> Duration {
        self.options.renew_deadline / 2
    }

    fn path(&self) -> String {
        let LeaseOptions { namespace, name, .. } = &self.options;
        LEASES.object_path(namespace, name)
    }

    async fn read(&mut self) -> Result<Option<Value>, CallError> {
        match call::json::<Value>(&self.client, call::get(&self.path()), self.timeout()).await {
            Ok(lease) => {
                self.election.observe(Record::of(&lease), Instant::now());
                Ok(Some(lease))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn try_to_hold(&mut self) -> Result<(), CallError> {
        let lease = self.read().await?;
        if lease.is_some() && !self.election.may_hold(&self.options.identity, Instant::now()) {
            self.until.send_replace(None);
            return Ok(());
        }
        let sent = Instant::now();
        match self.write(lease, &self.options.identity, self.options.lease_duration).await {
            Ok(written) => {
                self.election.observe(Record::of(&written), Instant::now());
                self.until.send_replace(Some(sent + self.options.renew_deadline));
                Ok(())
            }
            // Another candidate was faster.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &self,
        lease: Option<Value>,
        holder: &str,
        duration: Duration,
    ) -> Result<Value, CallError> {
        let path = self.path();
        let (method, path) = match &lease {
            Some(_) => (Method::PUT, path.as_str()),
            None => (Method::POST, path.rsplit_once('/').map_or(path.as_str(), |(collection, _)| collection)),
        };
        let lease = lease.unwrap_or_else(|| {
            let LeaseOptions { namespace, name, .. } = &self.options;
            json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"namespace": namespace, "name": name},
            })
        });
        let lease = held_by(lease, holder, duration, &now());
        call::json(&self.client, call::with_json(method, path, &lease), self.timeout()).await
    }

    async fn release(&mut self) -> Result<(), CallError> {
        let Some(lease) = self.read().await? else { return Ok(()) };
        if self.election.holder() != self.options.identity {
            return Ok(());
        }
        self.write(Some(lease), "", Duration::from_secs(1)).await.map(|_| ())
    }
}

/// The time as `MicroTime` writes it.
fn now() -> String {
    rfc3339_micros(jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response, StatusCode};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use tokio::sync::mpsc;

    use super::*;

    /// An API server with one lease. It tells of each write, and does not answer it if `is_silent` once.
    fn server(stored: Arc<Mutex<Value>>, is_silent: bool) -> (kube::Client, mpsc::UnboundedReceiver<Value>) {
        let (writes, written) = mpsc::unbounded_channel();
        let answers = Arc::new(Mutex::new(!is_silent));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (stored, answers, writes) = (stored.clone(), answers.clone(), writes.clone());
            async move {
                if request.method() != Method::GET {
                    let sent = request.into_body().collect().await.unwrap().to_bytes();
                    let sent: Value = serde_json::from_slice(&sent).unwrap();
                    *stored.lock().unwrap() = sent.clone();
                    writes.send(sent).unwrap();
                    let answers = std::mem::replace(&mut *answers.lock().unwrap(), true);
                    if !answers {
                        std::future::pending::<()>().await;
                    }
                }
                let lease = stored.lock().unwrap().to_string();
                let status = if lease == "null" { StatusCode::NOT_FOUND } else { StatusCode::OK };
                let body = Body::from(lease.into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
            }
        });
        (kube::Client::new(service, "default"), written)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_released_at_the_end_also_if_its_writing_was_interrupted() {
        for is_silent in [false, true] {
            let stored: Arc<Mutex<Value>> = Arc::default();
            let (client, mut written) = server(stored.clone(), is_silent);
            let stop = CancellationToken::new();
            let (mut leadership, ended) = elect(client, LeaseOptions::new("n", "l", "me"), stop.clone());
            assert_eq!(written.recv().await.unwrap()["spec"]["holderIdentity"], "me");
            if !is_silent {
                leadership.changed().await;
                assert!(leadership.leads());
            }
            stop.cancel();
            ended.await.unwrap();
            assert!(!leadership.leads());
            assert_eq!(stored.lock().unwrap()["spec"]["holderIdentity"], "", "silent: {is_silent}");
        }
    }

    #[test]
    fn a_leaders_last_request_is_over_before_the_next_leader_begins() {
        let (timeout, lease) = (Duration::from_secs(30), LeaseOptions::new("kube-system", "berth", "a"));
        assert_eq!(LeaseOptions::request_timeout(None, timeout), timeout);
        let grace = lease.lease_duration - lease.renew_deadline;
        assert_eq!(LeaseOptions::request_timeout(Some(&lease), timeout), grace);
    }
}
