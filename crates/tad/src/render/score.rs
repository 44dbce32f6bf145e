//! Which of several layouts of a system is the easiest to follow.
//!
//! Studies of graph drawing show what makes a diagram hard to read: crossings most of all, then
//! long and winding lines. Each counts as some pixels of line here; only the order of the sums
//! matters.

use super::dot::Positions;
use super::edges::flatten;
use super::svg::{Point, Rect};

/// A crossing of two lines is as bad as this many pixels of line.
const CROSSING: f64 = 120.0;
/// A line that leaves the boundary of both its ends misrepresents the system.
const ESCAPE: f64 = 400.0;
/// Weight of the picture's height and width.
const EXTENT: f64 = 0.5;
/// Straight pieces for each piece of a curve.
const PIECES: usize = 4;
/// How far a line may be outside of a boundary, in pixels.
const TOLERANCE: f64 = 2.0;

/// A wire, for the score.
pub(super) struct Track {
    /// Id of the edge.
    pub id: String,
    /// Lines that share an end are expected to meet there.
    pub ends: [String; 2],
    /// Name of the cluster that contains both ends, if there is one.
    pub home: Option<String>,
}

/// How hard a layout is to read; less is better.
pub(super) fn score(positions: &Positions, tracks: &[Track]) -> f64 {
    let flat: Vec<Vec<Point>> = tracks
        .iter()
        .map(|track| positions.edges.get(&track.id).map_or(vec![], |curve| flatten(curve, PIECES)))
        .collect();
    let mut sum = EXTENT * (positions.width + positions.height);
    for (track, line) in tracks.iter().zip(&flat) {
        sum += line.windows(2).map(|p| (p[0].x - p[1].x).hypot(p[0].y - p[1].y)).sum::<f64>();
        let home = track.home.as_ref().and_then(|home| positions.clusters.get(home));
        if home.is_some_and(|home| line.iter().any(|point| !within(*home, *point))) {
            sum += ESCAPE;
        }
    }
    for (index, track) in tracks.iter().enumerate() {
        for (other_index, other) in tracks.iter().enumerate().skip(index + 1) {
            if track.ends.iter().any(|end| other.ends.contains(end)) {
                continue;
            }
            sum += CROSSING * crossings(&flat[index], &flat[other_index]);
        }
    }
    sum
}

fn within(at: Rect, point: Point) -> bool {
    point.x >= at.x - TOLERANCE
        && point.x <= at.x + at.w + TOLERANCE
        && point.y >= at.y - TOLERANCE
        && point.y <= at.y + at.h + TOLERANCE
}

fn crossings(a: &[Point], b: &[Point]) -> f64 {
    let mut count = 0.0;
    for p in a.windows(2) {
        for q in b.windows(2) {
            if cross(p[0], p[1], q[0], q[1]) {
                count += 1.0;
            }
        }
    }
    count
}

/// Two segments cross if each has its ends on different sides of the other.
fn cross(a: Point, b: Point, c: Point, d: Point) -> bool {
    let side = |p: Point, q: Point, r: Point| (q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x);
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: [(f64, f64); 2]) -> Vec<Point> {
        let [(x0, y0), (x1, y1)] = points;
        (0..4)
            .map(|i| f64::from(i) / 3.0)
            .map(|t| Point::new(x0 + (x1 - x0) * t, y0 + (y1 - y0) * t))
            .collect()
    }

    fn layout(a: [(f64, f64); 2], b: [(f64, f64); 2]) -> f64 {
        let mut positions = Positions { width: 100.0, height: 100.0, ..Positions::default() };
        positions.edges.insert("a".into(), line(a));
        positions.edges.insert("b".into(), line(b));
        let home = Rect { x: 0.0, y: 0.0, w: 100.0, h: 100.0 };
        positions.clusters.insert("home".into(), home);
        let track = |id: &str, from: &str, to: &str| Track {
            id: id.into(),
            ends: [from.into(), to.into()],
            home: Some("home".into()),
        };
        score(&positions, &[track("a", "1", "2"), track("b", "3", "4")])
    }

    #[test]
    fn crossings_and_escapes_count_more_than_length() {
        let apart = layout([(0.0, 0.0), (97.0, 0.0)], [(0.0, 50.0), (97.0, 50.0)]);
        let crossed = layout([(0.0, 0.0), (97.0, 53.0)], [(0.0, 50.0), (97.0, 0.0)]);
        let outside = layout([(0.0, 0.0), (97.0, 0.0)], [(0.0, 50.0), (120.0, 50.0)]);
        assert!(apart < crossed && crossed < outside, "{apart} {crossed} {outside}");
    }
}
