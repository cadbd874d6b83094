//! How nodes are used.

use berth_api::object::Node;

use crate::threshold::Threshold;

/// CPU in milli-CPU and memory in bytes.
pub(crate) type Amounts = [i64; 2];

#[derive(Clone)]
pub(crate) struct NodeUse {
    pub(crate) allocatable: Amounts,
    /// Requested by all its pods.
    pub(crate) requested: Amounts,
    /// Requested by those that belong to the node.
    pub(crate) of_daemons: Amounts,
    /// Pods that do not belong to the node.
    pub(crate) n_pods: usize,
    pub(crate) price: i64,
}

/// All nodes, by position.
pub(crate) struct NodeUses {
    pub(crate) of: Vec<NodeUse>,
    threshold: Threshold,
    /// The sum of the prices of nodes with pods that do not belong to them.
    pub(crate) price: i64,
    /// Nodes above the threshold.
    pub(crate) n_hot: i64,
}

impl NodeUses {
    pub(crate) fn new<'a>(
        nodes: impl Iterator<Item = (Option<&'a Node>, Amounts)>,
        threshold: Threshold,
        price_label: Option<&str>,
    ) -> NodeUses {
        let one = |(node, requested): (Option<&Node>, Amounts)| {
            let offered = node.and_then(|node| node.status.allocatable.as_ref());
            let amount = |name: &str| offered.and_then(|list| list.get(name));
            let labelled = price_label.and_then(|key| node?.metadata.label(key)?.parse::<f64>().ok());
            let price = match price_label {
                // In thousandths: sums are exact.
                Some(_) => labelled.map_or(0, |price| (price * 1000.0).round() as i64),
                None => 1,
            };
            let cpu = amount("cpu").map_or(0, |cpu| cpu.millis());
            let memory = amount("memory").map_or(0, |memory| memory.units());
            NodeUse { allocatable: [cpu, memory], requested, of_daemons: [0, 0], n_pods: 0, price }
        };
        let of: Vec<NodeUse> = nodes.map(one).collect();
        let n_hot = of.iter().filter(|node| node.is_above(threshold)).count() as i64;
        NodeUses { of, threshold, price: 0, n_hot }
    }

    /// A pod comes (1) or goes (-1).
    pub(crate) fn count(&mut self, node: usize, requests: Amounts, is_of_node: bool, sign: i64) {
        let node_use = &mut self.of[node];
        let was_hot = node_use.is_above(self.threshold);
        add(&mut node_use.requested, requests, sign);
        self.n_hot += i64::from(node_use.is_above(self.threshold)) - i64::from(was_hot);
        self.note(node, requests, is_of_node, sign);
    }

    /// A pod whose requests are counted already is there (1) or not (-1).
    pub(crate) fn note(&mut self, node: usize, requests: Amounts, is_of_node: bool, sign: i64) {
        let node_use = &mut self.of[node];
        if is_of_node {
            add(&mut node_use.of_daemons, requests, sign);
            return;
        }
        let was_used = node_use.n_pods > 0;
        node_use.n_pods = node_use.n_pods.saturating_add_signed(sign as isize);
        self.price += (i64::from(node_use.n_pods > 0) - i64::from(was_used)) * node_use.price;
    }

    pub(crate) fn is_hot(&self, node: usize) -> bool {
        self.of[node].is_above(self.threshold)
    }

    /// The index of the resource of which the pods request the greatest share of what the nodes offer.
    pub(crate) fn scarcest(&self) -> usize {
        let total = |of: fn(&NodeUse) -> Amounts, i: usize| -> i128 {
            self.of.iter().map(|node| i128::from(of(node)[i])).sum()
        };
        let requested = |i| total(|node| node.requested, i);
        let offered = |i| total(|node| node.allocatable, i);
        usize::from(requested(1) * offered(0) > requested(0) * offered(1))
    }

    pub(crate) fn would_be_hot(&self, node: &NodeUse) -> bool {
        node.is_above(self.threshold)
    }

    /// The lowest sum of prices of nodes that could hold all pods, by the amounts of the scarcest resource alone. Nodes with pods that
    /// stay are paid in any case.
    pub(crate) fn bound(&self, is_kept: impl Fn(usize) -> bool) -> i64 {
        let i = self.scarcest();
        // A node that has promised too much keeps what it has.
        let offer = |node: &NodeUse| {
            let most = node.allocatable[i].max(node.requested[i]);
            (i128::from(most - node.of_daemons[i]), i128::from(node.price))
        };
        let mut missing: i128 =
            self.of.iter().map(|node| i128::from(node.requested[i] - node.of_daemons[i])).sum();
        let (mut offers, mut sum) = (Vec::new(), 0);
        for (at, node) in self.of.iter().enumerate() {
            let (amount, price) = offer(node);
            if is_kept(at) {
                (missing, sum) = (missing - amount, sum + price);
            } else if amount > 0 {
                offers.push((amount, price));
            }
        }
        // What buys most comes first, and of the last node only the share that is needed is paid: no whole nodes cost less.
        offers.sort_by(|(a, x), (b, y)| (x * b).cmp(&(y * a)));
        for (amount, price) in offers {
            if missing <= 0 {
                break;
            }
            sum += if amount > missing { (price * missing + amount - 1) / amount } else { price };
            missing -= amount;
        }
        i64::try_from(sum).unwrap_or(i64::MAX)
    }
}

fn add(amounts: &mut Amounts, more: Amounts, sign: i64) {
    amounts.iter_mut().zip(more).for_each(|(amount, more)| *amount += sign * more);
}

impl NodeUse {
    fn is_above(&self, threshold: Threshold) -> bool {
        let percentages = [threshold.cpu, threshold.memory];
        (0..2).any(|i| {
            let allowed = i128::from(self.allocatable[i]) * i128::from(percentages[i]);
            i128::from(self.requested[i]) * 100 > allowed
        })
    }

    /// What is not requested.
    pub(crate) fn free(&self, i: usize) -> i64 {
        self.allocatable[i] - self.requested[i]
    }
}
