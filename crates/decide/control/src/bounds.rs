//! The limits of a rolling update.

use berth_api::fenceposts::{Round, fenceposts, scaled};
use serde_json::Value;

/// The surge and unavailability limits of a rolling update, in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Pods beyond the desired number.
    pub max_surge: i32,
    /// Pods that may be unavailable.
    pub max_unavailable: i32,
}

impl Bounds {
    /// `strategy.rollingUpdate` of a Deployment.
    pub fn of_deployment(
        max_surge: Option<&Value>,
        max_unavailable: Option<&Value>,
        replicas: i32,
    ) -> Bounds {
        let (max_surge, max_unavailable) = fenceposts(max_surge, max_unavailable, replicas);
        let max_unavailable = if replicas == 0 { 0 } else { max_unavailable.min(replicas) };
        Bounds { max_surge, max_unavailable }
    }

    /// `updateStrategy.rollingUpdate` of a DaemonSet that wants pods on `desired` nodes.
    pub fn of_daemon_set(max_surge: Option<&Value>, max_unavailable: Option<&Value>, desired: i32) -> Bounds {
        let resolve = |value: Option<&Value>, default| {
            value.and_then(|value| scaled(value, desired, Round::Up)).unwrap_or(default).max(0)
        };
        let (max_surge, max_unavailable) = (resolve(max_surge, 0), resolve(max_unavailable, 1));
        let max_unavailable = if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable };
        Bounds { max_surge, max_unavailable }
    }
}
