//! Forms that lead to writes: the confirmation of a list, and the writes of a confirmed one.

use std::sync::Arc;

use berth_console::writes::WritePlan;
use berth_console::{APPLY, CONFIRM};
use http::{HeaderMap, Response, StatusCode, header};

use super::{Content, Refusal, Server, page};
use crate::changes::Changes;
use crate::console::{Question, Rendered};

/// What a form leads to.
enum Step {
    /// Nothing is written.
    Page(berth_console::Response),
    Write(WritePlan, Question, String),
}

impl Server {
    /// What carries out the changes of a path; none for other paths, and if the console allows no changes.
    pub(super) fn changes_of(&self, path: &str) -> Option<&Arc<Changes>> {
        self.changes.as_ref().filter(|_| path == CONFIRM || path == APPLY)
    }

    pub(super) async fn change(
        &self,
        changes: &Arc<Changes>,
        headers: &HeaderMap,
        question: Question,
        form: String,
    ) -> Result<Response<Content>, Refusal> {
        let is_write = question.path == APPLY;
        // Browsers send it with every form. That it is the console's own is checked with all requests.
        if is_write && !headers.contains_key(header::ORIGIN) {
            let message = "A request that writes needs the header Origin, with the address of the console.";
            return Err(Refusal(StatusCode::FORBIDDEN, message.to_owned()));
        }
        let token = self.viewer_token(headers)?.map(str::to_owned);
        let (signer, viewer) = (changes.clone(), token.clone());
        let step = move |state: &mut berth_console::State| {
            let request = question.request(Some(&form));
            let plan = match WritePlan::of_request(state, &request) {
                Ok(plan) => plan,
                Err(page) => return Step::Page(page),
            };
            let viewer = viewer.as_deref();
            let digest = request.parameter("digest").unwrap_or_default();
            if is_write && signer.is_confirmed(&plan, viewer, &digest) {
                return Step::Write(plan, question, form);
            }
            Step::Page(plan.confirmation(state, &request, &signer.digest(&plan, viewer), is_write))
        };
        let (plan, question, form) = match self.console.read(step).await.ok_or_else(bug)? {
            Step::Page(shown) => return Ok(page(Rendered::from(shown))),
            Step::Write(plan, question, form) => (plan, question, form),
        };
        let changes = changes.clone();
        // A separate task: it does not end with the connection.
        let written = tokio::spawn(async move {
            let results = changes.carry_out(&plan, token.as_deref()).await;
            (plan, results)
        });
        let (plan, results) = written.await.map_err(|_| bug())?;
        let report = move |state: &mut berth_console::State| {
            plan.report(state, &question.request(Some(&form)), &results)
        };
        Ok(page(Rendered::from(self.console.read(report).await.ok_or_else(bug)?)))
    }
}

fn bug() -> Refusal {
    let message =
        "A bug in Berth: look at the cluster for what is written, and please report it with the log.";
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned())
}
