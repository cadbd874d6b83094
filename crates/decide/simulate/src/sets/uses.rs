//! What Services and monitors use of the pods that they select: which pairs of them count a pod twice.

use std::collections::HashMap;

use berth_api::object::{MonitorEndpoint, ServicePort, ServiceSpec};
use berth_api::work::WorkBudget;
use serde::Serialize;
use serde_json::Value;

use super::{SelectorOwner, SelectorRole};

/// The selectors of which only one is to match a pod, in the order of reports.
pub(super) const EXCLUSIVE: [SelectorRole; 4] =
    [SelectorRole::Controller, SelectorRole::DisruptionBudget, SelectorRole::Service, SelectorRole::Monitor];

/// What a Service or a monitor uses of the pods that it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PodUse {
    /// Whether it is a headless Service.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub headless: bool,
    /// The ports of the pods; none if they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<UsedPort>,
}

/// A port of pods that a Service or a monitor uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct UsedPort {
    /// Its number or name, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The path that a monitor scrapes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Why two Services, or two monitors, that select the same pods do not count them twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NotCounted {
    /// One of the Services is headless: it balances no load.
    Headless,
    /// They use different ports or paths.
    OtherPorts,
}

impl PodUse {
    pub(super) fn of_service(service: &ServiceSpec) -> PodUse {
        let port = |port: &ServicePort| UsedPort {
            port: Some(target(port)),
            protocol: Some(if port.protocol.is_empty() { "TCP" } else { &port.protocol }.to_owned()),
            path: None,
        };
        PodUse { headless: service.is_headless(), ports: service.ports.iter().map(port).collect() }
    }

    pub(super) fn of_pod_monitor(endpoints: &[MonitorEndpoint]) -> PodUse {
        let port = |endpoint: &MonitorEndpoint| {
            let number = || text(&endpoint.port_number).or_else(|| text(&endpoint.target_port));
            scraped(endpoint, some(&endpoint.port).or_else(number))
        };
        PodUse { headless: false, ports: endpoints.iter().map(port).collect() }
    }

    /// A ServiceMonitor names the ports of the Service. None if the Service has none of these: nothing is scraped.
    pub(super) fn of_service_monitor(endpoints: &[MonitorEndpoint], service: &ServiceSpec) -> Option<PodUse> {
        let port = |endpoint: &MonitorEndpoint| match endpoint.port.as_str() {
            "" => Some(scraped(endpoint, text(&endpoint.target_port))),
            name => {
                let port = service.ports.iter().find(|port| port.name == name)?;
                Some(scraped(endpoint, Some(target(port))))
            }
        };
        let ports: Vec<_> = endpoints.iter().filter_map(port).collect();
        (!ports.is_empty() || endpoints.is_empty()).then_some(PodUse { headless: false, ports })
    }

    /// Why the pods that this and another one select are not counted twice. None if they are, or may be.
    fn not_counted_with(&self, other: &PodUse, budget: &WorkBudget) -> Option<NotCounted> {
        if self.headless || other.headless {
            return Some(NotCounted::Headless);
        }
        let is_known = !self.ports.is_empty() && !other.ports.is_empty();
        let is_compared = is_known && budget.spend(self.ports.len() * other.ports.len()).is_ok();
        let shares = |port: &UsedPort| other.ports.iter().any(|other| port.may_be(other));
        (is_compared && !self.ports.iter().any(shares)).then_some(NotCounted::OtherPorts)
    }
}

impl UsedPort {
    /// Whether it may be the same: the number of a named port is not known.
    fn may_be(&self, other: &UsedPort) -> bool {
        let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let may_be = match (&self.port, &other.port) {
            (Some(a), Some(b)) => a == b || is_number(a) != is_number(b),
            _ => true,
        };
        may_be && self.protocol == other.protocol && self.path == other.path
    }
}

fn scraped(endpoint: &MonitorEndpoint, port: Option<String>) -> UsedPort {
    let path = some(&endpoint.path).or_else(|| Some("/metrics".to_owned()));
    UsedPort { port, protocol: None, path }
}

