//! What compiled rules use.

use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::TopologyId;

/// An interned value that compiled rules use, once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Topology(TopologyId),
    Matcher(MatcherId),
    /// A matcher's counter of matching pods; besides the matcher.
    Matching(MatcherId, TopologyId),
    /// A matcher's counters of term owners; besides the matcher.
    Owners(MatcherId, TopologyId),
    /// A matcher's counter of owners of anti-affinity with a limit; besides the matcher.
    LimitedOwners(MatcherId, TopologyId, u32),
}
