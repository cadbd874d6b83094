//! How many more replicas fit.

use berth_api::syntax::format::{counted, grouped};
use berth_rebalance::Move;
use berth_simulate::capacity::{Capacity, CapacityRequest, DeviceCapacity, NewNodes, Prevention};

use super::{Report, Span, bad, dim, domain_name, good, line, rule, strong};

/// Number of domains, of models of devices and of moves with a row each.
const MAX_ROWS: usize = 20;

pub fn report(name: &str, capacity: &Capacity, request: &CapacityRequest) -> Report {
    let Capacity { replicas, limited_by, by_domain, by_device, moves, bottleneck, .. } = capacity;
    let mut report = Report { is_good: *replicas > 0, ..Report::default() };
    target(&mut report, capacity, request);
    report.verdict.push(more(capacity));
    report.verdict[0].insert(0, strong(format!("{name}: ")));
    if let n @ 1.. = capacity.n_unplaced_others {
        let are = if n == 1 { "is" } else { "are" };
        let others = format!("{} of other workloads {are} unschedulable", counted(n, "pending pod"));
        report.verdict.push(vec![dim(others)]);
    }
    let part = report.part("Replicas by domain");
    let row = |(domain, n): (&String, &usize)| line![domain, grouped(*n)];
    part.table(&[domain_name(&request.topology_key), "Replicas"], by_domain, MAX_ROWS, row);
    let part = report.part("Devices by model");
    let headings = ["Devices", "Driver", "Published", "More claims", "For replicas"];
    part.table(&headings, by_device, MAX_ROWS, |DeviceCapacity { model, n_for_replicas }| {
        let attributes = model.attributes.values().cloned();
        let amounts = model.capacity.iter().map(|(name, amount)| format!("{name} {amount}"));
        let name = attributes.chain(amounts).collect::<Vec<_>>().join(", ");
        let name = if name.is_empty() { "<none>".to_owned() } else { name };
        let numbers = [model.n_devices, model.n_claims, *n_for_replicas].map(grouped);
        [name, model.driver.clone()].into_iter().chain(numbers).map(Into::into).collect()
    });
    let part = report.part("Moves");
    if !moves.is_empty() {
        part.line(0, line![format!("after {}:", counted(moves.len(), "move"))]);
    }
    for Move { namespace, name, from, to, .. } in moves.iter().take(MAX_ROWS) {
        part.line(1, line![format!("{namespace}/{name} from {from} to {to}")]);
    }
    part.more(moves.len().saturating_sub(MAX_ROWS));
    let part = report.part("The next replica");
    if let Some(limit) = limited_by {
        part.line(0, line!["The next replica is stopped by ", strong(limit), ":"]);
        part.line(1, line![&capacity.message]);
    }
    if let Some(term) = bottleneck {
        part.line(1, [dim("bottleneck:")]);
        rule::add(part, 1, term);
    }
    report
}

/// How many more replicas fit.
fn more(Capacity { replicas, running, limited_by, .. }: &Capacity) -> Vec<Span> {
    let running =
        if *running > 0 { format!(" beyond the {} that run", grouped(*running)) } else { String::new() };
    match (replicas, limited_by) {
        (0, Some(limit)) => line![bad("no more replica fits"), format!("{running}: {limit} stops it")],
        (0, None) => line![bad("no more replica fits"), running],
        (1, _) => line![good("1 more replica fits"), running],
        (n, _) => line![good(format!("{} fit", counted(*n, "more replica"))), running],
    }
}

/// The nodes that are needed for a number of replicas.
fn target(report: &mut Report, capacity: &Capacity, request: &CapacityRequest) {
    let Some(target) = &request.target else { return };
    let replicas = counted(target.n_replicas, "replica");
    let verdict = match (capacity.nodes_needed, &capacity.new_nodes) {
        (Some(0), _) => good(format!("{replicas} in total need no new node")),
        (Some(n_nodes), Some(NewNodes { like, topology_key, by_domain, price })) => {
            let row = |(domain, n): (&String, &usize)| line![domain, grouped(*n)];
            let headings = [domain_name(topology_key), "New nodes"];
            report.part("New nodes by domain").table(&headings, by_domain, usize::MAX, row);
            let need = if target.n_replicas == 1 { "needs" } else { "need" };
            let price = price.map(|price| format!(" (price {price})")).unwrap_or_default();
            let nodes = counted(n_nodes, "new node");
            strong(format!("{replicas} in total {need} {nodes} like {like}{price}"))
        }
        _ => {
            let part = report.part("Why no number of nodes is enough");
            for Prevention { like, message, .. } in &capacity.prevented_by {
                part.line(0, line![format!("like {like}: {message}")]);
            }
            bad(format!("no number of such nodes is enough for {replicas} in total"))
        }
    };
    report.is_good = capacity.nodes_needed.is_some();
    report.verdict.push(vec![verdict]);
}
