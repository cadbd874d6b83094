//! Writes of viewers to the cluster: only those of a list that the viewer has confirmed, in its order, until one fails. Evictions that
//! disruption budgets refuse are tried again, as `kubectl drain` does it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_console::writes::{Pause, Progress, Write, WritePlan, WriteState};
use futures::future::BoxFuture;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::access::RandomnessError;

/// Carries out a write: with the rights of the user of this bearer token, or without one with those of the console's own user.
pub type WriteFn =
    Arc<dyn Fn(Write, Option<String>) -> BoxFuture<'static, Result<(), WriteError>> + Send + Sync>;

/// Why a write was not made, as a message for viewers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// An eviction that is refused for now: it is tried again.
    #[error("{0}")]
    Refused(String),
    /// Another failure, which ends the list.
    #[error("{0}")]
    Failed(String),
}

/// How evictions that are refused for now are tried again.
#[derive(Clone, Copy, Debug)]
pub struct EvictionRetries {
    /// The pause between two attempts.
    pub pause: Duration,
    /// How long no eviction of a drain may succeed before the list ends.
    pub limit: Duration,
}

impl Default for EvictionRetries {
    /// The pause of `kubectl drain`, and five minutes.
    fn default() -> EvictionRetries {
        EvictionRetries { pause: Duration::from_secs(5), limit: Duration::from_secs(300) }
    }
}

/// Carries out lists of writes, one list at a time; others go on while one waits for a disruption budget.
pub struct Changes {
    write: WriteFn,
    retries: EvictionRetries,
    /// Lives as long as the process: forms of an earlier one do nothing.
    key: hmac::Key,
    turn: Mutex<()>,
}

impl Changes {
    /// With a new key.
    pub fn new(write: WriteFn, retries: EvictionRetries) -> Result<Changes, RandomnessError> {
        let key =
            hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(|_| RandomnessError)?;
        Ok(Changes { write, retries, key, turn: Mutex::default() })
    }

    /// What a form must have to carry out this list for the viewer with this token. It cannot be made without the key.
    pub fn digest(&self, plan: &WritePlan, token: Option<&str>) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, content(plan, token).as_bytes()))
    }

    /// Whether a viewer confirmed this list.
    pub fn is_confirmed(&self, plan: &WritePlan, token: Option<&str>, digest: &str) -> bool {
        let Ok(digest) = URL_SAFE_NO_PAD.decode(digest) else { return false };
        hmac::verify(&self.key, content(plan, token).as_bytes(), &digest).is_ok()
    }

    /// Makes the writes in their order until one fails, or until `stop`. Evictions that follow each other do not wait for each other:
    /// those that are refused are tried again until all are made, or none has been for too long. `report` gets what has become of the
    /// writes whenever that changes; what is returned is final.
    pub async fn carry_out(
        &self,
        plan: &WritePlan,
        token: Option<&str>,
        stop: &CancellationToken,
        mut report: impl FnMut(&Progress) + Send,
    ) -> Progress {
        let mut progress = Progress::begin(plan.writes.len());
        for batch in batches(&plan.writes) {
            if !self.make(plan, batch.collect(), token, stop, &mut progress, &mut report).await {
                break;
            }
        }
        progress.end();
        report(&progress);
        progress
    }

    /// Makes one write, or evictions that follow each other. Whether all are made.
    async fn make(
        &self,
        plan: &WritePlan,
        mut left: Vec<usize>,
        token: Option<&str>,
        stop: &CancellationToken,
        progress: &mut Progress,
        report: &mut (impl FnMut(&Progress) + Send),
    ) -> bool {
        let mut since = Instant::now();
        loop {
            let turn = self.turn.lock().await;
            let mut refused = Vec::new();
            for i in left {
                if stop.is_cancelled() {
                    return false;
                }
                let write = &plan.writes[i];
                let result = (self.write)(write.clone(), token.map(str::to_owned)).await;
                match &result {
                    Ok(()) => tracing::info!("a viewer wrote: {write}"),
                    Err(error) => tracing::warn!("a viewer could not write: {write}: {error}"),
                }
                let has_failed = matches!(result, Err(WriteError::Failed(_)));
                match result {
                    Ok(()) => {
                        since = Instant::now();
                        progress.states[i] = WriteState::Done;
                    }
                    Err(WriteError::Refused(reason)) => {
                        progress.states[i].refuse(reason);
                        refused.push(i);
                    }
                    Err(WriteError::Failed(reason)) => progress.states[i] = WriteState::Failed(reason),
                }
                report(progress);
                if has_failed {
                    return false;
                }
            }
            drop(turn);
            let remaining = self.retries.limit.saturating_sub(since.elapsed());
            if refused.is_empty() || remaining.is_zero() {
                return refused.is_empty();
            }
            let length = self.retries.pause.min(remaining);
            progress.pause = Some(Pause { length, remaining });
            report(progress);
            let is_stopped = timeout(length, stop.cancelled()).await.is_ok();
            progress.pause = None;
            if is_stopped {
                return false;
            }
            left = refused;
        }
    }
}

