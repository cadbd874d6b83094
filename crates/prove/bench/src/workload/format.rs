//! The format of `scheduler_perf` files.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::object::volume::VolumeNodeResources;
use berth_api::object::{ResourceList, StringMap};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Stop;

/// A test case: operations, and the workloads that they are run for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    pub name: String,
    /// Feature gates of all workloads.
    #[serde(default)]
    pub(super) feature_gates: BTreeMap<String, bool>,
    /// A KubeSchedulerConfiguration.
    pub(super) scheduler_config_path: Option<String>,
    /// Template of pods whose operation names none.
    pub(super) default_pod_template_path: Option<String>,
    #[serde(default)]
    workload_template: Vec<Value>,
    #[serde(default)]
    pub workloads: Vec<Workload>,
}

/// Parameters for the operations of a test case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub name: String,
    /// What it is for, such as `performance`.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Feature gates that differ from the test case's.
    #[serde(default)]
    pub(super) feature_gates: BTreeMap<String, bool>,
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    CreateNodes(usize, CreateNodes),
    CreateNamespaces(usize, CreateNamespaces),
    CreatePods(usize, CreatePods),
    CreatePodSets(usize, CreatePodSets),
    CreateAny(usize, CreateAny),
    CreateResourceDriver(CreateResourceDriver),
    AllocResourceClaims(AllocResourceClaims),
    Churn(Churn),
    DeletePods(DeletePods),
    Sleep(Duration),
    /// Decisions are made in order: what a barrier waits for has happened.
    Barrier,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateNodes {
    pub node_template_path: Option<String>,
    pub node_allocatable_strategy: Option<NodeAllocatableStrategy>,
    pub label_node_prepare_strategy: Option<LabelNodePrepareStrategy>,
    pub unique_node_label_strategy: Option<UniqueNodeLabelStrategy>,
}

/// Allocatable amounts that differ from the template's, and the contents of the nodes' CSINodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeAllocatableStrategy {
    #[serde(default)]
    pub node_allocatable: ResourceList,
    /// How many volumes each driver can attach.
    #[serde(default)]
    pub csi_node_allocatable: BTreeMap<String, VolumeNodeResources>,
    /// The in-tree plugins whose disks a CSI driver attaches.
    #[serde(default)]
    pub migrated_plugins: Vec<String>,
}

