//! A page for each problem.

use crate::remedy::Problem;

/// What the problem is, how to see it, and what to do about it, as Markdown.
pub fn page(problem: Problem) -> &'static str {
    match problem {
        Problem::NoScheduling => include_str!("../explanations/no-scheduling.md"),
        Problem::UnknownUsage => include_str!("../explanations/unknown-usage.md"),
        Problem::HiddenContention => include_str!("../explanations/hidden-contention.md"),
        Problem::Blocking => include_str!("../explanations/blocking.md"),
        Problem::OrderingConstraint => include_str!("../explanations/ordering-constraint.md"),
    }
}
