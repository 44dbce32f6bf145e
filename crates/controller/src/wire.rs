//! The lines between nodes and a controller: text, so that a region server needs no library.
//!
//! ```text
//! node        hello 1 ROLE TOKEN NODE      who it is. Without a token: -
//!             fence 12                     the largest that it has heard
//!             use 0.310 w TENANT           part of the node that it had; w: it wants more, -: not
//!             report                       so far what has changed
//! controller  fence 12                     it is in office, by this number
//!             weight 4.000 TENANT          from now on
//!             limit 50.0 TENANT            requests a second here; `limit - TENANT`: none
//!             end                          all of it is in force
//!             beat 10                      another line comes within so many seconds
//!             error WORDS                  it serves no one; the node tries another
//! operator    status TOKEN                 the answer is a line of JSON
//!             set TOKEN JSON               a tenant's settings; the answer is a line
//!             raise TOKEN 12               its fence becomes larger; the answer is a line
//! ```
//!
//! A node takes nothing from a controller with a smaller fence than it has heard, of any controller
//! and by any connection. It says what it has heard, so that the one in office can go beyond it: an
//! etcd that was restored counts from an earlier number.
//!
//! A node that has heard a beat leaves a controller that is silent for longer: it stands still, or
//! cannot be reached. A controller of an older version gives none, and is waited for.
//!
//! Either side passes over lines that it does not know.

use headworks_policy::cluster::Use;
use std::fmt::Write;
use std::time::Duration;

/// Of these lines.
pub const VERSION: u32 = 1;

/// Seconds within which a controller says something.
pub const BEAT_S: u64 = 10;

/// Beats that a node heeds, in seconds.
const BEATS_S: std::ops::RangeInclusive<u64> = 1..=3_600;

/// Longest line that is read, in bytes.
pub const LINE_BYTES_MAX: u64 = 1 << 20;

/// What a node or an operator says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// See the module.
    Hello {
        /// Of the lines.
        version: u32,
        /// `regionserver`, `datanode`, `gate`.
        role: String,
        /// What it knows.
        token: String,
        /// Its name.
        node: String,
    },
    /// The largest fence that a node has heard.
    Fence(u64),
    /// What a tenant has.
    Use {
        /// Part of the node.
        used: f32,
        /// It wants more.
        wants: bool,
        /// Its name.
        tenant: String,
    },
    /// A report is complete.
    Report,
    /// A question.
    Status(String),
    /// Settings, as JSON.
    Set(String, String),
    /// A fence that is too small.
    Raise(String, u64),
}

/// Reads a line. None if no node or controller sends such a line.
pub fn said(line: &str) -> Option<Said> {
    let line = line.trim_end_matches(['\r', '\n']);
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Some(match word {
        "hello" => {
            let mut parts = rest.splitn(4, ' ');
            let version = parts.next()?.parse().ok()?;
            let role = parts.next()?.to_owned();
            let token = parts.next()?.to_owned();
            Said::Hello { version, role, token, node: parts.next()?.to_owned() }
        }
        "use" => {
            let mut parts = rest.splitn(3, ' ');
            let used: f32 = parts.next()?.parse().ok().filter(|used: &f32| used.is_finite())?;
            let wants = parts.next()? == "w";
            Said::Use { used: used.max(0.0), wants, tenant: parts.next()?.to_owned() }
        }
        "fence" => Said::Fence(rest.parse().ok()?),
        "report" => Said::Report,
        "status" => Said::Status(rest.to_owned()),
        "set" => {
            let (token, json) = rest.split_once(' ')?;
            Said::Set(token.to_owned(), json.to_owned())
        }
        "raise" => {
            let (token, fence) = rest.split_once(' ')?;
            Said::Raise(token.to_owned(), fence.parse().ok()?)
        }
        _ => return None,
    })
}

/// A report of what has changed.
pub fn report<'a>(changes: impl Iterator<Item = (&'a str, Use)>) -> String {
    let mut text = String::new();
    for (name, change) in changes {
        let wants = if change.wants { 'w' } else { '-' };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "use {:.3} {wants} {name}", change.used);
    }
    text + "report\n"
}

/// What a node is to be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Push {
    /// By name.
    pub weights: Vec<(String, f64)>,
    /// By name. None: no limit.
    pub limits: Vec<(String, Option<f64>)>,
}

impl Push {
    /// The lines.
    pub fn text(&self, fence: u64) -> String {
        let mut text = format!("fence {fence}\n");
        for (name, weight) in &self.weights {
            // Nodes count in thousandths, and 0 is no weight.
            let _ = writeln!(text, "weight {:.3} {name}", weight.max(0.001));
        }
        for (name, limit) in &self.limits {
            let _ = match limit {
                // A node's part of a small limit is small, and 0 would be none.
                Some(limit) => writeln!(text, "limit {limit:?} {name}"),
                None => writeln!(text, "limit - {name}"),
            };
        }
        text + "end\n"
    }
}

/// The line of a controller that has nothing else to say.
pub fn beat() -> String {
    format!("beat {BEAT_S}\n")
}

