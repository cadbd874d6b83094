//! The ledger: the state of the limiter in a ConfigMap, so that a restart never resets the limits.
//!
//! An eviction is sent only after it was written to the ledger. If the enforcer is killed in between, the ledger already
//! counts the evictions that it was about to send.

use crate::limiter::LimiterState;

/// The ledger as the API server has it.
pub(crate) type Ledger = berth_client::ledger::Ledger<LimiterState>;

/// Says in the ConfigMap what it is for.
pub(crate) const DESCRIPTION: &str = "Evictions that the limits of Berth's enforcer count. To reset the limits, stop the \
                                      enforcer and delete this ConfigMap.";
