//! LimitRanger: the limit ranges of a namespace give containers default requests and limits, and bound those of containers,
//! pods and claims. Rules and messages are those of kube-apiserver's admission plugin of this name.

use std::collections::BTreeMap;

use berth_api::object::{PodSpec, ResourceList};
use berth_api::read::from_value;
use berth_api::syntax::quantity::Quantity;
use berth_rules::{pod_limits, pod_requests};
use berth_schema::resource::{LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS, Resource};
use serde_json::{Value, json};

use crate::request::Status;
use crate::strategy::fields::{default, items, items_mut, object, text};
use crate::strategy::{Context, metadata};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The limits of the namespace, in the order of the names of their objects.
fn limits(context: &Context<'_>, value: &Value) -> Vec<Value> {
    let ranges = context.lookup.list(&LIMIT_RANGES, Some(text(value, "/metadata/namespace")));
    let mut all = Vec::new();
    for range in ranges {
        all.extend(items(&range.parsed()["spec"], "limits").iter().cloned());
    }
    all
}

/// Sets requests and limits that the containers of a new pod lack.
pub(super) fn set_defaults(context: &Context<'_>, resource: &Resource, pod: &mut Value) {
    if *resource != PODS {
        return;
    }
    let limits = limits(context, pod);
    let mut report = Vec::new();
    for (list, title) in [("containers", "container"), ("initContainers", "init container")] {
        for container in items_mut(&mut pod["spec"], list) {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (part, from, word) in
                [("requests", "defaultRequest", "request"), ("limits", "default", "limit")]
            {
                let mut set = Vec::new();
                let defaults = limits.iter().filter(|limit| limit["type"] == "Container");
                for (key, amount) in defaults.filter_map(|limit| limit[from].as_object()).flatten() {
                    let Some(resources) = object(container, "resources") else { continue };
                    let amounts = resources.entry(part).or_insert_with(|| json!({}));
                    if let Some(amounts) =
                        amounts.as_object_mut().filter(|amounts| !amounts.contains_key(key))
                    {
                        default(amounts, key, amount.clone());
                        set.push(key.as_str());
                    }
                }
                if !set.is_empty() {
                    report.push(format!("{} {word} for {title} {name}", set.join(", ")));
                }
            }
        }
    }
    if !report.is_empty()
        && let Some(annotations) = object(&mut pod["metadata"], "annotations")
    {
        let text = format!("LimitRanger plugin set: {}", report.join("; "));
        annotations.insert(ANNOTATION.to_owned(), Value::from(text));
    }
}

/// Refuses a pod or a claim beyond the limits of its namespace.
///
/// # Errors
/// It is beyond them.
pub(super) fn check(context: &Context<'_>, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    let is_pod = *resource == PODS;
    if !is_pod && *resource != PERSISTENT_VOLUME_CLAIMS {
        return Ok(());
    }
    let limits = limits(context, value);
    if limits.is_empty() {
        return Ok(());
    }
    let mut problems = Vec::new();
    for limit in &limits {
        match text(limit, "/type") {
            "PersistentVolumeClaim" if !is_pod => {
                let amounts = Amounts::of(&value["spec"]["resources"]);
                amounts.check_claim(limit, &mut problems);
            }
            "Container" if is_pod => {
                let lists = ["containers", "initContainers"];
                for container in lists.iter().flat_map(|list| items(&value["spec"], list)) {
                    Amounts::of(&container["resources"]).check("Container", limit, &mut problems);
                }
            }
            "Pod" if is_pod => {
                let spec = from_value::<PodSpec>(&value["spec"]).map_err(Status::internal)?;
                let amounts = Amounts { requests: pod_requests(&spec), limits: pod_limits(&spec) };
                amounts.check("Pod", limit, &mut problems);
            }
            _ => {}
        }
    }
    let why = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(Status::forbidden(resource, metadata::name(value), &why))
}

/// The amounts of a field of a limit, by resource.
fn listed(amounts: &Value) -> ResourceList {
    from_value::<ResourceList>(amounts).unwrap_or_default()
}

/// What a container, pod or claim asks for.
struct Amounts {
    requests: ResourceList,
    limits: ResourceList,
}

impl Amounts {
    fn of(resources: &Value) -> Amounts {
        Amounts { requests: listed(&resources["requests"]), limits: listed(&resources["limits"]) }
    }

    fn check(&self, kind: &str, limit: &Value, problems: &mut Vec<String>) {
        self.check_least(kind, limit, problems);
        for (name, most) in listed(&limit["max"]) {
            let bound = format!("maximum {name} usage per {kind} is {most}");
            match (self.limits.get(&name), self.requests.get(&name)) {
                (None, _) => problems.push(format!("{bound}.  No limit is specified")),
                (Some(limit), _) if *limit > most => problems.push(format!("{bound}, but limit is {limit}")),
                (_, Some(request)) if *request > most => {
                    problems.push(format!("{bound}, but request is {request}"));
                }
                _ => {}
            }
        }
        for (name, most) in listed(&limit["maxLimitRequestRatio"]) {
            let bound = format!("{name} max limit to request ratio per {kind} is {most}");
            let amount = |list: &ResourceList| list.get(&name).map_or(0, |quantity| quantity.millis());
            let (limit, request) = (amount(&self.limits), amount(&self.requests));
            if request == 0 {
                problems.push(format!("{bound}, but no request is specified or request is 0"));
            } else if limit == 0 {
                problems.push(format!("{bound}, but no limit is specified or limit is 0"));
            } else {
                let ratio = limit as f64 / request as f64;
                if ratio > most.millis() as f64 / 1000.0 {
                    problems.push(format!("{bound}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }

    fn check_least(&self, kind: &str, limit: &Value, problems: &mut Vec<String>) {
        for (name, least) in listed(&limit["min"]) {
            let bound = format!("minimum {name} usage per {kind} is {least}");
            match (self.requests.get(&name), self.limits.get(&name)) {
                (None, _) => problems.push(format!("{bound}.  No request is specified")),
                (Some(request), _) if *request < least => {
                    problems.push(format!("{bound}, but request is {request}"));
                }
                (_, Some(limit)) if *limit < least => problems.push(format!("{bound}, but limit is {limit}")),
                _ => {}
            }
        }
    }

    /// Claims have requests only.
    fn check_claim(&self, limit: &Value, problems: &mut Vec<String>) {
        let kind = "PersistentVolumeClaim";
        self.check_least(kind, limit, problems);
        let most: BTreeMap<String, Quantity> = listed(&limit["max"]).into_iter().collect();
        for (name, most) in most {
            let bound = format!("maximum {name} usage per {kind} is {most}");
            match self.requests.get(&name) {
                None => problems.push(format!("{bound}.  No request is specified")),
                Some(request) if *request > most => {
                    problems.push(format!("{bound}, but request is {request}"))
                }
                Some(_) => {}
            }
        }
    }
}
