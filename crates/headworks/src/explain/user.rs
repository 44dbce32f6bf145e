//! Why a session waits or waited: behind which others, how long in the gate and in the database,
//! and there for which locks and files.
//!
//! All of it is read from the region: no daemon is needed. A held request has a record; other
//! requests have none.

use crate::cli::Select;
use crate::instance::Instance;
use crate::io::waits::{self, Waited};
use crate::render::{duration, printable, who};
use crate::status::{Status, UserStatus};
use anyhow::{Result, bail};
use headworks_policy::Nanos;
use headworks_region::held::HeldRequest;
use headworks_region::io::IoMapping;
use headworks_region::io::waits::ClientWait;
use headworks_region::snapshot::{SessionView, Snapshot};
use headworks_region::{State, View, clock};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Held requests that are shown for each session.
const REQUESTS: usize = 5;

/// Sessions that are shown.
const USERS: usize = 8;

/// Another session.
#[derive(Clone, Debug, Serialize)]
struct Other {
    user: u32,
    /// Account and address of the session that has this number now.
    name: String,
    class: String,
}

/// A held request.
#[derive(Clone, Debug, Serialize)]
struct Held {
    request: u64,
    user: u32,
    name: String,
    class: String,
    ended_ago_ms: f64,
    gate_ms: f64,
    database_ms: f64,
    /// Sessions that were queued or owed a permit when it came.
    waiting_beside: u32,
    /// Of the sessions that were admitted then, those admitted the longest.
    behind: Vec<Other>,
    /// How it got in.
    admitted: String,
    /// Long waits for locks and files while it was served.
    waited: Vec<Waited>,
}

/// A session, and the reasons for its treatment.
#[derive(Clone, Debug, Serialize)]
struct Explained {
    #[serde(flatten)]
    status: UserStatus,
    gate_ms_sum: f64,
    database_ms_sum: f64,
    /// Time for which its requests were blocked in the database.
    blocked_ms_sum: f64,
    requests_held: u64,
    /// While it waits.
    waiting_beside: Option<u32>,
    behind: Vec<Other>,
    latest_held: Vec<Held>,
    /// Its latest long waits for locks and files, under a scheduler of files.
    latest_waits: Vec<Waited>,
}

/// Carries out the command for a user or a request.
pub fn run(select: &Select, target: &str, json: bool) -> Result<()> {
    let instance = Instance::find(select.name.as_deref())?;
    let region = instance.view_region()?;
    let now = region.snapshot(clock::now());
    let status = Status::build(&instance.name, &now, &now);
    // Without a scheduler of files there is nothing to tell of them.
    let names = Names { now: &now, status, io: instance.open_io().ok() };
    if let Some(number) = target.strip_prefix('#') {
        let record = record(region, number)?;
        let held = names.held(&record);
        let text = if json { serde_json::to_string_pretty(&held)? + "\n" } else { held.text() };
        print!("{text}");
        return Ok(());
    }
    let found = names.matching(target);
    if found.is_empty() {
        let examples: BTreeSet<String> = names.status.connections.iter().map(who).collect();
        let examples: Vec<String> = examples.into_iter().take(3).collect();
        bail!(
            "no connected session is `{target}` (by number, account, account@address, application or class)\n  {}\n  \
             a request that was held is named by its number: headworks explain '#N'",
            if examples.is_empty() {
                "no session is connected".to_owned()
            } else {
                format!("for example: {}", examples.join(", "))
            }
        );
    }
    let records: Vec<HeldRequest> = region.held_records().collect();
    let explained: Vec<Explained> =
        found.iter().take(USERS).map(|user| names.explain(user, &records)).collect();
    if json {
        println!("{}", serde_json::to_string_pretty(&explained)?);
        return Ok(());
    }
    for each in &explained {
        print!("{}", each.text(&names));
    }
    if found.len() > USERS {
        println!("and {} more, or name one: {}", found.len() - USERS, numbers(&found[USERS..]));
    }
    Ok(())
}

