//! How many more replicas fit.

use std::io::{self, Write};

use berth_api::syntax::format::{counted, grouped};
use berth_rebalance::Move;
use berth_simulate::capacity::{Capacity, CapacityRequest, DeviceCapacity, NewNodes, Prevention};
use berth_terminal::output::{BAD, BOLD, DIM, GOOD, NL};
use berth_terminal::table::Table;

use super::explanation;
use super::placement::domain_name;

/// Number of domains with a row each.
const MAX_DOMAINS: usize = 20;
/// Number of moves that are listed.
const MAX_MOVES: usize = 20;
/// Number of models of devices with a row each.
const MAX_MODELS: usize = 20;

pub fn write(
    out: &mut impl Write,
    name: &str,
    capacity: &Capacity,
    request: &CapacityRequest,
) -> io::Result<()> {
    let Capacity {
        replicas,
        limited_by,
        by_domain,
        by_device,
        moves,
        running,
        n_unplaced_others,
        bottleneck,
        message,
        ..
    } = capacity;
    let style = if *replicas > 0 { GOOD } else { BAD };
    let fit = if *replicas == 1 { "fits" } else { "fit" };
    writeln!(
        out,
        "{BOLD}{name}{BOLD:#}: {style}{} {fit}{style:#} beyond the {} that run",
        counted(*replicas, "more replica"),
        grouped(*running),
    )?;
    if *n_unplaced_others > 0 {
        let are = if *n_unplaced_others == 1 { "is" } else { "are" };
        let others = counted(*n_unplaced_others, "pending pod");
        writeln!(out, "{DIM}{others} of other workloads {are} unschedulable{DIM:#}")?;
    }
    if !by_domain.is_empty() {
        writeln!(out)?;
        let mut table = Table::new([domain_name(&request.topology_key), "REPLICAS".to_owned()]);
        for (domain, n) in by_domain.iter().take(MAX_DOMAINS) {
            table.row([domain.into(), grouped(*n).into()]);
        }
        table.write(out, "")?;
        if by_domain.len() > MAX_DOMAINS {
            let more = &by_domain.values().skip(MAX_DOMAINS).sum::<usize>();
            let domains = grouped(by_domain.len() - MAX_DOMAINS);
            writeln!(out, "and {} in {domains} more domains", counted(*more, "replica"))?;
        }
    }
    write_devices(out, by_device)?;
    if !moves.is_empty() {
        writeln!(out, "{NL}after {}:", counted(moves.len(), "move"))?;
        for Move { namespace, name, from, to, .. } in moves.iter().take(MAX_MOVES) {
            writeln!(out, "  {namespace}/{name} from {from} to {to}")?;
        }
        if moves.len() > MAX_MOVES {
            writeln!(out, "  and {}", counted(moves.len() - MAX_MOVES, "more move"))?;
        }
    }
    if let Some(limit) = limited_by {
        writeln!(out, "{NL}The next replica is stopped by {BOLD}{limit}{BOLD:#}:{NL}  {message}")?;
    }
    if let Some(term) = bottleneck {
        writeln!(out, "  {DIM}bottleneck:{DIM:#}")?;
        explanation::write_term(out, term)?;
    }
    let Some(target) = &request.target else { return Ok(()) };
    let replicas = counted(target.n_replicas, "replica");
    match (capacity.nodes_needed, &capacity.new_nodes) {
        (Some(0), _) => writeln!(out, "{NL}{GOOD}{replicas} in total need no new node{GOOD:#}"),
        (Some(n_nodes), Some(NewNodes { like, topology_key, by_domain, price })) => {
            let need = if target.n_replicas == 1 { "needs" } else { "need" };
            let price = price.map(|price| format!(" (price {price})")).unwrap_or_default();
            writeln!(
                out,
                "{NL}{BOLD}{replicas} in total {need} {} like {like}{price}{BOLD:#}",
                counted(n_nodes, "new node")
            )?;
            let mut table = Table::new([domain_name(topology_key), "NEW NODES".to_owned()]);
            by_domain.iter().for_each(|(domain, n)| table.row([domain.into(), grouped(*n).into()]));
            table.write(out, "")
        }
        _ => {
            writeln!(out, "{NL}{BAD}No number of such nodes is enough for {replicas} in total{BAD:#}")?;
            let mut preventions = capacity.prevented_by.iter();
            preventions
                .try_for_each(|Prevention { like, message, .. }| writeln!(out, "  like {like}: {message}"))
        }
    }
}

/// The devices by model.
fn write_devices(out: &mut impl Write, by_device: &[DeviceCapacity]) -> io::Result<()> {
    if by_device.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(["DEVICES", "DRIVER", "PUBLISHED", "MORE CLAIMS", "FOR REPLICAS"]);
    for DeviceCapacity { model, n_for_replicas } in by_device.iter().take(MAX_MODELS) {
        let attributes = model.attributes.values().cloned();
        let amounts = model.capacity.iter().map(|(name, amount)| format!("{name} {amount}"));
        let name = attributes.chain(amounts).collect::<Vec<_>>().join(", ");
        let name = if name.is_empty() { "<none>".to_owned() } else { name };
        let numbers = [model.n_devices, model.n_claims, *n_for_replicas].map(grouped);
        table.row([name, model.driver.clone()].into_iter().chain(numbers).map(Into::into));
    }
    table.write(out, "")?;
    if by_device.len() > MAX_MODELS {
        writeln!(out, "and {}", counted(by_device.len() - MAX_MODELS, "more model"))?;
    }
    Ok(())
}
