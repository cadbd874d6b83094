//! What compiled rules use.

use crate::state::counting::matcher::{ExistingTermKind, MatcherId};
use crate::state::counting::topology::TopologyId;

/// An interned value that compiled rules use, once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Topology(TopologyId),
    Matcher(MatcherId),
    /// A matcher's counter of matching pods; besides the matcher.
    Matching(MatcherId, TopologyId),
    /// A matcher's counter of owners of a kind of term; besides the matcher.
    Owners(MatcherId, TopologyId, ExistingTermKind),
}