/// Numbers of sessions, by which one can be named.
fn numbers(users: &[&UserStatus]) -> String {
    let shown: Vec<String> = users.iter().take(USERS).map(|user| user.user.to_string()).collect();
    format!("{}{}", shown.join(", "), if users.len() > USERS { " ..." } else { "" })
}

fn record(region: View, number: &str) -> Result<HeldRequest> {
    let Ok(parsed) = number.parse::<u64>() else {
        bail!("`#{number}` is no request: write #NUMBER")
    };
    let count = region.held_requests();
    match region.held_request(parsed) {
        Some(record) => Ok(record),
        None if parsed >= count => {
            bail!("there is no held request #{number}: {count} were held so far, counted from #0")
        }
        None => bail!("request #{number} is too long ago: only the latest are kept"),
    }
}

/// Names of the current sessions.
struct Names<'a> {
    now: &'a Snapshot,
    status: Status,
    io: Option<IoMapping>,
}

impl Names<'_> {
    fn view(&self, user: u32) -> Option<&SessionView> {
        self.now.sessions.iter().find(|view| view.session == user)
    }

    fn status_of(&self, user: u32) -> Option<&UserStatus> {
        self.status.connections.iter().find(|status| status.user == user)
    }

    /// Latest long waits of a session in an interval.
    fn waits(&self, session: u32, from: Nanos, to: Nanos) -> Vec<Waited> {
        let fits = |wait: &ClientWait| {
            wait.session == Some(session) && wait.began >= from && wait.began <= to
        };
        self.io.as_ref().map_or_else(Vec::new, |io| waits::latest(io, REQUESTS, fits))
    }

    fn class(&self, class: u32) -> String {
        let found = self.now.classes.iter().find(|view| view.class == class);
        found.map_or_else(|| "-".to_owned(), |view| view.name.clone())
    }

    fn other(&self, user: u32) -> Other {
        let name = self.status_of(user).map_or_else(|| "gone".to_owned(), who);
        Other {
            user,
            name,
            class: self.view(user).map_or("-".to_owned(), |view| self.class(view.class)),
        }
    }

    /// Sessions by number, account, account@address, application or class, the longest wait first.
    fn matching(&self, target: &str) -> Vec<&UserStatus> {
        let number = target.parse::<u32>().ok();
        let fits = |user: &&UserStatus| {
            number == Some(user.user)
                || [&user.account, &user.application, &user.class]
                    .iter()
                    .any(|name| *name == target)
                || format!(
                    "{}@{}",
                    user.account,
                    if user.address.is_empty() { "local" } else { &user.address }
                ) == target
        };
        self.status.connections.iter().filter(fits).collect()
    }

    fn held(&self, record: &HeldRequest) -> Held {
        let same =
            self.view(record.session).is_some_and(|view| view.generation == record.generation);
        let ms = |from: Nanos, to: Nanos| to.since(from).as_millis_f64();
        Held {
            request: record.number,
            user: record.session,
            name: if same { self.other(record.session).name } else { "gone".to_owned() },
            class: self.class(record.class),
            ended_ago_ms: ms(record.ended, self.now.now),
            gate_ms: ms(record.arrived, record.admitted),
            database_ms: ms(record.admitted, record.ended),
            waiting_beside: record.ahead,
            behind: record.behind.iter().flatten().map(|&user| self.other(user)).collect(),
            admitted: record.passed.map_or_else(
                || "its turn came".to_owned(),
                |reason| format!("let pass: {}", reason.name()),
            ),
            waited: self.waits(record.session, record.admitted, record.ended),
        }
    }

    fn explain(&self, status: &UserStatus, records: &[HeldRequest]) -> Explained {
        let view = self.view(status.user);
        let waits = view.filter(|view| view.state == State::Queued);
        let own = |record: &&HeldRequest| {
            record.session == status.user
                && view.is_some_and(|view| view.generation == record.generation)
        };
        Explained {
            status: status.clone(),
            gate_ms_sum: view.map_or(0.0, |view| view.totals.wait.as_millis_f64()),
            database_ms_sum: view.map_or(0.0, |view| view.totals.run.as_millis_f64()),
            blocked_ms_sum: view.map_or(0.0, |view| {
                let blocked = view.state == State::Lent && view.pause.0.is_blocked();
                let now = if blocked { self.now.now.since(view.pause.1) } else { Nanos(0) };
                (view.totals.blocked + now).as_millis_f64()
            }),
            requests_held: view.map_or(0, |view| view.totals.queued),
            waiting_beside: waits.map(|view| view.behind.1),
            behind: waits
                .map(|view| view.behind.0.iter().flatten().map(|&user| self.other(user)).collect())
                .unwrap_or_default(),
            latest_held: records
                .iter()
                .filter(own)
                .take(REQUESTS)
                .map(|record| self.held(record))
                .collect(),
            latest_waits: view.map_or_else(Vec::new, |view| {
                self.waits(status.user, view.connected, self.now.now)
            }),
        }
    }
}

