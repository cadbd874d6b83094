//! Pod disruption budgets.

use std::collections::BTreeMap;

use berth_api::object::{LabelSelector, StringMap};
use berth_rules::Selector;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{Condition, Object, matches};

pub(crate) type PodDisruptionBudget = Object<PodDisruptionBudgetSpec, PodDisruptionBudgetStatus>;

berth_api::object_types! {
    pub(crate) struct PodDisruptionBudgetSpec {
        pub(crate) selector: BudgetSelector,
        /// Number or percentage.
        pub(crate) min_available: Option<Value>,
        /// Number or percentage.
        pub(crate) max_unavailable: Option<Value>,
    }
}

/// The selector of a budget: an empty one selects every pod of the namespace, an absent one none.
#[derive(Clone, Debug)]
pub(crate) struct BudgetSelector(Selector);

impl Default for BudgetSelector {
    fn default() -> Self {
        BudgetSelector(Selector::Nothing)
    }
}

impl BudgetSelector {
    pub(crate) fn matches(&self, labels: &StringMap) -> bool {
        matches(&self.0, labels)
    }
}

impl<'de> Deserialize<'de> for BudgetSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = LabelSelector::deserialize(deserializer)?;
        Ok(BudgetSelector(Selector::parse(Some(&written)).unwrap_or(Selector::Nothing)))
    }
}

berth_api::object_types! {
    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct PodDisruptionBudgetStatus {
        pub(crate) observed_generation: i64,
        /// Pods with a granted eviction, and its time: they count as deleted before the deletion.
        pub(crate) disrupted_pods: BTreeMap<String, Timestamp>,
        pub(crate) disruptions_allowed: i32,
        pub(crate) current_healthy: i32,
        pub(crate) desired_healthy: i32,
        pub(crate) expected_pods: i32,
        pub(crate) conditions: Vec<Condition>,
    }
}
