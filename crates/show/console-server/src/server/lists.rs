//! Lists of writes that viewers have confirmed: those that are being carried out, and the last ones that have ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_console::writes::{Progress, WritePlan};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessToken, RandomnessError};
use crate::changes::Changes;
use crate::console::{Console, Question};

const MAX_LISTS: usize = 64;

pub struct List {
    /// Random: it is part of an address.
    pub id: String,
    /// The token of the viewer who confirmed it. Others do not see it.
    pub viewer: Option<String>,
    pub plan: WritePlan,
    /// What was asked, with its form.
    pub question: Question,
    pub form: String,
    progress: watch::Sender<Progress>,
    stop: CancellationToken,
}

impl List {
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Waits until the list has ended, or pauses.
    pub async fn ends_or_pauses(&self) {
        let rests = |progress: &Progress| progress.is_ended || progress.pause.is_some();
        self.progress.subscribe().wait_for(rests).await.ok();
    }

    /// Nothing more is tried; waits until the list has ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.progress.subscribe().wait_for(|progress| progress.is_ended).await.ok();
    }
}

#[derive(Default)]
pub struct Lists(Mutex<VecDeque<Arc<List>>>);

impl Lists {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<List>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of an address, if this viewer confirmed it.
    pub fn get(&self, id: &str, viewer: Option<&str>) -> Option<Arc<List>> {
        self.lock().iter().find(|list| list.id == id && list.viewer.as_deref() == viewer).cloned()
    }

    /// Begins to carry out a list, as a task: it does not end with the connection of the viewer. None if too many go on.
    pub fn begin(
        &self,
        changes: &Arc<Changes>,
        console: &Arc<Console>,
        viewer: Option<String>,
        plan: WritePlan,
        (question, form): (Question, String),
    ) -> Result<Option<Arc<List>>, RandomnessError> {
        let id = AccessToken::random()?.secret().to_owned();
        let progress = watch::Sender::new(Progress::begin(plan.writes.len()));
        let list =
            Arc::new(List { id, viewer, plan, question, form, progress, stop: CancellationToken::new() });
        {
            let mut lists = self.lock();
            if lists.len() >= MAX_LISTS {
                let Some(ended) = lists.iter().position(|list| list.progress.borrow().is_ended) else {
                    return Ok(None);
                };
                lists.remove(ended);
            }
            lists.push_back(list.clone());
        }
        let (list_of_task, changes, console) = (list.clone(), changes.clone(), console.clone());
        tokio::spawn(async move {
            let list = list_of_task;
            // The progress ends also when a write panics.
            let ended = EndOnDrop(&list.progress);
            let report = |progress: &Progress| {
                list.progress.send_replace(progress.clone());
                if progress.is_ended || progress.pause.is_some() {
                    let console = console.clone();
                    // Open pages are fetched again: the page of the list is one of them.
                    tokio::spawn(async move { console.update(|_| true).await });
                }
            };
            changes.carry_out(&list.plan, list.viewer.as_deref(), &list.stop, report).await;
            drop(ended);
        });
        Ok(Some(list))
    }
}

struct EndOnDrop<'a>(&'a watch::Sender<Progress>);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.send_if_modified(|progress| {
            let is_new = !progress.is_ended;
            if is_new {
                progress.end();
            }
            is_new
        });
    }
}
