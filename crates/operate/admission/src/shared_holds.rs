//! The binding guard with several replicas: the bindings that each has allowed, in a ledger that all share.
//!
//! A replica allows a binding only after it has written it to the ledger, with all bindings in it held in its own state. An
//! entry stays for as long as a hold, also if the binding is observed before: another replica may observe it later.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use berth_client::ledger::{Ledger, LedgerClient};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::answer::{Answer, ReviewError};
use crate::policy::{BindingGuard, Policy};
use crate::request::AdmissionRequest;
use crate::review::{Endpoint, review};
use crate::state::{Hold, State, StateAccess, key};

const NAME: &str = "berth-binding-guard";
const DESCRIPTION: &str =
    "Bindings that the replicas of Berth's binding guard have allowed and may not observe yet.";
/// Timeout of a request. A webhook has few seconds to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Attempts to write a ledger that others also write.
const MAX_ATTEMPTS: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Binding {
    namespace: String,
    name: String,
    uid: String,
    node: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Bindings {
    bindings: Vec<Binding>,
}

/// The ledger as this process has read it.
#[derive(Default)]
struct LedgerState {
    /// None if it must be read.
    ledger: Option<Ledger<Bindings>>,
    /// When this process saw an entry first, by the uid of the pod. Clocks of other processes do not matter.
    seen_at: HashMap<String, Instant>,
}

/// The shared ledger of a guard.
#[derive(Default)]
pub(crate) struct SharedHolds {
    client: OnceLock<LedgerClient>,
    ledger_state: Mutex<LedgerState>,
}

impl SharedHolds {
    /// Starts with a client; bindings are not answered before.
    pub(crate) fn start(&self, client: kube::Client, namespace: &str) {
        let (namespace, name) = (namespace.to_owned(), NAME.to_owned());
        let client = LedgerClient {
            client,
            namespace,
            name,
            key: berth_client::ledger::KEY,
            description: DESCRIPTION,
            timeout: TIMEOUT,
        };
        // A second mirror of the same cluster changes nothing.
        let _ = self.client.set(client);
    }

    /// Decides about a binding with the bindings that other replicas have allowed.
    pub(crate) async fn review<K: StateAccess>(
        &self,
        request: &AdmissionRequest,
        policy: &Policy,
        guard: &BindingGuard,
        state: &K,
    ) -> Result<Answer, ReviewError> {
        let client = self.client.get().ok_or(ReviewError::NoState("the guard of bindings"))?;
        let ledger_state = &mut *self.ledger_state.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            let ledger = match ledger_state.ledger.take() {
                Some(ledger) => ledger,
                None => client.read().await.map_err(|error| ReviewError::Ledger(error.to_string()))?,
            };
            let now = Instant::now();
            let mut bindings = ledger.content.bindings.clone();
            bindings
                .retain(|b| now < *ledger_state.seen_at.entry(b.uid.clone()).or_insert(now) + guard.hold_for);
            let decided = state.ask("the guard of bindings", |state| {
                bindings.iter().try_for_each(|b| hold(state, b, ledger_state.seen_at[&b.uid], guard, now))
            });
            let decided = decided
                .flatten()
                .and_then(|()| review(Endpoint::ValidateBindings, request, policy, state, now));
            let Some(new) = new_binding(request, &decided, state).filter(|new| !bindings.contains(new))
            else {
                ledger_state.ledger = Some(ledger);
                return decided;
            };
            bindings.push(new.clone());
            ledger_state.seen_at.retain(|uid, _| bindings.iter().any(|b| b.uid == *uid));
            ledger_state.seen_at.insert(new.uid.clone(), now);
            let written = client.write(ledger, Bindings { bindings }).await;
            let error = match written {
                Ok(ledger) => {
                    ledger_state.ledger = Some(ledger);
                    return decided;
                }
                Err(error) => error,
            };
            ledger_state.seen_at.remove(&new.uid);
            let key = key(&new.namespace, &new.name);
            state.ask("the guard of bindings", |state| state.release(&key, &new.namespace, &new.name))?;
            if !error.is_conflict() && !error.is_not_found() {
                return Err(ReviewError::Ledger(error.to_string()));
            }
        }
        Err(ReviewError::Ledger("too many concurrent changes; send the request again".to_owned()))
    }
}

/// Holds a binding of another replica, unless the state shows it.
fn hold(
    state: &mut State,
    binding: &Binding,
    seen_at: Instant,
    guard: &BindingGuard,
    now: Instant,
) -> Result<(), ReviewError> {
    let Binding { namespace, name, uid, node } = binding;
    let key = key(namespace, name);
    if state.holds.get(&key).is_some() || state.cluster().node_of(namespace, name).is_some() {
        return Ok(());
    }
    let Some(pod) = state.waiting(namespace, name).filter(|pod| pod.metadata.uid == *uid).cloned() else {
        // It has ended, or it is not observed yet.
        let is_late = now < seen_at + guard.wait_for;
        return if is_late { Err(ReviewError::Unseen(format!("pod {key}"))) } else { Ok(()) };
    };
    let prepared = state.cluster().prepare(&pod);
    state.cluster().assume(&prepared, node);
    let [namespace, name, uid, node] = [namespace, name, uid, node].map(String::clone);
    state.holds.insert(key, Hold { namespace, name, uid, node, until: seen_at + guard.hold_for });
    Ok(())
}

/// The entry of a binding that was allowed and is held now.
fn new_binding<K: StateAccess>(
    request: &AdmissionRequest,
    decided: &Result<Answer, ReviewError>,
    state: &K,
) -> Option<Binding> {
    if request.dry_run || !decided.as_ref().is_ok_and(Answer::is_allowed) {
        return None;
    }
    let own = request.object["metadata"]["name"].as_str().unwrap_or_default();
    let name = if request.name.is_empty() { own } else { &request.name };
    let key = key(&request.namespace, name);
    let hold = state.ask("the guard of bindings", |state| state.holds.get(&key).cloned()).ok()??;
    let Hold { namespace, name, uid, node, .. } = hold;
    Some(Binding { namespace, name, uid, node })
}
