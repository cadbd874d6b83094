//! Annotations and fields of nodes, as far as rules mention them.
//!
//! A node keeps them among its labels, under keys that no label has ([`berth_rules::node_attributes`]). Unless the
//! settings ask for all, it keeps only what a rule mentions. Nodes that were set before a rule mentioned an attribute do
//! not have it: until such a node is set again, conditions on the attribute are unknown there. They do not match, and they
//! break no rule of a running pod.

use std::borrow::Cow;

use berth_api::object::Node;
use berth_rules::{node_attribute, node_attributes};
use rustc_hash::FxHashMap;

use crate::state::State;
use crate::state::interned::intern::{Labels, Symbol};
use crate::state::rule_set::RuleSet;

#[derive(Clone, Default)]
pub(crate) struct MentionedAttributes {
    mentioned: FxHashMap<Symbol, Mention>,
    /// Counts the times that rules mentioned an attribute that none mentioned before.
    pub(crate) epoch: u32,
}

#[derive(Clone)]
struct Mention {
    n_users: u32,
    /// Nodes that were set in this epoch or later have the attribute.
    since: u32,
}

impl MentionedAttributes {
    pub(crate) fn len(&self) -> usize {
        self.mentioned.len()
    }
}

impl State {
    /// The annotations and fields of a node that the state keeps, by key.
    pub(crate) fn attributes_to_keep<'a>(&self, node: &'a Node) -> Vec<(Cow<'static, str>, &'a str)> {
        if self.settings.all_node_attributes {
            return node_attributes(node).collect();
        }
        let keys = self.attributes.mentioned.keys().map(|key| self.symbols.text(*key));
        let kept = keys.filter_map(|key| Some((Cow::from(key.to_owned()), node_attribute(node, key)?)));
        let mut kept: Vec<_> = kept.collect();
        kept.sort_unstable();
        kept
    }

    /// The labels of a node, with its annotations and fields.
    pub(in crate::state) fn labels_of_node(&mut self, node: &Node) -> Labels {
        let attributes = self.attributes_to_keep(node);
        let labels = node.metadata.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let attributes = attributes.iter().map(|(key, value)| (&**key, *value));
        Labels::intern(&mut self.symbols, labels.chain(attributes))
    }

    pub(in crate::state) fn mention_attributes(&mut self, rule_set: &mut RuleSet) {
        if self.settings.all_node_attributes {
            return;
        }
        let attributes = &mut self.attributes;
        for (key, since) in rule_set.attributes_mut() {
            let mention = attributes.mentioned.entry(key).or_insert_with(|| {
                attributes.epoch += 1;
                Mention { n_users: 0, since: attributes.epoch }
            });
            mention.n_users += 1;
            *since = mention.since;
        }
    }

    /// A removed rule set mentions them no longer; nodes drop what no other rule mentions.
    pub(in crate::state) fn unmention_attributes(&mut self, rule_set: &mut RuleSet) {
        for (key, _) in rule_set.attributes_mut() {
            let Some(mention) = self.attributes.mentioned.get_mut(&key) else { continue };
            mention.n_users -= 1;
            if mention.n_users == 0 {
                self.attributes.mentioned.remove(&key);
                for record in self.nodes.iter_mut() {
                    if let Some(value) = record.labels.get(key) {
                        record.labels = record.labels.restricted(|other| other != key);
                        self.symbols.release_all([key, value]);
                    }
                }
            }
        }
    }
}
