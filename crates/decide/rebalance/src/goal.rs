//! What a plan is to improve.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A goal. Its value is a number that is better the lower it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    /// The number of pods that the filters would reject where they are. Spread constraints, resources, volumes and devices do not
    /// count.
    Required,
    /// The number of pending pods that cannot be placed.
    Defragment,
    /// The skew above `maxSkew`, summed over the distinct spread constraints of running pods, hard and soft.
    Spread,
    /// The weights of preferred node affinity, pod affinity and anti-affinity of running pods that are not met.
    Preferences,
    /// The number of nodes with pods that do not belong to the node, or the sum of their prices.
    Consolidate,
    /// The number of nodes whose pods request more than a share of what they offer.
    Balance,
}

impl Goal {
    pub const ALL: [Goal; 6] =
        [Goal::Required, Goal::Defragment, Goal::Spread, Goal::Preferences, Goal::Consolidate, Goal::Balance];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Required => "required",
            Goal::Defragment => "defragment",
            Goal::Spread => "spread",
            Goal::Preferences => "preferences",
            Goal::Consolidate => "consolidate",
            Goal::Balance => "balance",
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownGoal(String);

impl fmt::Display for UnknownGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Goal::ALL.map(Goal::name).join(", ");
        write!(f, "`{}` is no goal: use one of {names}", self.0)
    }
}

impl std::error::Error for UnknownGoal {}

impl FromStr for Goal {
    type Err = UnknownGoal;

    fn from_str(text: &str) -> Result<Goal, UnknownGoal> {
        let goal = Goal::ALL.into_iter().find(|goal| goal.name() == text);
        goal.ok_or_else(|| UnknownGoal(text.to_owned()))
    }
}
