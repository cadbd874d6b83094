//! Viewers of the console who change the cluster: they confirm lists of writes, and ask the same again until nothing is left to
//! write.
//!
//! The console renders pages in separate threads, which simulated time does not know. What runs here is what writes: the list
//! and its report, its confirmation and execution (`Changes`), and the requests (`writer`). The state is listed for each question.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::read::{Manifest, SourceLocation};
use berth_api::resource::{DEPLOYMENTS, NODES, PODS, Resource, STATEFUL_SETS};
use berth_client::call::{self, CallError};
use berth_console::writes::{Progress, Write, WritePlan, WriteState};
use berth_console::{APPLIED, CONFIRM, Request, State, Update};
use berth_console_server::{Changes, EvictionRetries, writer};
use berth_simulate::SimulationOptions;
use fastrand::Rng;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::platform;
use crate::workload::APPS;

const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a viewer reads a list, and a report.
const READING: Duration = Duration::from_secs(2);
/// A viewer gives up after as many lists.
const MOST_LISTS: usize = 40;
/// And after as many that a disruption budget has stopped.
const MOST_BLOCKED: usize = 10;
/// A short limit: a viewer confirms the rest again.
const RETRIES: EvictionRetries =
    EvictionRetries { pause: Duration::from_secs(1), limit: Duration::from_secs(3) };

/// A list of writes that a viewer has confirmed.
#[derive(Clone, Debug)]
pub struct List {
    pub question: usize,
    pub began: Duration,
    pub writes: Vec<Write>,
    /// When the viewer got the report, with what became of the writes; none if the console was killed before.
    pub report: Option<(Duration, Progress)>,
}

impl List {
    pub fn is_done(&self) -> bool {
        self.report.as_ref().is_some_and(|(_, progress)| progress.is_done())
    }

    /// Why writes were not made.
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.report.iter().flat_map(|(_, progress)| &progress.states).filter_map(|state| match state {
            WriteState::Failed(error) => Some(error.as_str()),
            _ => None,
        })
    }

    /// Whether a disruption budget has stopped it.
    pub fn is_blocked(&self) -> bool {
        self.errors().any(|error| error.to_lowercase().contains("disruption"))
    }
}

/// What viewers ask, and the lists of all of them, which outlive the console.
#[derive(Clone, Default)]
pub struct Viewers {
    questions: Arc<Vec<(Duration, String)>>,
    lists: Arc<Mutex<Vec<List>>>,
}

