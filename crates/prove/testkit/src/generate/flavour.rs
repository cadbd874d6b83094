//! Which rules are generated.

/// Which rules the generated pods have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Only rules of kube-scheduler.
    V1,
    /// Also the proposals' fields: in the spec, in the annotation, and `Gt`/`Lt` in pod terms.
    Extensions,
    /// Rules of kube-scheduler, fewer between pods, and volumes.
    Volumes,
}
