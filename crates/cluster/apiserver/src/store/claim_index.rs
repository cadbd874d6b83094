//! Which object has which of the values that at most one object may have.

use std::collections::HashMap;

use super::claim::Claim;
use super::facts::Facts;

/// The holders of the claims in a collection, by namespace and name.
#[derive(Debug, Default)]
pub struct ClaimIndex(HashMap<Claim, (Box<str>, Box<str>)>);

impl ClaimIndex {
    /// Records the claims of an object. Of several imported objects with a claim, the last one holds it.
    pub fn hold(&mut self, facts: &Facts) {
        for claim in &facts.claims {
            self.0.insert(*claim, (facts.namespace().into(), facts.name().into()));
        }
    }

    pub fn release(&mut self, facts: &Facts) {
        for claim in &facts.claims {
            let holder = self.0.get(claim);
            if holder.is_some_and(|holder| (&*holder.0, &*holder.1) == (facts.namespace(), facts.name())) {
                self.0.remove(claim);
            }
        }
    }

    pub fn is_held(&self, claim: &Claim) -> bool {
        self.0.contains_key(claim)
    }
}
