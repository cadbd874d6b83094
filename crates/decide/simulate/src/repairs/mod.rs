//! Repairs: changes after which an unschedulable pod fits.
//!
//! Each kind of change has a file. It looks for the cheapest change of its kind, applies it to the state of the
//! cluster, asks the engine, and undoes it. What is returned has been verified in this way: the pod fits, every moved
//! pod fits where it goes, and no rule required during execution is broken that holds now.
//!
//! Repairs are sorted by what they reach, then by whether all pods of the workload fit, then by their cost. Costs rank the kinds by what they disturb: fields of a node cost 1 each (2 where a label is lost), a replica more of
//! another workload 5, a moved pod 10, less of a requested resource 15, a relaxed rule 20, a node 100.

mod add_node;
mod all_pods;
mod change;
mod changed_object;
mod commands;
mod core;
mod device_class;
mod find;
mod groups;
mod made;
mod moves;
mod node;
mod pairs;
mod patch;
mod policies;
mod requests;
mod rollout;
mod rules;
mod scale;
mod trial;

pub use self::change::{Change, FittingPods, Reach, Repair};
pub use self::changed_object::has_rollouts;
pub use self::core::CoreTerm;
pub(crate) use self::core::unsatisfiable_core;
pub(crate) use self::requests::EXPLAIN_STEPS;
pub(crate) use self::rollout::rollout_repairs;