/// A label whose values the nodes take in turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LabelNodePrepareStrategy {
    pub label_key: String,
    pub label_values: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct UniqueNodeLabelStrategy {
    pub label_key: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateNamespaces {
    pub prefix: String,
    pub namespace_template_path: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreatePods {
    #[serde(default)]
    pub collect_metrics: bool,
    /// Pods are deleted when all are decided, and created again, for a time.
    #[serde(default)]
    pub steady_state: bool,
    pub duration: Option<String>,
    /// Each pod is decided when it is created: there is nothing to wait for.
    #[serde(default, rename = "skipWaitToCompletion")]
    _skip_wait_to_completion: bool,
    pub namespace: Option<String>,
    pub pod_template_path: Option<String>,
    /// Each pod gets a volume and a claim, bound to each other.
    pub persistent_volume_template_path: Option<String>,
    pub persistent_volume_claim_template_path: Option<String>,
    /// Numbers that the template names.
    #[serde(default)]
    pub template_params: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreatePodSets {
    pub namespace_prefix: String,
    pub create_pods_op: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateAny {
    #[serde(default)]
    pub namespace: String,
    pub template_path: String,
}

/// A driver that publishes equal devices on nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateResourceDriver {
    pub driver_name: String,
    /// A pattern of names.
    pub nodes: String,
    /// The number of devices.
    pub max_claims_per_node: usize,
}

/// The allocation of claims that no pod uses.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AllocResourceClaims {
    /// Empty for all.
    #[serde(default)]
    pub namespace: String,
}

/// Objects that come, and may go again, while the operations after it run.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Churn {
    pub mode: ChurnMode,
    /// How often objects are created, 0 for without end; or with `recreate`, how many of each template there are before
    /// they are deleted again.
    #[serde(default)]
    pub number: usize,
    #[serde(default)]
    pub interval_milliseconds: u64,
    pub namespace: Option<String>,
    #[serde(default)]
    pub template_paths: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChurnMode {
    Create,
    Recreate,
}

/// The deletion of pods that earlier operations created.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DeletePods {
    pub namespace: String,
    #[serde(default)]
    pub label_selector: StringMap,
    /// Whether the next operation starts before all are deleted.
    #[serde(default)]
    pub skip_wait_to_completion: bool,
    /// 0 for all at once.
    #[serde(default)]
    pub delete_pods_per_second: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sleep {
    duration: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Barrier {
    #[serde(rename = "stageRequirement")]
    _stage_requirement: Option<String>,
}

/// Feature gates that do not change kube-scheduler's decisions, or that are on by default.
const KNOWN_GATES: [&str; 16] = [
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DynamicResourceAllocation",
    "GangScheduling",
    "GenericWorkload",
    "NodeDeclaredFeatures",
    "NodeInclusionPolicyInPodTopologySpread",
    "SchedulerAsyncAPICalls",
    "SchedulerAsyncPreemption",
    "SchedulerQueueingHints",
];

impl Case {
    /// The operations, with the parameters of one workload.
    pub(super) fn ops(&self, workload: &Workload) -> Result<Vec<Op>, Stop> {
        let gates = self.feature_gates.iter().chain(&workload.feature_gates);
        // The workload's feature gates override those of the test case.
        let gates: BTreeMap<_, _> = gates.collect();
        for (gate, on) in gates {
            if *on && !KNOWN_GATES.contains(&gate.as_str()) {
                return Err(Stop::NotSupported(format!("feature gate {gate}")));
            }
        }
        self.workload_template.iter().map(|op| parse(op, &workload.params)).collect()
    }
}

/// Reads an operation and looks up its count.
pub(super) fn parse(op: &Value, params: &BTreeMap<String, Value>) -> Result<Op, Stop> {
    let mut fields = op.as_object().cloned().unwrap_or_default();
    let opcode = fields.remove("opcode");
    let Some(Value::String(opcode)) = opcode else {
        return Err(Stop::Failed("an operation has no opcode".to_owned()));
    };
    fill_in(&mut fields, params).map_err(|e| Stop::Failed(format!("{opcode}: {e}")))?;
    let count = count(&mut fields).map_err(|e| Stop::Failed(format!("{opcode}: {e}")))?;
    let needed = || count.ok_or_else(|| Stop::Failed(format!("{opcode}: count is missing")));
    Ok(match opcode.as_str() {
        "createNodes" => Op::CreateNodes(needed()?, typed(&opcode, fields)?),
        "createNamespaces" => Op::CreateNamespaces(needed()?, typed(&opcode, fields)?),
        "createPods" => Op::CreatePods(needed()?, typed(&opcode, fields)?),
        "createPodSets" => Op::CreatePodSets(needed()?, typed(&opcode, fields)?),
        "createAny" => Op::CreateAny(count.unwrap_or(1), typed(&opcode, fields)?),
        "createResourceDriver" => Op::CreateResourceDriver(typed(&opcode, fields)?),
        "allocResourceClaims" => Op::AllocResourceClaims(typed(&opcode, fields)?),
        "churn" => Op::Churn(typed(&opcode, fields)?),
        "deletePods" => Op::DeletePods(typed(&opcode, fields)?),
        "sleep" => {
            let Sleep { duration: text } = typed(&opcode, fields)?;
            duration(text.as_deref()).map(Op::Sleep).map_err(|e| Stop::Failed(format!("sleep: {e}")))?
        }
        // The engine knows a PodGroup as soon as it is created.
        "waitForPodGroups" => Op::Barrier,
        "barrier" => typed::<Barrier>(&opcode, fields).map(|_| Op::Barrier)?,
        _ => return Err(Stop::NotSupported(format!("operation {opcode}"))),
    })
}

fn typed<T: DeserializeOwned>(opcode: &str, fields: Map<String, Value>) -> Result<T, Stop> {
    serde_json::from_value(Value::Object(fields)).map_err(|e| {
        let message = e.to_string();
        match message.strip_prefix("unknown field `").and_then(|m| m.split_once('`')) {
            Some((field, _)) => Stop::NotSupported(format!("{field} of {opcode}")),
            None => Stop::Failed(format!("{opcode}: {message}")),
        }
    })
}

const MAX_SLEEP: Duration = Duration::from_secs(24 * 3600);

/// A Go duration such as `1m30s`.
pub(super) fn duration(text: Option<&str>) -> Result<Duration, String> {
    let text = text.unwrap_or_default();
    let duration = text.parse::<jiff::SignedDuration>().ok().and_then(|duration| duration.try_into().ok());
    let duration = duration.filter(|duration: &Duration| *duration <= MAX_SLEEP);
    duration.ok_or_else(|| format!("{text:?} is not a duration such as 500ms or 1m30s, of at most 24 hours"))
}

/// Replaces each field `FIELDParam: $NAME` by `FIELD` with the value of the parameter.
fn fill_in(fields: &mut Map<String, Value>, params: &BTreeMap<String, Value>) -> Result<(), String> {
    if let Some(Value::Object(of_template)) = fields.get_mut("templateParams") {
        let texts = of_template.values_mut().filter(|value| value.is_string());
        for value in texts {
            *value = parameter(value, params)?.clone();
        }
    }
    let named: Vec<String> = fields.keys().filter(|field| field.ends_with("Param")).cloned().collect();
    for field in named {
        let value = parameter(&fields.remove(&field).unwrap_or_default(), params)?;
        fields.insert(field.trim_end_matches("Param").to_owned(), value.clone());
    }
    Ok(())
}

fn parameter<'v>(name: &Value, params: &'v BTreeMap<String, Value>) -> Result<&'v Value, String> {
    let name = name.as_str().and_then(|name| name.strip_prefix('$')).unwrap_or_default();
    params.get(name).ok_or_else(|| format!("there is no parameter {name:?}"))
}

/// `count`, times `countMultiplier`.
fn count(fields: &mut Map<String, Value>) -> Result<Option<usize>, String> {
    let mut number = |field| {
        fields.remove(field).map_or(Ok(None), |value| {
            let count = value.as_u64().and_then(|n| usize::try_from(n).ok());
            count.map(Some).ok_or_else(|| format!("{value} is not a count"))
        })
    };
    let (count, multiplier) = (number("count")?, number("countMultiplier")?.unwrap_or(1));
    Ok(count.map(|count| count.saturating_mul(multiplier)))
}
