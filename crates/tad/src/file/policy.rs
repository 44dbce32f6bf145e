//! The policy of a queue, and that of a scenario.

use super::error::{Report, suggest};
use super::section::Section;
use crate::model::Policy;

/// `policy = "drf"`
pub(super) fn read_policy(section: &mut Section, report: &mut Report) -> Option<Policy> {
    let text = section.text(report, "policy")?;
    let policy = Policy::from_name(&text.text);
    if policy.is_none() {
        report.error(
            &text.at,
            format!("there is no policy \"{}\"", text.text),
            suggest(&text.text, Policy::NAMES.map(|(_, name)| name)),
        );
    }
    policy
}
