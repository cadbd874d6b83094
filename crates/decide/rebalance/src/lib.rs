//! Rebalancing: a finite list of moves of running pods that lowers what the chosen goals measure.
//!
//! [`plan`] gets a copy of a cluster, its pods, goals in their order and what may move, and returns moves that can be carried out one
//! after the other: each is admitted by all filters at its time, breaks no required rule of another pod that held before, and is
//! allowed by the disruption budgets. [`next_step`] checks the rest of a plan of which a part is carried out. The values of the goals, compared in their order, are lower after the plan than before
//! it, and a plan for its result is empty.
//!
//! - **Exactness:** where the states that moves can reach are few, all are looked at: the plan then reaches the best values that any
//!   legal order of moves reaches, with the fewest moves ([`Plan::is_exhaustive`]). Otherwise the plan is a good one, and
//!   [`Plan::bounds`] says below what no plan can come.
//! - **Errors:** there are none. This crate has no clock and does no I/O.

mod board;
mod bounds;
mod budgets;
pub mod descheduler;
mod exhaustive;
mod fixed;
mod goal;
mod improve;
mod movable;
mod next_step;
mod nodes;
mod plan;
mod request;
mod threshold;
mod tidy;
mod waiting;

pub use berth_control::budget::Scales;
pub use goal::{Goal, UnknownGoal};
pub use movable::Movable;
pub use next_step::{NextStep, Obstacle, next_step};
pub use plan::{Immovable, Move, Placed, Plan, plan};
pub use request::{Input, Pending, Request, RunningPod};
pub use threshold::{InvalidThreshold, Threshold};
