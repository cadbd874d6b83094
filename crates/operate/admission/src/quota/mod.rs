//! Quota by opportunity cost: `PlacementQuota` of `scheduling.berth.dev/v1alpha1` (inter-pod affinity proposal, "Denial of
//! Service").
//!
//! A pod is charged for the nodes from which its required anti-affinity excludes pods of other namespaces; the engine says
//! which ([`berth_engine::OpportunityCost`]). The status of a quota is the ledger of its namespace: one entry for each
//! pod, written with its resource version before the pod is allowed. So several replicas never exceed a quota together.
//! [`sync`] keeps the entries equal to the living pods.

mod ledger;
mod metrics;
mod sync;

pub(crate) use ledger::Ledgers;
pub use metrics::QuotaMetrics;
pub(crate) use sync::sync;

use berth_api::object::ObjectMeta;
use berth_api::read::from_value;
use berth_api::syntax::quantity::{Quantity, with_unit};
use berth_engine::Reach;
use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::state::ChargedPod;

/// Amounts of the resources that a quota limits, by name.
type PerResource<T> = [(&'static str, T); 3];

/// What pods are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Quantities")]
pub(crate) struct Amounts {
    /// Thousandths of a CPU.
    milli_cpu: i64,
    /// Bytes.
    memory: i64,
    nodes: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Quantities {
    cpu: Quantity,
    memory: Quantity,
    nodes: Quantity,
}

impl From<Quantities> for Amounts {
    fn from(read: Quantities) -> Amounts {
        // A charge below zero would let others exceed the quota.
        let [milli_cpu, memory, nodes] =
            [read.cpu.millis(), read.memory.units(), read.nodes.units()].map(|amount| amount.max(0));
        Amounts { milli_cpu, memory, nodes }
    }
}

impl From<&Reach> for Amounts {
    fn from(reach: &Reach) -> Amounts {
        let nodes = i64::try_from(reach.n_nodes).unwrap_or(i64::MAX);
        Amounts { milli_cpu: reach.milli_cpu, memory: reach.memory, nodes }
    }
}

impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        for (resource, amount) in self.per_resource() {
            map.serialize_entry(resource, &with_unit(resource, amount))?;
        }
        map.end()
    }
}

impl Amounts {
    /// CPU in milli-CPU, memory in bytes.
    fn per_resource(self) -> PerResource<i64> {
        [("cpu", self.milli_cpu), ("memory", self.memory), ("nodes", self.nodes)]
    }

    fn sum(charges: &[Charge]) -> Amounts {
        charges.iter().map(|charge| charge.amounts).fold(Amounts::default(), |sum, more| Amounts {
            milli_cpu: sum.milli_cpu.saturating_add(more.milli_cpu),
            memory: sum.memory.saturating_add(more.memory),
            nodes: sum.nodes.saturating_add(more.nodes),
        })
    }
}

/// The charge of one pod: an entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Charge {
    pod: String,
    uid: String,
    /// Empty until the pod is bound.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    node: String,
    /// Whether the pod was allowed and not observed yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reserved: bool,
    #[serde(flatten)]
    amounts: Amounts,
}

/// The domain that a pod without a node is charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Measure {
    #[default]
    Largest,
    Average,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Hard {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
    nodes: Option<Quantity>,
}

impl Hard {
    /// CPU in milli-CPU, memory in bytes.
    fn per_resource(&self) -> PerResource<Option<i64>> {
        [
            ("cpu", self.cpu.map(Quantity::millis)),
            ("memory", self.memory.map(Quantity::units)),
            ("nodes", self.nodes.map(Quantity::units)),
        ]
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    charge: Measure,
    hard: Hard,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    charges: Vec<Charge>,
}

/// A quota as the API server has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacementQuota {
    object: Value,
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

/// The fields of a quota that are read.
#[derive(Deserialize)]
struct Fields {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

berth_client::has_metadata!(PlacementQuota);

impl<'de> Deserialize<'de> for PlacementQuota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        // Charges that cannot be read are made again of the living pods; until they are written, none is added.
        let read = PlacementQuota::read(object.clone()).or_else(|_| {
            object.as_object_mut().and_then(|object| object.remove("status"));
            PlacementQuota::read(object)
        });
        read.map_err(D::Error::custom)
    }
}

impl PlacementQuota {
    fn read(object: Value) -> Result<PlacementQuota, String> {
        let Fields { metadata, spec, status } = from_value::<Fields>(&object).map_err(|error| {
            let name = |field| object["metadata"][field].as_str().unwrap_or_default();
            format!("PlacementQuota {}/{}: {error}", name("namespace"), name("name"))
        })?;
        Ok(PlacementQuota { object, metadata, spec, status })
    }

    fn charge(&self, pod: &ChargedPod) -> Charge {
        let amounts = Amounts::from(match self.spec.charge {
            Measure::Largest => &pod.cost.largest,
            Measure::Average => &pod.cost.average,
        });
        Charge {
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            node: pod.node.clone(),
            reserved: false,
            amounts,
        }
    }

    /// The charges with that of a pod added or replaced.
    ///
    /// # Errors
    /// They exceed the quota, in a resource of which the pod would take more than before.
    fn charge_to(&self, pod: &ChargedPod) -> Result<Vec<Charge>, String> {
        let mut charge = self.charge(pod);
        let mut charges = self.status.charges.clone();
        let before = charges.iter().position(|other| other.uid == pod.uid).map(|at| charges.remove(at));
        charge.reserved = before.as_ref().is_none_or(|charge| charge.reserved);
        let before = before.map(|charge| charge.amounts).unwrap_or_default();
        let used = Amounts::sum(&charges).per_resource();
        let (requested, before) = (charge.amounts.per_resource(), before.per_resource());
        let (mut exceeding, mut taken, mut limits) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (resource, hard)) in self.spec.hard.per_resource().into_iter().enumerate() {
            let Some(hard) = hard else { continue };
            let (requested, used, before) = (requested[i].1, used[i].1, before[i].1);
            if requested > before && used.saturating_add(requested) > hard {
                let shown = |amount| format!("{resource}={}", with_unit(resource, amount));
                exceeding.push(shown(requested));
                taken.push(shown(used));
                limits.push(shown(hard));
            }
        }
        if !exceeding.is_empty() {
            return Err(format!(
                "exceeded placement quota: {}, requested: {}, used: {}, limited: {}",
                self.metadata.name,
                exceeding.join(","),
                taken.join(","),
                limits.join(",")
            ));
        }
        charges.push(charge);
        Ok(charges)
    }

    /// The quota without the charge of a pod that was allowed and not observed, if it has one.
    fn without(&self, pod: &ChargedPod) -> Option<PlacementQuota> {
        let mut charges = self.status.charges.clone();
        charges.retain(|charge| charge.uid != pod.uid || !charge.reserved);
        (charges != self.status.charges).then(|| self.with(charges))
    }

    fn with(&self, mut charges: Vec<Charge>) -> PlacementQuota {
        charges.sort_by(|a, b| (&a.pod, &a.uid).cmp(&(&b.pod, &b.uid)));
        let mut quota = self.clone();
        let hard = self.object["spec"]["hard"].clone();
        quota.object["status"] = serde_json::json!({
            "hard": hard, "used": Amounts::sum(&charges), "pods": charges.len(), "charges": charges,
        });
        quota.status = Status { charges };
        quota
    }
}
