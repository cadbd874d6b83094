//! Forms that lead to writes: the confirmation of a list, the writes of a confirmed one, and what has become of them.

use std::sync::Arc;

use berth_console::writes::WritePlan;
use berth_console::{APPLIED, APPLY, CONFIRM, Request, STOP};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::lists::List;
use super::{Content, Refusal, Server, page, with_status};
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
        self.changes.as_ref().filter(|_| [CONFIRM, APPLY, STOP].contains(&path))
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
        if question.path != CONFIRM && !headers.contains_key(header::ORIGIN) {
            let message = "A request that writes needs the header Origin, with the address of the console.";
            return Err(Refusal(StatusCode::FORBIDDEN, message.to_owned()));
        }
        let token = self.viewer_token(headers)?.map(str::to_owned);
        if question.path == STOP {
            let list = self.list(&question.request(Some(&form)), token.as_deref())?;
            list.stop().await;
            return Ok(shown_at(&list));
        }
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
        let begun = self.lists.begin(changes, &self.console, token, plan, (question, form));
        let list = begun.map_err(|_| bug())?.ok_or_else(|| {
            let message = "Too many lists wait for disruption budgets: nothing of this one was written.";
            Refusal(StatusCode::SERVICE_UNAVAILABLE, message.to_owned())
        })?;
        list.ends_or_pauses().await;
        Ok(shown_at(&list))
    }

    /// The page about a confirmed list.
    pub(super) async fn applied(&self, headers: &HeaderMap, question: Question) -> Result<Rendered, Refusal> {
        let list = self.list(&question.request(None), self.viewer_token(headers)?)?;
        let report = move |state: &mut berth_console::State| {
            let asked = list.question.request(Some(&list.form));
            list.plan.report(state, &question.request(None), &asked, &list.progress())
        };
        Ok(Rendered::from(self.console.read(report).await.ok_or_else(bug)?))
    }

    fn list(&self, request: &Request<'_>, viewer: Option<&str>) -> Result<Arc<List>, Refusal> {
        let id = request.parameter("list").unwrap_or_default();
        self.lists.get(&id, viewer).ok_or_else(|| {
            let message =
                "This console has no such list of writes: look at the cluster for what was written.";
            Refusal(StatusCode::NOT_FOUND, message.to_owned())
        })
    }
}

/// Leads to the page of a list, which can be loaded again without writing again.
fn shown_at(list: &List) -> Response<Content> {
    let mut response = with_status(StatusCode::SEE_OTHER, Content::Whole(bytes::Bytes::new()));
    let location = HeaderValue::try_from(format!("{APPLIED}?list={}", list.id)).ok();
    response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
    response
}

fn bug() -> Refusal {
    let message =
        "A bug in Berth: look at the cluster for what is written, and please report it with the log.";
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned())
}
