//! Eviction: a deletion that first checks the pod's disruption budget. Rules and messages are kube-apiserver's.

use std::borrow::Cow;
use std::sync::Arc;

use berth_api::fenceposts::evicts_unready;
use berth_api::object::LabelSelector;
use berth_api::read::from_value;
use berth_api::work::WorkBudget;
use berth_rules::Selector;
use berth_schema::resource::{POD_DISRUPTION_BUDGETS, Resource};
use http::StatusCode;
use serde_json::{Value, json};

use super::api::Api;
use super::content::Content;
use super::decode;
use super::object::find;
use super::options::WriteOptions;
use super::reply::Reply;
use super::write::WriteRequest;
use crate::admission::Operation;
use crate::lifecycle::restrict_node;
use crate::request::{ApiRequest, ApiResult, CauseType, DeleteOptions, Reason, Status};
use crate::store::{Change, Compiled, Filter, Labels, Object, Store, Write, WriteError};
use crate::strategy::fields::{list, object};
use crate::strategy::now;

const ATTEMPTS: usize = 64;
/// Maximum number of evictions that the disruption controller has not yet observed.
const MAX_DISRUPTED: usize = 2000;
/// Requirements in the selectors of a namespace's budgets that an eviction evaluates at most.
const MAX_STEPS: u64 = 2_000_000;
const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

pub async fn evict(api: &Api, request: &ApiRequest, warnings: &mut Vec<String>) -> ApiResult<Reply> {
    let info = &request.info;
    let write_options = WriteOptions::read(request)?;
    let dry_run = write_options.dry_run;
    let mut eviction = decode::object(request, write_options.validation, warnings)?;
    api.admission.review_sent(request, dry_run, &mut eviction, warnings).await?;
    let mut options = DeleteOptions { dry_run, evicts: true, ..DeleteOptions::default() };
    options.take_value(&eviction["deleteOptions"])?;
    let budgets = &POD_DISRUPTION_BUDGETS;
    for _ in 0..ATTEMPTS {
        let current = find(api, info)?;
        let pod = current.value();
        let context = api.context(&request.user, request.info.resource, "eviction");
        restrict_node(&context, info.resource, Operation::Create, &pod, &Value::Null)?;
        let mut deletion = options.clone();
        if needs_budget(&pod) {
            match ask_budget(api, budgets, &current, &pod, options.dry_run).await? {
                Budget::Allows => {}
                // Precondition: the pod has not changed since its health was checked.
                Budget::DoesNotMatter => deletion.resource_version = Some(current.revision.to_string()),
                Budget::Changed => continue,
            }
        }
        deletion.check_policy()?;
        let is_conditional = deletion.resource_version != options.resource_version;
        let content = Content::Deletion(deletion);
        let write = WriteRequest::new(request, info.clone(), write_options.clone(), content, warnings);
        match write.carry_out(api, warnings).await {
            Ok(_) => {
                let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                return Ok(Reply::value(StatusCode::CREATED, &done));
            }
            Err(status) if status.reason == Reason::Conflict && is_conditional => {}
            Err(status) => return Err(status),
        }
    }
    Err(Status::too_many_requests(
        "couldn't update PodDisruptionBudget due to conflicts: too many changes at once",
        10,
    ))
}

enum Budget {
    /// No budget applies, or the budget allows the eviction and has counted it.
    Allows,
    /// The pod does not count towards the budget.
    DoesNotMatter,
    Changed,
}

/// Whether an eviction of the pod needs a budget. Pending, finished and terminating pods do not.
fn needs_budget(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

async fn ask_budget(
    api: &Api,
    resource: &'static Resource,
    pod_object: &Object,
    pod: &Value,
    dry_run: bool,
) -> ApiResult<Budget> {
    let Some(current) = budget_of(&api.store, pod_object)? else { return Ok(Budget::Allows) };
    let mut budget = current.value();
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let policy = budget["spec"]["unhealthyPodEvictionPolicy"].as_str().unwrap_or_default();
    if !is_ready(pod) && evicts_unready(policy, number("currentHealthy"), number("desiredHealthy")) {
        return Ok(Budget::DoesNotMatter);
    }
    let name = current.facts.name().to_owned();
    check(resource, &name, &budget)?;
    take_one(&mut budget, pod_object.facts.name());
    if dry_run {
        return Ok(Budget::Allows);
    }
    let change = Change::Release { expected: current.revision };
    match api.store.write(Write { resource, change, object: budget.into() }).await {
        Ok(_) => Ok(Budget::Allows),
        Err(WriteError::Modified | WriteError::NotFound) => Ok(Budget::Changed),
        Err(error) => Err(error.into_status(resource, &name)),
    }
}

struct BudgetSelector(Labels);

impl Compiled for BudgetSelector {
    fn compile(budget: Cow<'_, Value>) -> BudgetSelector {
        let selector: Option<LabelSelector> = from_value(&budget["spec"]["selector"]).unwrap_or_default();
        BudgetSelector(Labels::from(&Selector::parse(selector.as_ref()).unwrap_or(Selector::Nothing)))
    }
}

/// Reads the selectors of budgets when they are written.
pub fn compile_budgets(store: &Store) {
    store.compile_as::<BudgetSelector>(&POD_DISRUPTION_BUDGETS);
}

/// The only budget that selects a pod.
fn budget_of(store: &Store, pod: &Object) -> ApiResult<Option<Arc<Object>>> {
    let namespace = pod.facts.namespace();
    let (_, budgets) = store.list(&POD_DISRUPTION_BUDGETS, &Filter::in_namespace(namespace));
    let work = WorkBudget::new(MAX_STEPS);
    let mut found = None;
    for budget in budgets {
        let BudgetSelector(selector) = &*budget.compiled();
        work.spend(1 + selector.len()).map_err(|error| {
            Status::internal(format!(
                "the selectors of the disruption budgets in namespace {namespace:?} take {error}, at {:?}: use fewer \
                 budgets, or fewer requirements in spec.selector",
                budget.facts.name()
            ))
        })?;
        if selector.matches(|key| pod.facts.label(key)) && found.replace(budget).is_some() {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    }
    Ok(found)
}

fn check(resource: &Resource, name: &str, budget: &Value) -> ApiResult {
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let refuse = |message: String, retry_after: u32| {
        let status = Status::too_many_requests(VIOLATES, retry_after);
        Err(status.with_cause(CauseType::DisruptionBudget, "", message))
    };
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return refuse(message, 10);
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(Status::forbidden(resource, name, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(resource, name, why));
    }
    if allowed == 0 {
        let (needed, healthy) = (number("desiredHealthy"), number("currentHealthy"));
        let message =
            format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently");
        return refuse(message, 0);
    }
    Ok(())
}

/// Counts one disruption until the controller observes the pod's deletion.
fn take_one(budget: &mut Value, pod: &str) {
    let left = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0) - 1;
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = Value::from(left);
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = Value::from(now());
    if left > 0 {
        return;
    }
    let observed = status["observedGeneration"].clone();
    let Some(conditions) = object(budget, "status").and_then(|status| list(status, "conditions")) else {
        return;
    };
    let at = conditions.iter().position(|condition| condition["type"] == "DisruptionAllowed");
    let at = at.unwrap_or_else(|| {
        conditions.push(json!({"type": "DisruptionAllowed"}));
        conditions.len() - 1
    });
    let condition = &mut conditions[at];
    if condition["status"] != "False" {
        condition["status"] = "False".into();
        condition["lastTransitionTime"] = now().into();
    }
    condition["observedGeneration"] = observed;
    condition["reason"] = "InsufficientPods".into();
    condition["message"] = "".into();
}