/// The port of the pods.
fn target(port: &ServicePort) -> String {
    text(&port.target_port).unwrap_or_else(|| port.port.to_string())
}

/// A number or a name.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()).filter(|number| number != "0"),
        Value::String(text) => some(text),
        _ => None,
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The owners of a set with exclusive roles: for each of [`EXCLUSIVE`], those that use the same of the pods.
pub(super) struct ExclusiveOwners<'a>([Vec<SameUse<'a>>; EXCLUSIVE.len()]);

/// Owners of one set and role that use the same of its pods; at least one.
pub(super) struct SameUse<'a> {
    uses: &'a PodUse,
    owners: Vec<&'a SelectorOwner>,
}

impl<'a> ExclusiveOwners<'a> {
    pub(super) fn new(owners: &[&'a SelectorOwner]) -> ExclusiveOwners<'a> {
        let mut by_role = [const { Vec::new() }; EXCLUSIVE.len()];
        let mut positions: HashMap<(usize, &PodUse), usize> = HashMap::new();
        for &owner in owners {
            let Some(role) = EXCLUSIVE.iter().position(|role| *role == owner.role) else { continue };
            let of_role: &mut Vec<SameUse<'_>> = &mut by_role[role];
            let position = *positions.entry((role, &owner.uses)).or_insert_with(|| {
                of_role.push(SameUse { uses: &owner.uses, owners: Vec::new() });
                of_role.len() - 1
            });
            of_role[position].owners.push(owner);
        }
        ExclusiveOwners(by_role)
    }

    pub(super) fn of(&self, role: SelectorRole) -> &[SameUse<'a>] {
        let position = EXCLUSIVE.iter().position(|exclusive| *exclusive == role);
        position.map_or(&[], |position| &self.0[position])
    }
}

#[derive(Clone, Copy)]
pub(super) struct OwnerPairs<'a> {
    pub not_counted: Option<NotCounted>,
    pub n: usize,
    pub first: (&'a SelectorOwner, &'a SelectorOwner),
}

/// The pairs of owners of a set and of another one (`None`: of the set itself), at most one entry for each value of
/// `not_counted`. What is too much to compare counts.
pub(super) fn owner_pairs<'a>(
    set: &[SameUse<'a>],
    other: Option<&[SameUse<'a>]>,
    budget: &WorkBudget,
) -> Vec<OwnerPairs<'a>> {
    let mut found: Vec<OwnerPairs<'a>> = Vec::new();
    for (i, a) in set.iter().enumerate() {
        for (j, b) in other.unwrap_or(&set[i..]).iter().enumerate() {
            let is_same = other.is_none() && j == 0;
            let n = match is_same {
                true => a.owners.len() * (a.owners.len() - 1) / 2,
                false => a.owners.len() * b.owners.len(),
            };
            let Some(second) = b.owners.get(usize::from(is_same)) else { continue };
            let not_counted = match budget.spend(1) {
                Ok(()) => a.uses.not_counted_with(b.uses, budget),
                Err(_) => None,
            };
            match found.iter_mut().find(|pairs| pairs.not_counted == not_counted) {
                Some(pairs) => pairs.n += n,
                None => found.push(OwnerPairs { not_counted, n, first: (a.owners[0], second) }),
            }
        }
    }
    found
}

/// Whether two owners of the sets that some pods are in count these pods twice. What is too much to compare counts.
pub(super) fn is_selected_twice<'s, 'a: 's>(
    sets: impl Iterator<Item = &'s [SameUse<'a>]>,
    budget: &WorkBudget,
) -> bool {
    let all: Vec<&SameUse<'_>> = sets.flatten().collect();
    let counts = |a: &SameUse<'_>, b: &SameUse<'_>| {
        budget.spend(1).is_err() || a.uses.not_counted_with(b.uses, budget).is_none()
    };
    all.iter()
        .enumerate()
        .any(|(i, a)| (a.owners.len() > 1 && counts(a, a)) || all[..i].iter().any(|b| counts(a, b)))
}
