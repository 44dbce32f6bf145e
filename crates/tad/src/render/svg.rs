//! Writing SVG: elements, numbers and points.

use super::text::escape;

/// A point of the picture; `y` grows downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
}

impl Point {
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y }
    }

    /// The point this far from here in the direction of `to`; here, if both are the same.
    pub fn towards(self, to: Point, distance: f64) -> Point {
        let (dx, dy) = (to.x - self.x, to.y - self.y);
        let length = dx.hypot(dy);
        if length < 1e-6 {
            return self;
        }
        Point::new(self.x + dx / length * distance, self.y + dy / length * distance)
    }
}

/// A rectangle by its top left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

/// Where a text is anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Start,
    Middle,
}

/// A number with at most one decimal: half a pixel is invisible, and short numbers keep files
/// small. Minus zero is zero, so that equal pictures are equal bytes.
pub(super) fn number(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded == 0.0 { "0".to_owned() } else { format!("{rounded}") }
}

/// SVG in the making.
#[derive(Default)]
pub(super) struct Svg {
    out: String,
    open: usize,
}

impl Svg {
    /// Opens a group of these classes with a title for tooltips and screen readers (none if it is
    /// empty).
    pub fn group(&mut self, class: &str, title: &str) {
        self.out.push_str(&format!("<g class=\"{}\">", escape(class)));
        if !title.is_empty() {
            self.out.push_str(&format!("<title>{}</title>", escape(title)));
        }
        self.out.push('\n');
        self.open += 1;
    }

    /// Closes the innermost group.
    pub fn end(&mut self) {
        debug_assert!(self.open > 0, "no group is open");
        self.open = self.open.saturating_sub(1);
        self.out.push_str("</g>\n");
    }

    pub fn rect(&mut self, class: &str, at: Rect, radius: f64) {
        self.out.push_str(&format!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>\n",
            number(at.x),
            number(at.y),
            number(at.w),
            number(at.h),
            number(radius)
        ));
    }

    pub fn path(&mut self, class: &str, data: &str) {
        self.out.push_str(&format!("<path class=\"{class}\" d=\"{data}\"/>\n"));
    }

    pub fn text(&mut self, class: &str, at: Point, align: Align, text: &str) {
        let anchor = match align {
            Align::Start => "",
            Align::Middle => " text-anchor=\"middle\"",
        };
        self.out.push_str(&format!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>\n",
            number(at.x),
            number(at.y),
            escape(text)
        ));
    }

    /// A symbol: paths in a square of 16, drawn with its top left corner here and this large.
    pub fn symbol(&mut self, class: &str, title: &str, at: Point, size: f64, data: &str) {
        let title = if title.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escape(title))
        };
        self.out.push_str(&format!(
            "<g class=\"{class}\" transform=\"translate({} {}) scale({})\">{title}<path d=\"{data}\"/></g>\n",
            number(at.x),
            number(at.y),
            (size / 16.0 * 1000.0).round() / 1000.0
        ));
    }

    /// What was written so far.
    pub fn into_string(self) -> String {
        debug_assert_eq!(self.open, 0, "a group was left open");
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_one_zero() {
        assert_eq!(number(1.0), "1");
        assert_eq!(number(-0.01), "0");
        assert_eq!(number(12.345), "12.3");
    }
}
