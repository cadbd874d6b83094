//! Simulated nodes: heartbeats, node admission, and pods that become Running, Ready and, as Jobs do, end.
//!
//! They talk to whatever API server they are given, over HTTP, as the node's own identity. No container is ever run.