impl Viewers {
    /// Questions with several changes each, until `end`.
    pub fn some(rng: &mut Rng, nodes: &[String], end: Duration) -> Viewers {
        let change = |rng: &mut Rng| {
            let (node, app) = (&nodes[rng.usize(..nodes.len())], APPS[rng.usize(..APPS.len())]);
            match rng.u32(..6) {
                0 | 1 => format!("drain={node}"),
                2 => format!("set-label={node}+disk%3D{}", ["ssd", "hdd"][rng.usize(..2)]),
                3 => format!("taint={node}+dedicated%3Dx:{}", ["NoSchedule", "NoExecute"][rng.usize(..2)]),
                4 => format!("scale={}/{app}%3D{}", ["deploy", "sts"][rng.usize(..2)], rng.u32(..8)),
                _ => format!("evict=default/bare-{}", rng.u32(..4)),
            }
        };
        let question = |rng: &mut Rng| {
            let at = Duration::from_millis(rng.u64(15_000..end.as_millis() as u64));
            let changes: Vec<String> = (0..1 + rng.usize(..4)).map(|_| change(rng)).collect();
            (at, format!("namespace=default&{}", changes.join("&")))
        };
        let mut questions: Vec<_> = (0..1 + rng.usize(..5)).map(|_| question(rng)).collect();
        questions.sort();
        Viewers { questions: Arc::new(questions), lists: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<List>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lists(&self) -> Vec<List> {
        self.lock().clone()
    }

    fn is_answered(&self, question: usize) -> bool {
        let lists = self.lock();
        let own = || lists.iter().filter(|list| list.question == question);
        let n_blocked = own().filter(|list| list.is_blocked()).count();
        // The last list may be in the middle of its writes.
        let n_reported = own().filter(|list| list.report.is_some()).count();
        n_reported >= MOST_LISTS || n_blocked >= MOST_BLOCKED || own().any(List::is_done)
    }

    /// What is not written yet.
    pub fn unanswered(&self) -> Vec<String> {
        let unanswered = self.questions.iter().enumerate().filter(|(i, _)| !self.is_answered(*i));
        unanswered
            .map(|(_, (_, question))| format!("the console has not written all of {question}"))
            .collect()
    }

    /// Asks one question after the other, from the first that is not answered.
    pub async fn view(self, client: kube::Client) {
        let changes =
            Changes::new(writer::as_client(client.clone()), RETRIES).expect("there are random numbers");
        for (i, (at, query)) in self.questions.iter().enumerate() {
            tokio::time::sleep_until(platform::instant(*at)).await;
            while !self.is_answered(i) {
                if self.ask(&client, &changes, i, query).await.is_err() {
                    tokio::time::sleep(READING).await;
                }
            }
        }
        std::future::pending().await
    }

    async fn ask(
        &self,
        client: &kube::Client,
        changes: &Changes,
        question: usize,
        query: &str,
    ) -> Result<(), CallError> {
        let request = Request { path: CONFIRM, query, form: None };
        let shown = WritePlan::of_request(&state(client).await?, &request).unwrap_or_default();
        let digest = changes.digest(&shown, None);
        tokio::time::sleep(READING).await;
        let state = state(client).await?;
        let plan = WritePlan::of_request(&state, &request).unwrap_or_default();
        if !changes.is_confirmed(&plan, None, &digest) {
            return Ok(());
        }
        let began = platform::now();
        let n = self.lock().len();
        self.lock().push(List { question, began, writes: plan.writes.clone(), report: None });
        let progress = changes.carry_out(&plan, None, &CancellationToken::new(), |_| ()).await;
        let shown = Request { path: APPLIED, query: "list=simulated", form: None };
        let page = plan.report(&state, &shown, &request, &progress).body;
        {
            let list = &mut self.lock()[n];
            list.report = Some((platform::now(), progress));
            assert_eq!(page.matches("Failed: ").count(), list.errors().count(), "{page}");
        }
        tokio::time::sleep(READING).await;
        Ok(())
    }
}

/// The cluster as it is now.
async fn state(client: &kube::Client) -> Result<State, CallError> {
    let list = async |resource: &Resource| -> Result<Vec<Value>, CallError> {
        let list: Value = call::json(client, call::get(&resource.path("")), TIMEOUT).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    };
    fn read<T: serde::de::DeserializeOwned>(item: Value) -> T {
        serde_json::from_value(item).expect("the API server stores valid objects")
    }
    let mut updates: Vec<Update> = Vec::new();
    updates.extend(list(&NODES).await?.into_iter().map(|node| Update::node(read(node))));
    updates.extend(list(&PODS).await?.into_iter().map(|pod| Update::pod(read(pod))));
    for resource in [DEPLOYMENTS, STATEFUL_SETS] {
        let (kind, api_version) = (resource.kind, resource.api_version());
        for mut value in list(&resource).await? {
            value["apiVersion"] = api_version.as_str().into();
            let (kind, api_version) = (kind.to_owned(), api_version.clone());
            let source = SourceLocation::file(&resource.path(""));
            updates.push(Update::Object(Box::new(Manifest { kind, api_version, value, source })));
        }
    }
    let mut state = State::live("simulated", SimulationOptions::default()).expect("the options are valid");
    state.apply(updates, |error| panic!("{error}"));
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_has_not_given_up_while_the_last_list_is_carried_out() {
        let questions = Arc::new(vec![(Duration::ZERO, "cordon=n".to_owned())]);
        let viewers = Viewers { questions, lists: Arc::default() };
        let mut progress = Progress::begin(1);
        progress.states[0] = WriteState::Failed("500".to_owned());
        let list = |report| List {
            question: 0,
            began: Duration::ZERO,
            writes: vec![Write::Cordon { node: "n".to_owned() }],
            report,
        };
        let failed = list(Some((Duration::ZERO, progress.clone())));
        viewers.lock().extend(vec![failed; MOST_LISTS - 1]);
        viewers.lock().push(list(None));
        assert_eq!(viewers.unanswered(), ["the console has not written all of cordon=n"]);
        viewers.lock()[MOST_LISTS - 1].report = Some((Duration::ZERO, progress));
        assert_eq!(viewers.unanswered(), Vec::<String>::new());
    }
}
