//! How fast replicas may change: stabilization windows and policies, as in kube-controller-manager.

use std::sync::LazyLock;

use berth_api::fenceposts::clamp;
use jiff::{SignedDuration, Timestamp};

use crate::view::{Behavior, HorizontalPodAutoscaler, ScalingPolicy, ScalingRules};

/// Until replicas that are not needed any more are removed.
const SCALE_DOWN_STABILIZATION: i32 = 300;

/// The policies of rules without any: up to twice as many, or four more; down to any number.
static DEFAULT_UP: LazyLock<[ScalingPolicy; 2]> =
    LazyLock::new(|| [policy("Pods", 4), policy("Percent", 100)]);
static DEFAULT_DOWN: LazyLock<[ScalingPolicy; 1]> = LazyLock::new(|| [policy("Percent", 100)]);

fn policy(kind: &str, value: i32) -> ScalingPolicy {
    ScalingPolicy { kind: kind.to_owned(), value, period_seconds: 15 }
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    recommendations: Vec<(Timestamp, i32)>,
    /// Replicas added (positive) and removed.
    changes: Vec<(Timestamp, i32)>,
}

/// A number of replicas, with the reasons and messages of the conditions `AbleToScale` and `ScalingLimited`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) replicas: i32,
    pub(super) able: (&'static str, &'static str),
    pub(super) limited: Option<(&'static str, &'static str)>,
}

impl History {
    /// A workload that is first seen is not scaled down before its window has passed.
    pub(super) fn starting_with(replicas: i32, now: Timestamp) -> History {
        History { recommendations: vec![(now, replicas)], changes: Vec::new() }
    }

    /// Notes that the replicas were changed.
    pub(super) fn changed(&mut self, before: i32, after: i32, now: Timestamp) {
        self.changes.push((now, after.saturating_sub(before)));
    }

    /// Limits what the metrics ask for.
    pub(super) fn decide(
        &mut self,
        autoscaler: &HorizontalPodAutoscaler,
        current: i32,
        wanted: i32,
        now: Timestamp,
    ) -> Decision {
        let Behavior { scale_up, scale_down } = &autoscaler.spec.behavior;
        let (stable, able) = self.stabilized((scale_up, scale_down), current, wanted, now);
        self.forget((scale_up, scale_down), now);
        let (replicas, limited) = self.limited(autoscaler, current, stable, now);
        Decision { replicas, able, limited }
    }

    fn stabilized(
        &mut self,
        (scale_up, scale_down): (&ScalingRules, &ScalingRules),
        current: i32,
        wanted: i32,
        now: Timestamp,
    ) -> (i32, (&'static str, &'static str)) {
        let (mut up, mut down) = (wanted, wanted);
        for (at, recommended) in &self.recommendations {
            let is_in = |window: i32| now.duration_since(*at) < SignedDuration::from_secs(i64::from(window));
            if is_in(scale_up.window(0)) {
                up = up.min(*recommended);
            }
            if is_in(scale_down.window(SCALE_DOWN_STABILIZATION)) {
                down = down.max(*recommended);
            }
        }
        self.recommendations.push((now, wanted));
        let stable = current.max(up).min(down);
        let able = match stable.cmp(&wanted) {
            std::cmp::Ordering::Equal => ("ReadyForNewScale", "recommended size matches current size"),
            std::cmp::Ordering::Greater => (
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent recommendation",
            ),
            std::cmp::Ordering::Less => (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent recommendation",
            ),
        };
        (stable, able)
    }

    /// Forgets what is older than each window and period.
    fn forget(&mut self, (scale_up, scale_down): (&ScalingRules, &ScalingRules), now: Timestamp) {
        let windows = [scale_up.window(0), scale_down.window(SCALE_DOWN_STABILIZATION)];
        let policies = scale_up.policies(&*DEFAULT_UP).iter().chain(scale_down.policies(&*DEFAULT_DOWN));
        let periods = policies.map(|policy| policy.period_seconds);
        let keep = |at: Timestamp, longest: i32| {
            now.duration_since(at) <= SignedDuration::from_secs(i64::from(longest))
        };
        let (window, period) = (windows.into_iter().max().unwrap_or(0), periods.max().unwrap_or(0));
        self.recommendations.retain(|(at, _)| keep(*at, window));
        self.changes.retain(|(at, _)| keep(*at, period));
    }

    fn limited(
        &self,
        autoscaler: &HorizontalPodAutoscaler,
        current: i32,
        wanted: i32,
        now: Timestamp,
    ) -> (i32, Option<(&'static str, &'static str)>) {
        let Behavior { scale_up, scale_down } = &autoscaler.spec.behavior;
        let (least, most) = (autoscaler.min_replicas(), autoscaler.spec.max_replicas);
        if wanted > current {
            let limit = self.limit(scale_up, &*DEFAULT_UP, 1, current, now).max(current);
            let reason = if limit < most {
                ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
            } else {
                ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
            };
            let limit = limit.min(most);
            return if wanted > limit { (limit, Some(reason)) } else { (wanted, None) };
        }
        let limit = self.limit(scale_down, &*DEFAULT_DOWN, -1, current, now).min(current);
        let reason = if limit > least {
            ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
        } else {
            ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
        };
        let limit = limit.max(least);
        if wanted < limit {
            (limit, Some(reason))
        } else if wanted > most {
            (
                most,
                Some(("TooManyReplicas", "the desired replica count is more than the maximum replica count")),
            )
        } else {
            (wanted, None)
        }
    }

    /// How far policies let the replicas rise (`sign` 1) or fall (-1).
    fn limit(
        &self,
        rules: &ScalingRules,
        default: &'static [ScalingPolicy],
        sign: i32,
        current: i32,
        now: Timestamp,
    ) -> i32 {
        let select = rules.select_policy.as_deref().unwrap_or("Max");
        if select == "Disabled" {
            return current;
        }
        let reach = rules.policies(default).iter().map(|policy| {
            let period = SignedDuration::from_secs(i64::from(policy.period_seconds));
            let recent = self.changes.iter().filter(|(at, _)| now.duration_since(*at) < period);
            let at_start = i64::from(current) - recent.map(|(_, change)| i64::from(*change)).sum::<i64>();
            let step = match &*policy.kind {
                "Percent" if sign > 0 => (at_start * i64::from(policy.value) + 99) / 100,
                "Percent" => at_start - at_start * (100 - i64::from(policy.value)).max(0) / 100,
                _ => i64::from(policy.value),
            };
            // From the current number, so that both directions compare alike.
            (at_start - i64::from(current)) * i64::from(sign) + step
        });
        let reach = if select == "Min" { reach.min() } else { reach.max() };
        clamp(i64::from(current) + i64::from(sign) * reach.unwrap_or(0))
    }
}

impl ScalingRules {
    fn window(&self, default: i32) -> i32 {
        self.stabilization_window_seconds.unwrap_or(default)
    }

    fn policies<'a>(&'a self, default: &'a [ScalingPolicy]) -> &'a [ScalingPolicy] {
        if self.policies.is_empty() { default } else { &self.policies }
    }
}
