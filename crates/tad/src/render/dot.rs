//! Runs `dot` for positions: the graph goes to its standard input, and JSON comes back.
//!
//! No shell and no files are involved, and `dot` has a time limit: a picture must never hang its
//! program.

use super::error::RenderError;
use super::svg::{Point, Rect};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time limit for all layouts of a picture. The largest system of the dissertation takes a fifth of
/// a second.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How often to check whether a `dot` that closed its output has ended.
const POLL: Duration = Duration::from_millis(2);
/// Longest part of an error message that is passed on, in bytes.
const MESSAGE_BYTES_MAX: usize = 300;

/// Positions, by the names of the graph; `y` grows downwards.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Positions {
    pub width: f64,
    pub height: f64,
    /// Middles of nodes.
    pub nodes: BTreeMap<String, Point>,
    /// Rectangles of clusters.
    pub clusters: BTreeMap<String, Rect>,
    /// Control points of the Bézier curves of edges, by the edges' ids, from tail to head.
    pub edges: BTreeMap<String, Vec<Point>>,
}

/// When the layouts of a picture that begins here must be done.
pub(super) fn deadline() -> Instant {
    Instant::now() + TIME_LIMIT
}

/// Lays a graph out.
pub(super) fn positions(graph: &str, end: Instant) -> Result<Positions, RenderError> {
    let mut command = Command::new("dot");
    // Numbers must have points, not commas, in any locale.
    command.arg("-Tjson0").env("LC_ALL", "C");
    let json = run(command, graph, end)?;
    read(&json).map_err(|missing| RenderError::Unreadable(missing.to_owned()))
}

/// Runs a program with this input and returns its output, or stops it at `end`.
pub(super) fn run(mut command: Command, input: &str, end: Instant) -> Result<Vec<u8>, RenderError> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| RenderError::NoDot(error.to_string()))?;
    // Three pipes, three threads: whatever state the child leaves the pipes in, this thread waits
    // with a time limit. The threads end with the child, which closes its ends.
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_owned();
        std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let output = collect(child.stdout.take());
    let errors = collect(child.stderr.take());
    let left = |end: Instant| end.saturating_duration_since(Instant::now());
    let result = output.recv_timeout(left(end)).ok();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if result.is_some() && !left(end).is_zero() => std::thread::sleep(POLL),
            _ => break None,
        }
    };
    let (Some(bytes), Some(status)) = (result, status) else {
        // Killed and reaped: no zombie is left. If it has just ended, killing fails, which is fine.
        let _ = child.kill();
        let _ = child.wait();
        return Err(RenderError::Slow { seconds: TIME_LIMIT.as_secs() });
    };
    if !status.success() {
        let said = errors.recv_timeout(left(end)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[..said.len().min(MESSAGE_BYTES_MAX)]).into_owned();
        return Err(RenderError::Failed {
            status: status.to_string(),
            message: super::text::one_line(&said),
        });
    }
    Ok(bytes)
}

/// Reads a pipe to its end, on its own thread.
fn collect<R: Read + Send + 'static>(pipe: Option<R>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // After an error the bytes read so far are all; the parser notices a short answer.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

fn read(json: &[u8]) -> Result<Positions, &'static str> {
    let root: Value = serde_json::from_slice(json).map_err(|_| "it is not JSON")?;
    let bounds = rectangle(&root, f64::NAN).ok_or("the picture has no size")?;
    let height = bounds.h;
    let mut positions = Positions { width: bounds.w, height, ..Positions::default() };
    let list = |key: &str| root.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    for object in list("objects") {
        let name = text(&object, "name").ok_or("a node has no name")?.to_owned();
        if name.starts_with("cluster") {
            // A cluster without nodes has no size, and needs none.
            if let Some(bounds) = rectangle(&object, height) {
                positions.clusters.insert(name, bounds);
            }
        } else {
            let middle = text(&object, "pos").and_then(|pos| point(pos, height));
            positions.nodes.insert(name, middle.ok_or("a node has no position")?);
        }
    }
    for edge in list("edges") {
        let id = text(&edge, "id").ok_or("an edge has no id")?.to_owned();
        let curve = text(&edge, "pos").ok_or("an edge has no position")?;
        let points: Option<Vec<Point>> =
            curve.split([' ', ';']).map(|part| point(part, height)).collect();
        let points = points.filter(|points| points.len() >= 4 && points.len() % 3 == 1);
        positions.edges.insert(id, points.ok_or("an edge is not a curve")?);
    }
    Ok(positions)
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn point(text: &str, height: f64) -> Option<Point> {
    let (x, y) = text.split_once(',')?;
    Some(Point::new(x.parse().ok()?, height - y.parse::<f64>().ok()?))
}

/// `bb`: the lower left and the upper right corner, with `y` upwards.
fn rectangle(object: &Value, height: f64) -> Option<Rect> {
    let numbers: Option<Vec<f64>> =
        text(object, "bb")?.split(',').map(|part| part.parse().ok()).collect();
    match numbers?[..] {
        [x0, y0, x1, y1] => Some(Rect { x: x0, y: height - y1, w: x1 - x0, h: y1 - y0 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_exist_is_named_with_the_remedy() {
        let error = run(Command::new("/nonexistent/dot"), "", deadline()).unwrap_err();
        assert!(matches!(error, RenderError::NoDot(_)), "{error:?}");
        assert!(error.to_string().contains("apt-get install graphviz"), "{error}");
    }

    #[test]
    fn without_a_path_dot_is_not_found() {
        let mut command = Command::new("dot");
        command.arg("-V").env("PATH", "");
        let error = run(command, "", deadline()).unwrap_err();
        assert!(matches!(error, RenderError::NoDot(_)), "{error:?}");
    }

    #[test]
    fn a_program_that_hangs_is_stopped_when_its_time_is_up() {
        let start = Instant::now();
        let mut command = Command::new("sleep");
        command.arg("60");
        // More than a pipe holds: it is never read, and must not block us.
        let error =
            run(command, &" ".repeat(1 << 20), start + Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, RenderError::Slow { .. }), "{error:?}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_a_failing_program_says_is_passed_on() {
        let mut command = Command::new("cat");
        command.arg("/nonexistent/graph");
        let error = run(command, "", deadline()).unwrap_err();
        assert!(
            matches!(&error, RenderError::Failed { message, .. } if message.contains("graph")),
            "{error:?}"
        );
    }

    #[test]
    fn the_answer_is_turned_upside_down() {
        let json = br#"{"bb":"0,0,100,50","objects":[{"name":"s0","pos":"10,40"},
            {"name":"cluster_n0","bb":"0,10,60,50"}],
            "edges":[{"id":"w0","pos":"0,0 1,1 2,2 3,50"}]}"#;
        let positions = read(json).unwrap();
        assert_eq!(positions.nodes["s0"], Point::new(10.0, 10.0));
        assert_eq!(positions.clusters["cluster_n0"], Rect { x: 0.0, y: 0.0, w: 60.0, h: 40.0 });
        assert_eq!(positions.edges["w0"][3], Point::new(3.0, 0.0));
        assert!(read(b"nonsense").is_err());
        assert!(read(br#"{"bb":"0,0,100,50","objects":[{"name":"s0"}]}"#).is_err());
    }
}
