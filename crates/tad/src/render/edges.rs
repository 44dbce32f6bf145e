//! Drawing lines: Bézier curves with arrow heads or diamonds.

use super::lines::Kind;
use super::svg::{Point, Svg, number};

const HEAD_LENGTH: f64 = 10.0;
const HEAD_HALF: f64 = 4.5;
/// The line ends inside its arrow head, so that it does not show at the tip.
const HEAD_OVERLAP: f64 = 3.0;
/// About one diamond for each of these lengths.
const DIAMOND_EVERY: f64 = 64.0;
const DIAMOND_HALF: f64 = 5.5;
/// Pieces into which a curve is cut to measure it.
const PIECES: usize = 12;

/// Draws a curve of control points in the direction of its arrow.
pub(super) fn curve(svg: &mut Svg, kind: Kind, points: &[Point], arrow: bool) {
    let mut points = points.to_vec();
    let tip = points.last().copied();
    let before =
        points.iter().rev().find(|point| tip.is_some_and(|tip| far(tip, **point))).copied();
    let head = match (arrow && kind != Kind::Information, tip, before) {
        (true, Some(tip), Some(before)) => Some((tip, before)),
        _ => None,
    };
    if let (Some((tip, before)), Some(last)) = (head, points.last_mut()) {
        *last = tip.towards(before, HEAD_LENGTH - HEAD_OVERLAP);
    }
    svg.path(&format!("line {}", class(kind)), &data(&points));
    if let Some((tip, before)) = head {
        svg.path(&format!("head {}-head", class(kind)), &head_data(tip, before));
    }
    if kind == Kind::Information {
        diamonds(svg, &points, arrow);
    }
}

/// The class of a kind of line.
pub(super) fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "data",
        Kind::Blocking => "blocking",
        Kind::Information => "information",
        Kind::Pull => "pull",
    }
}

fn far(a: Point, b: Point) -> bool {
    (a.x - b.x).hypot(a.y - b.y) > 0.5
}

fn pair(point: Point) -> String {
    format!("{} {}", number(point.x), number(point.y))
}

fn data(points: &[Point]) -> String {
    let mut out = String::new();
    for (index, point) in points.iter().enumerate() {
        match index {
            0 => out.push('M'),
            _ if index % 3 == 1 => out.push('C'),
            _ => out.push(' '),
        }
        out.push_str(&pair(*point));
    }
    out
}

fn head_data(tip: Point, before: Point) -> String {
    let base = tip.towards(before, HEAD_LENGTH);
    let (dx, dy) = ((tip.x - base.x) / HEAD_LENGTH, (tip.y - base.y) / HEAD_LENGTH);
    let side = |way: f64| Point::new(base.x - dy * HEAD_HALF * way, base.y + dx * HEAD_HALF * way);
    format!("M{}L{}L{}z", pair(tip), pair(side(1.0)), pair(side(-1.0)))
}

/// Diamonds along a curve; one at its end if the information arrives there.
fn diamonds(svg: &mut Svg, points: &[Point], arrives: bool) {
    let flat = flatten(points, PIECES);
    let length: f64 = flat.windows(2).map(|pair| distance(pair[0], pair[1])).sum();
    let count = (length / DIAMOND_EVERY).floor().max(1.0);
    let usable = if arrives { length - DIAMOND_HALF } else { length };
    let parts = if arrives { count } else { count + 1.0 };
    for index in 1..=count as u32 {
        let at = along(&flat, usable * f64::from(index) / parts);
        svg.path("diamond", &diamond(at));
    }
}

fn diamond(at: Point) -> String {
    let h = DIAMOND_HALF;
    format!("M{}l{h} {h}l-{h} {h}l-{h} -{h}z", pair(Point::new(at.x, at.y - h)))
}

fn distance(a: Point, b: Point) -> f64 {
    (a.x - b.x).hypot(a.y - b.y)
}

/// A curve as straight pieces, this many for each of its parts.
pub(super) fn flatten(points: &[Point], pieces: usize) -> Vec<Point> {
    let mut flat: Vec<Point> = points.first().copied().into_iter().collect();
    let mut from = 0;
    while from + 3 < points.len() {
        let [a, b, c, d] = [points[from], points[from + 1], points[from + 2], points[from + 3]];
        for piece in 1..=pieces {
            let t = piece as f64 / pieces as f64;
            let u = 1.0 - t;
            let mix = |a: f64, b: f64, c: f64, d: f64| {
                u * u * u * a + 3.0 * u * u * t * b + 3.0 * u * t * t * c + t * t * t * d
            };
            flat.push(Point::new(mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y)));
        }
        from += 3;
    }
    flat
}

fn along(flat: &[Point], mut rest: f64) -> Point {
    for pair in flat.windows(2) {
        let step = distance(pair[0], pair[1]);
        if step >= rest {
            return pair[0].towards(pair[1], rest);
        }
        rest -= step;
    }
    flat.last().copied().unwrap_or(Point::new(0.0, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_measured_along_the_curve() {
        let straight: Vec<Point> = (0..4).map(|i| Point::new(f64::from(i) * 10.0, 0.0)).collect();
        let flat = flatten(&straight, PIECES);
        let middle = along(&flat, 15.0);
        assert!((middle.x - 15.0).abs() < 0.01, "{middle:?}");
        assert_eq!(along(&flat, 1e6), straight[3]);
    }

    #[test]
    fn an_arrow_head_has_its_tip_at_the_end() {
        let data = head_data(Point::new(10.0, 0.0), Point::new(0.0, 0.0));
        assert!(data.starts_with("M10 0L0 4.5"), "{data}");
    }
}
