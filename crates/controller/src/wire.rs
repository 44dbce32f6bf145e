//! The lines between nodes and a controller: text, so that a region server needs no library.
//!
//! ```text
//! node        hello 1 ROLE TOKEN NODE      who it is. Without a token: -
//!             use 0.310 w TENANT           part of the node that it had; w: it wants more, -: not
//!             report                       so far what has changed
//! controller  fence 12                     it is in office, by this number
//!             weight 4.000 TENANT          from now on
//!             limit 50.0 TENANT            requests a second here; `limit - TENANT`: none
//!             end                          all of it is in force
//!             error WORDS                  it serves no one; the node tries another
//! operator    status TOKEN                 the answer is a line of JSON
//!             set TOKEN JSON               a tenant's settings; the answer is a line
//! ```
//!
//! A node takes nothing from a controller with a smaller fence than it has seen.

use headworks_policy::cluster::Use;
use std::fmt::Write;

/// Of these lines.
pub const VERSION: u32 = 1;

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
        "report" => Said::Report,
        "status" => Said::Status(rest.to_owned()),
        "set" => {
            let (token, json) = rest.split_once(' ')?;
            Said::Set(token.to_owned(), json.to_owned())
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
            let _ = writeln!(text, "weight {weight:.3} {name}");
        }
        for (name, limit) in &self.limits {
            let _ = match limit {
                Some(limit) => writeln!(text, "limit {limit:.1} {name}"),
                None => writeln!(text, "limit - {name}"),
            };
        }
        text + "end\n"
    }
}

/// A node's side: collects lines until all of a push is there.
#[derive(Debug, Default)]
pub struct Hearing {
    fence: u64,
    push: Push,
}

/// What a line came to.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// More is to come.
    Part,
    /// This is in force.
    Push(Push),
    /// The controller is not in office: another is to be asked.
    Refused(String),
}

impl Hearing {
    /// Takes a line.
    pub fn line(&mut self, line: &str) -> Heard {
        let line = line.trim_end_matches(['\r', '\n']);
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let named = rest.split_once(' ');
        match (word, named) {
            ("fence", _) => {
                let fence = rest.parse().unwrap_or(0);
                if fence < self.fence {
                    return Heard::Refused(format!(
                        "another controller is in office: {}",
                        self.fence
                    ));
                }
                self.fence = fence;
                self.push = Push::default();
            }
            ("weight", Some((weight, name))) => {
                if let Ok(weight) = weight.parse() {
                    self.push.weights.push((name.to_owned(), weight));
                }
            }
            ("limit", Some((limit, name))) => {
                self.push.limits.push((name.to_owned(), limit.parse().ok()));
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
        for wrong in
            ["", "hello", "hello x gate - a", "use", "use nan w a", "use 1 w", "GET / HTTP"]
        {
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
        assert!(matches!(hearing.line("fence 6"), Heard::Refused(_)));
        assert_eq!(hearing.line("fence 8"), Heard::Part);
        assert!(matches!(hearing.line("error standby"), Heard::Refused(_)));
    }
}