/// The indices of the writes: evictions that follow each other together, all others alone.
fn batches(writes: &[Write]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let is_eviction = |write: &Write| matches!(write, Write::Evict { .. });
    let mut end = 0;
    writes.chunk_by(move |a, b| is_eviction(a) && is_eviction(b)).map(move |batch| {
        end += batch.len();
        end - batch.len()..end
    })
}

/// All that is written, and for whom; texts are quoted, so that different lists differ.
fn content(plan: &WritePlan, token: Option<&str>) -> String {
    format!("{token:?} {:?}", plan.writes)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;

    use berth_api::object::NamespacedName;

    use super::*;

    fn evict(name: &str) -> Write {
        Write::Evict { name: NamespacedName::new("shop", name), uid: String::new(), is_recreated: true }
    }

    fn cordon(node: &str) -> Write {
        Write::Cordon { node: node.to_owned() }
    }

    fn refused() -> WriteError {
        WriteError::Refused("blocked by PodDisruptionBudget pg".to_owned())
    }

    /// Carries out a list with a writer that answers the n-th attempt to write an object with `answer`. Returns what has become of it,
    /// the attempts in their order, and the time that it took.
    async fn carried_out(
        writes: Vec<Write>,
        stop_after: Option<Duration>,
        answer: impl Fn(&str, usize) -> Result<(), WriteError> + Send + Sync + 'static,
    ) -> (Progress, Vec<String>, Duration) {
        let attempts = Arc::new(StdMutex::new(Vec::<String>::new()));
        let noted = attempts.clone();
        let write: WriteFn = Arc::new(move |write, _| {
            let object = match write {
                Write::Evict { name, .. } => name.name().to_owned(),
                Write::Cordon { node } => node,
                other => panic!("{other}"),
            };
            let mut noted = noted.lock().unwrap();
            noted.push(object.clone());
            let result = answer(&object, noted.iter().filter(|other| **other == object).count());
            Box::pin(async move { result })
        });
        let changes = Changes::new(write, EvictionRetries::default()).unwrap();
        let (begin, stop) = (Instant::now(), CancellationToken::new());
        if let Some(after) = stop_after {
            let stop = stop.clone();
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                stop.cancel();
            });
        }
        let plan = WritePlan { writes, not_applicable: Vec::new() };
        let progress = changes.carry_out(&plan, None, &stop, |_| ()).await;
        let attempts = attempts.lock().unwrap().clone();
        (progress, attempts, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_eviction_is_tried_again_every_5_s_while_the_others_of_the_drain_go_on() {
        let writes = vec![cordon("a"), evict("pg-0"), evict("web-0"), cordon("b")];
        let answer = |object: &str, n: usize| if object == "pg-0" && n < 4 { Err(refused()) } else { Ok(()) };
        let (progress, attempts, took) = carried_out(writes, None, answer).await;
        assert!(progress.is_ended && progress.is_done(), "{progress:?}");
        assert_eq!(attempts, ["a", "pg-0", "web-0", "pg-0", "pg-0", "pg-0", "b"]);
        assert_eq!(took, Duration::from_secs(15));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_ends_when_no_eviction_has_succeeded_for_5_minutes() {
        let writes = || vec![cordon("a"), evict("pg-0"), evict("pg-1"), cordon("b")];
        // pg-1 is evicted after 100 s.
        let answer = |object: &str, n: usize| match object {
            "pg-0" => Err(refused()),
            "pg-1" if n < 21 => Err(refused()),
            _ => Ok(()),
        };
        let (progress, attempts, took) = carried_out(writes(), None, answer).await;
        let failed = WriteState::Failed("blocked by PodDisruptionBudget pg; tried 81 times".to_owned());
        assert_eq!(progress.states, [WriteState::Done, failed, WriteState::Done, WriteState::NotTried]);
        assert_eq!((took, attempts.len()), (Duration::from_secs(400), 1 + 81 + 21));
        // A viewer stops it.
        let (progress, _, took) = carried_out(writes(), Some(Duration::from_secs(12)), answer).await;
        let failed = || WriteState::Failed("blocked by PodDisruptionBudget pg; tried 3 times".to_owned());
        assert_eq!(progress.states, [WriteState::Done, failed(), failed(), WriteState::NotTried]);
        assert!(progress.is_ended && took == Duration::from_secs(12), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn another_failure_ends_the_list_at_once() {
        let answer = |object: &str, _| match object {
            "pg-0" => Err(refused()),
            _ => Err(WriteError::Failed("403".to_owned())),
        };
        let writes = vec![evict("pg-0"), evict("web-0"), evict("web-1")];
        let (progress, attempts, took) = carried_out(writes, None, answer).await;
        let failed = |why: &str| WriteState::Failed(why.to_owned());
        let refused = failed("blocked by PodDisruptionBudget pg; tried once");
        assert_eq!(progress.states, [refused, failed("403"), WriteState::NotTried]);
        assert_eq!((attempts.len(), took), (2, Duration::ZERO));
    }
}