fn list(others: &[Other]) -> String {
    let each = |other: &Other| {
        format!(
            "user {} ({}, class {})",
            other.user,
            printable(&other.name),
            printable(&other.class)
        )
    };
    others.iter().map(each).collect::<Vec<_>>().join(", ")
}

fn requests(count: u64) -> String {
    format!("{count} {}", if count == 1 { "request" } else { "requests" })
}

impl Held {
    fn text(&self) -> String {
        let mut out = format!(
            "request #{} of user {} ({}, class {}), {} ago: {} in the gate, {} in the database; {}\n",
            self.request,
            self.user,
            printable(&self.name),
            printable(&self.class),
            duration(self.ended_ago_ms),
            duration(self.gate_ms),
            duration(self.database_ms),
            self.admitted
        );
        if !self.behind.is_empty() {
            let _ = writeln!(
                out,
                "  when it came, {} others waited, and inside for longest were {}",
                self.waiting_beside,
                list(&self.behind)
            );
        }
        for wait in &self.waited {
            let _ = writeln!(out, "  it waited, {}", wait.text());
        }
        out
    }
}

impl Explained {
    fn text(&self, names: &Names<'_>) -> String {
        let user = &self.status;
        let mut out = format!(
            "user {} ({}), class {}: {}{}\n",
            user.user,
            who(user),
            printable(&user.class),
            printable(&user.state),
            user.since_ms.map_or(String::new(), |since| format!(" for {}", duration(since)))
        );
        let mut line = |text: String| {
            let _ = writeln!(out, "  {text}");
        };
        if !user.reason.is_empty() {
            line(format!("why: {}", printable(&user.reason)));
        }
        if let Some(beside) = self.waiting_beside {
            line(format!(
                "behind: when its request came, all of P = {} permits were taken and {beside} others waited; inside for longest: {}",
                names.status.parallelism,
                if self.behind.is_empty() {
                    "none any more".to_owned()
                } else {
                    list(&self.behind)
                }
            ));
        }
        if !user.holding.is_empty() {
            line(format!("holds: {}", user.holding.join(", ")));
        }
        if !user.tls.is_empty() {
            line(format!("encrypted: {}", user.tls));
        }
        let all = self.gate_ms_sum + self.database_ms_sum;
        let part = if all > 0.0 { self.gate_ms_sum / all * 100.0 } else { 0.0 };
        line(format!(
            "{} answered since it connected, {} held; {} in the gate ({part:.0} %), {} in the database, {} blocked",
            requests(user.requests),
            self.requests_held,
            duration(self.gate_ms_sum),
            duration(self.database_ms_sum),
            duration(self.blocked_ms_sum)
        ));
        for held in &self.latest_held {
            for text in held.text().lines() {
                line(text.to_owned());
            }
        }
        for wait in &self.latest_waits {
            line(format!("it waited, {}", wait.text()));
        }
        out
    }
}
