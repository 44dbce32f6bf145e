//! What shares a configuration's targets would get.

use anyhow::{Context, Result, anyhow, bail};
use headworks_console::{Column, Ink, Table, terminal_width};
use headworks_store::apps::{About, Apps, Goal};
use headworks_store::config::Config;
use headworks_store::control::Status;
use headworks_store::governor;
use headworks_store::number::Number;
use std::collections::BTreeMap;

/// The table.
pub fn text(config: &Config, status: Option<&Status>, needs: &[String]) -> Result<String> {
    let mut supposed = BTreeMap::new();
    for need in needs {
        let (name, share) = need.split_once('=').context("write --need NAME=SHARE")?;
        let share = Number::Need.parse(share).map_err(|why| anyhow!("--need {need}: {why}"))?;
        supposed.insert(name, share);
    }
    let apps = Apps::default();
    apps.set(config, 32);
    let abouts: Vec<About> = apps.list().iter().map(|app| app.about()).collect();
    for name in supposed.keys() {
        let Some(about) = abouts.iter().find(|about| about.name == **name) else {
            bail!("there is no application `{name}` in the configuration");
        };
        let mend = "give it a `target` in the configuration, or leave --need out";
        match about.goal {
            Goal::BestEffort => bail!("`{name}` is best effort, and needs no share\n  {mend}"),
            Goal::Share(_) => bail!("`{name}` has its share by hand\n  {mend}"),
            Goal::Rate(_) | Goal::LatencyMs(_) => {}
        }
    }
    let learned = |name: &str| {
        let apps = status.map(|status| status.applications.as_slice()).unwrap_or_default();
        apps.iter().find(|app| app.name == name).map(|app| app.need).filter(|need| *need > 0.0)
    };
    let fair = 1.0 / abouts.len().max(1) as f64;
    let mut claims = Vec::new();
    let mut sources = Vec::new();
    for about in abouts {
        let (ask, source) =
            match (about.goal, supposed.get(about.name.as_str()), learned(&about.name)) {
                (Goal::BestEffort, ..) => (None, "the rest, by weight"),
                (Goal::Share(share), ..) => (Some(share), "by hand"),
                (_, Some(need), _) => (Some(*need), "supposed"),
                (_, _, Some(need)) => (Some(need), "learned"),
                _ => (Some(fair), "not known: a fair share"),
            };
        claims.push((about, ask));
        sources.push(source);
    }
    let shares = governor::would_get(&claims);
    let mut table = Table::new(&[
        Column::left("application"),
        Column::right("needs"),
        Column::right("would get"),
        Column::right("of its target"),
        Column::left("its need is"),
    ]);
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    for (((about, ask), share), source) in claims.iter().zip(&shares).zip(sources) {
        table.row(vec![
            about.name.clone(),
            ask.map_or_else(|| "–".to_owned(), percent),
            percent(*share),
            ask.map_or_else(|| "–".to_owned(), |ask| percent((share / ask).min(1.0))),
            source.to_owned(),
        ]);
    }
    Ok(table.render(terminal_width(), Ink { color: false }))
}
