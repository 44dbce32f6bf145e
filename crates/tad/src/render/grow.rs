//! Extends boundaries around their own lines.
//!
//! `dot` bends some lines slightly beyond the boundary that contains both of their ends. Such a
//! line would seem to leave the process. Where there is room, the boundary is extended instead.

use super::edges::flatten;
use super::svg::{Point, Rect};

/// Largest extension: a line further away goes around something else.
const MOST: f64 = 60.0;
/// Distance from a line to the boundary around it, and from a boundary to its neighbours.
const SPACE: f64 = 7.0;
const PIECES: usize = 8;

/// The boundary with room for these curves and for the boundaries inside, unless it would come too
/// near to one of `others`.
pub(super) fn grown(home: Rect, curves: &[&[Point]], inner: &[Rect], others: &[Rect]) -> Rect {
    let mut grown = home;
    for curve in curves {
        for point in flatten(curve, PIECES) {
            let wanted = around(grown, point.x, point.y);
            if within(home, wanted) && !others.iter().any(|other| close(wanted, *other)) {
                grown = wanted;
            }
        }
    }
    for rect in inner {
        let wanted = around(around(grown, rect.x, rect.y), rect.x + rect.w, rect.y + rect.h);
        if !others.iter().any(|other| close(wanted, *other)) {
            grown = wanted;
        }
    }
    grown
}

/// A rectangle that holds a point with some space.
fn around(at: Rect, x: f64, y: f64) -> Rect {
    let (left, top) = (at.x.min(x - SPACE), at.y.min(y - SPACE));
    let (right, low) = ((at.x + at.w).max(x + SPACE), (at.y + at.h).max(y + SPACE));
    Rect { x: left, y: top, w: right - left, h: low - top }
}

fn within(home: Rect, wanted: Rect) -> bool {
    wanted.w - home.w <= MOST && wanted.h - home.h <= MOST
}

fn close(a: Rect, b: Rect) -> bool {
    a.x < b.x + b.w + SPACE
        && b.x < a.x + a.w + SPACE
        && a.y < b.y + b.h + SPACE
        && b.y < a.y + a.h + SPACE
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Rect = Rect { x: 0.0, y: 0.0, w: 100.0, h: 100.0 };

    fn dip(depth: f64) -> Vec<Point> {
        [(10.0, 50.0), (10.0, depth), (90.0, depth), (90.0, 50.0)]
            .map(|(x, y)| Point::new(x, y))
            .to_vec()
    }

    #[test]
    fn a_boundary_gives_way_to_its_own_line() {
        let curve = dip(130.0);
        // The curve reaches 50 + 3/4 of 80 = 110; the boundary keeps 7 beyond that.
        let grown = grown(HOME, &[&curve], &[], &[]);
        assert!((grown.h - 117.0).abs() < 0.1, "{grown:?}");
        assert_eq!((grown.x, grown.y, grown.w), (0.0, 0.0, 100.0));
    }

    #[test]
    fn it_stays_off_its_neighbours() {
        let below = Rect { x: 0.0, y: 112.0, w: 100.0, h: 20.0 };
        let curve = dip(130.0);
        let grown = grown(HOME, &[&curve], &[], &[below]);
        assert!(grown.y + grown.h + SPACE <= below.y, "{grown:?}");
    }
}
