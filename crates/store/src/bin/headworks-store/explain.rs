//! Why an application gets what it gets, and behind whom its requests waited.

use crate::show;
use anyhow::{Result, bail};
use headworks_store::control::{AppStatus, SlowRequest, Status};
use headworks_store::governor::Fares;
use std::fmt::Write as _;

/// `explain`.
pub fn text(status: &Status, slow: &[SlowRequest], name: Option<&str>) -> Result<String> {
    let wanted = |app: &&AppStatus| match name {
        Some(name) => app.name == name,
        None => app.goal != "best effort",
    };
    let apps: Vec<&AppStatus> = status.applications.iter().filter(wanted).collect();
    if apps.is_empty() {
        match name {
            Some(name) => bail!(
                "there is no application `{name}`\n  see which there are: headworks store status"
            ),
            None => {
                return Ok(
                    "no application has a target: all share the store by weight\n".to_owned()
                );
            }
        }
    }
    let mut text = String::new();
    for app in apps {
        one(&mut text, status, app);
        behind(&mut text, app, slow);
    }
    Ok(text)
}

fn one(text: &mut String, status: &Status, app: &AppStatus) {
    let last = &app.last;
    let _ =
        writeln!(text, "{} on volume {}: {}, {}", app.name, app.volume, app.goal, show::fares(app));
    if app.need > 0.0 {
        needs(text, app);
    }
    let _ = writeln!(
        text,
        "  asks for {:.1} %, is granted {:.1} % (limit {:.0} %), used {:.1} % in the last second",
        100.0 * last.ask,
        100.0 * app.share,
        100.0 * app.limit,
        100.0 * last.used
    );
    let sated = matches!(app.fares, Fares::Sated { .. });
    let held = match (last.demand, last.lent, last.held) {
        (false, ..) => "it asks for nothing",
        _ if sated => {
            "all that is asked of it is served: it is answered as fast as when its target was met"
        }
        (_, true, _) => "most of that was lent: no other waited",
        (_, _, true) => "it waits mostly for its share",
        _ => {
            "it waits mostly for the device: a larger share would not help, fewer requests of others might"
        }
    };
    let _ = writeln!(text, "  {held}");
    if app.promise < 0.98 {
        let mut others: Vec<&AppStatus> =
            status.applications.iter().filter(|other| other.name != app.name).collect();
        others.sort_by(|a, b| b.share.total_cmp(&a.share));
        let rest = others
            .iter()
            .take(3)
            .map(|other| format!("{} {:.0} %", other.name, 100.0 * other.share));
        let rest: Vec<String> = rest.collect();
        let _ = writeln!(text, "  the store has not more: {}", rest.join(", "));
    }
}

/// The need, as exactly as it is known.
fn needs(text: &mut String, app: &AppStatus) {
    // A share from dft alone is within ± this with 90 % confidence.
    let bound = 1.645 * app.need_error;
    // The error falls by the root of the windows; σ of 5 s windows is its long-run deviation.
    let sigma5 = app.need_error * (app.need_windows.max(1) as f64 / 5.0).sqrt();
    let need = match app.need {
        need if need > 1.0 => "more than the whole store".to_owned(),
        need if bound > 0.5 => format!("about {:.0} % of the store, roughly", 100.0 * need),
        need => format!("{:.1} % ± {:.1} of the store", 100.0 * need, 100.0 * need * bound),
    };
    let _ = writeln!(
        text,
        "  needs {need}, learned from {} windows, {} changes seen",
        app.need_windows, app.changes
    );
    let _ = if app.need > 1.0 {
        writeln!(
            text,
            "  is its target right, and what is posted? It has that little for what it gets"
        )
    } else if sigma5 > 0.3 {
        writeln!(
            text,
            "  what it achieves changes by {:.0} % from 5 s to 5 s: too much to know a need well",
            100.0 * sigma5.min(9.99)
        )
    } else {
        writeln!(
            text,
            "  σ of 5 s is {:.0} %: a need is known to ± 5 % after about {:.0} s",
            100.0 * sigma5,
            (37.0 * (sigma5 / 0.05).powi(2)).max(3.0)
        )
    };
}

fn behind(text: &mut String, app: &AppStatus, slow: &[SlowRequest]) {
    let own: Vec<&SlowRequest> = slow.iter().filter(|slow| slow.application == app.name).collect();
    if own.is_empty() {
        let _ = writeln!(text, "  no request of it waited for 20 ms and more lately");
        return;
    }
    let _ = writeln!(text, "  requests that waited for 20 ms and more, the latest first:");
    for slow in own.iter().rev().take(5) {
        let whom = match &slow.behind {
            Some((name, part)) => format!("behind {name}, which had {:.0} %", 100.0 * part),
            None => "behind its own requests".to_owned(),
        };
        let _ = writeln!(
            text,
            "    {:.1} s ago: a {} of {} KiB, {:.1} ms, {whom}",
            slow.ago_s,
            slow.operation,
            slow.bytes >> 10,
            slow.waited_ms
        );
    }
}