/// The first lines of a node.
pub fn hello(role: &str, token: &str, node: &str, fence: u64) -> String {
    let hello = format!("hello {VERSION} {role} {token} {node}\n");
    if fence > 0 { hello + &format!("fence {fence}\n") } else { hello }
}

/// A node's side: collects lines until all of a push is there.
#[derive(Debug, Default)]
pub struct Hearing {
    fence: u64,
    silence: Option<Duration>,
    push: Push,
}

/// What a line came to.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// More is to come.
    Part,
    /// This is in force.
    Push(Push),
    /// The controller is not to be heard: another is to be asked.
    Refused(String),
}

impl Hearing {
    /// Of a node that has heard this fence on earlier connections.
    pub fn new(fence: u64) -> Hearing {
        Hearing { fence, ..Hearing::default() }
    }

    /// The largest that was heard.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// A controller that says nothing for so long is left. None: it gives no beats.
    pub fn silence(&self) -> Option<Duration> {
        self.silence
    }

    /// Takes a line.
    pub fn line(&mut self, line: &str) -> Heard {
        let line = line.trim_end_matches(['\r', '\n']);
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let named = rest.split_once(' ');
        match (word, named) {
            ("fence", _) => {
                let Ok(fence) = rest.parse::<u64>() else {
                    return Heard::Refused(format!("it speaks otherwise: {line}"));
                };
                if fence < self.fence {
                    return Heard::Refused(format!(
                        "its fence {fence} is smaller than {}, which this node has heard: another \
                         controller is in office, or etcd was restored",
                        self.fence
                    ));
                }
                self.fence = fence;
                self.push = Push::default();
            }
            ("weight", Some((weight, name))) => {
                if let Ok(weight) = weight.parse::<f64>()
                    && weight.is_finite()
                    && weight > 0.0
                {
                    self.push.weights.push((name.to_owned(), weight));
                }
            }
            ("limit", Some(("-", name))) => self.push.limits.push((name.to_owned(), None)),
            ("limit", Some((limit, name))) => {
                if let Ok(limit) = limit.parse::<f64>()
                    && limit.is_finite()
                    && limit > 0.0
                {
                    self.push.limits.push((name.to_owned(), Some(limit)));
                }
            }
            ("beat", _) => {
                let seconds = rest.parse().ok().filter(|seconds| BEATS_S.contains(seconds));
                self.silence = seconds.map(Duration::from_secs);
            }
            ("end", _) => return Heard::Push(std::mem::take(&mut self.push)),
            ("error", _) => return Heard::Refused(rest.to_owned()),
            _ => {}
        }
        Heard::Part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let hello =
            Said::Hello { version: 1, role: "gate".into(), token: "-".into(), node: "db 1".into() };
        assert_eq!(said("hello 1 gate - db 1\n"), Some(hello));
        let change = Use { tenant: 0, used: 0.3104, wants: true };
        let text = report([("alice smith", change)].into_iter());
        assert_eq!(text, "use 0.310 w alice smith\nreport\n");
        let first = text.lines().next().unwrap();
        let used = Said::Use { used: 0.31, wants: true, tenant: "alice smith".into() };
        assert_eq!(said(first), Some(used));
        assert_eq!(said("set - {\"a b\": 1}"), Some(Said::Set("-".into(), "{\"a b\": 1}".into())));
        assert_eq!(said("raise - 46"), Some(Said::Raise("-".into(), 46)));
        let first = super::hello("gate", "-", "db 1", 46);
        let lines: Vec<Option<Said>> = first.lines().map(said).collect();
        assert_eq!(lines[1], Some(Said::Fence(46)));
        assert_eq!(super::hello("gate", "-", "db 1", 0), "hello 1 gate - db 1\n");
        for wrong in [
            "",
            "hello",
            "hello x gate - a",
            "use",
            "use nan w a",
            "use 1 w",
            "fence -1",
            "raise - x",
            "GET / HTTP",
        ] {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_push_counts_when_it_is_whole_and_of_the_latest_controller() {
        let push = Push {
            weights: vec![("alice smith".into(), 4.0)],
            limits: vec![("bob".into(), Some(50.0)), ("carol".into(), None)],
        };
        let mut hearing = Hearing::default();
        let text = push.text(7);
        let mut heard: Vec<Heard> = text.lines().map(|line| hearing.line(line)).collect();
        assert_eq!(heard.pop(), Some(Heard::Push(push)));
        assert!(heard.iter().all(|part| *part == Heard::Part));
        assert!(
            matches!(hearing.line("fence 6"), Heard::Refused(words) if words.contains("6 is smaller than 7"))
        );
        assert_eq!(hearing.line("fence 8"), Heard::Part);
        assert!(matches!(Hearing::new(9).line("fence 8"), Heard::Refused(_)));
        assert_eq!(hearing.silence(), None, "an older controller is waited for");
        hearing.line(beat().trim_end());
        assert_eq!(hearing.silence(), Some(Duration::from_secs(BEAT_S)));
        for line in ["weight nan a", "weight inf a", "weight -1 a", "weight three a"] {
            assert_eq!(hearing.line(line), Heard::Part);
        }
        assert_eq!(hearing.line("end"), Heard::Push(Push::default()));
        assert!(matches!(hearing.line("error standby"), Heard::Refused(_)));
    }
}
