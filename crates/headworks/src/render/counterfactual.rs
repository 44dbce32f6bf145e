//! What enforcing would have changed, after a dry run.

use super::{Column, Ink, Table, count, duration, maybe_duration, printable};
use crate::status::{Counterfactual, Status};

pub(super) fn text(it: &Counterfactual, status: &Status, width: usize, ink: Ink) -> String {
    if it.turns == 0 {
        return "  no turn to replay yet\n".to_owned();
    }
    let summary = format!(
        "  {} turns of {} replayed with P = {}: {:.1} % of them would have waited. Times are of whole turns.\n",
        count(it.turns),
        duration(it.span_s * 1e3),
        status.parallelism,
        it.held_share * 100.0
    );
    let mut table = Table::new(&[
        Column::left("CLASS"),
        Column::right("TURNS"),
        Column::right("P50"),
        Column::right("-> GATED"),
        Column::right("P95"),
        Column::right("-> GATED"),
        Column::right("P99"),
        Column::right("-> GATED"),
        Column::right("SHARE"),
        Column::right("-> GATED"),
        Column::right("WAIT P95"),
    ]);
    for class in &it.classes {
        let (was, gated) = (&class.observed, &class.gated);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        table.row(vec![
            printable(&class.name),
            count(class.turns),
            maybe_duration(was.p50_ms),
            maybe_duration(gated.p50_ms),
            maybe_duration(was.p95_ms),
            maybe_duration(gated.p95_ms),
            maybe_duration(was.p99_ms),
            maybe_duration(gated.p99_ms),
            percent(class.observed_requests_share),
            percent(class.gated_requests_share),
            maybe_duration(class.gated_wait.p95_ms),
        ]);
    }
    summary + &table.render(width, ink)
}
