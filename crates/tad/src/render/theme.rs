//! Colours and line styles, as a style sheet inside the picture.
//!
//! Every rule names the picture's own class first, so that a picture can be embedded in a page
//! without changing it. Colours are written out instead of using CSS variables: programs that
//! convert SVG know classes, but few know variables. Programs without media queries show the light
//! colours.

use super::options::Theme;

/// Colours of a theme. The contrast of text is at least 4.5, that of lines and symbols at least 3
/// (WCAG 2.1, AA); a test computes it.
struct Palette {
    page: &'static str,
    node: &'static str,
    process: &'static str,
    bounded: &'static str,
    on_demand: &'static str,
    ink: &'static str,
    faint: &'static str,
    boundary: &'static str,
    blocking: &'static str,
    information: &'static str,
    pull: &'static str,
    problem: &'static str,
    on_problem: &'static str,
    path: &'static str,
    on_path: &'static str,
    note: &'static str,
}

const LIGHT: Palette = Palette {
    page: "#ffffff",
    node: "#f1f4f7",
    process: "#e3eaf1",
    bounded: "#ffffff",
    on_demand: "#c3cad1",
    ink: "#1b242d",
    faint: "#4f5b66",
    boundary: "#6d7a86",
    blocking: "#b02a00",
    information: "#00695c",
    pull: "#6a1b9a",
    problem: "#a61b1b",
    on_problem: "#ffffff",
    path: "#0057b3",
    on_path: "#ffffff",
    note: "#fff6d6",
};

const DARK: Palette = Palette {
    page: "#12161a",
    node: "#1a2026",
    process: "#242c34",
    bounded: "#0d1013",
    on_demand: "#4b5661",
    ink: "#e9eef2",
    faint: "#a7b3be",
    boundary: "#7d8a96",
    blocking: "#ff9a70",
    information: "#4fd1bd",
    pull: "#d6a4f5",
    problem: "#ff8a8a",
    on_problem: "#1d0b0b",
    path: "#6fb8ff",
    on_path: "#07192b",
    note: "#3a3418",
};

/// The class of the picture's outermost element.
pub(super) fn class(theme: Theme) -> &'static str {
    match theme {
        Theme::Light => "tad-light",
        Theme::Dark => "tad-dark",
        Theme::Auto => "tad-auto",
    }
}

/// The style sheet.
pub(super) fn style(theme: Theme) -> String {
    let root = class(theme);
    let mut out = rules(root, SHAPES);
    match theme {
        Theme::Light => out.push_str(&rules(root, &colours(&LIGHT))),
        Theme::Dark => out.push_str(&rules(root, &colours(&DARK))),
        Theme::Auto => {
            out.push_str(&rules(root, &colours(&LIGHT)));
            let dark = rules(root, &colours(&DARK));
            out.push_str(&format!("@media (prefers-color-scheme: dark) {{\n{dark}}}\n"));
        }
    }
    out
}

/// Each line of a sheet is a rule for one selector; it is put under the picture's class.
fn rules(root: &str, sheet: &str) -> String {
    sheet.lines().map(|line| format!(".{root} {}\n", line.trim())).collect()
}

const SHAPES: &str = "\
text { font-family: system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif; font-size: 13px }
.heading { font-size: 23px; font-weight: 700 }
.title { font-size: 15px; font-weight: 600 }
.node-title { font-size: 16px; font-weight: 700 }
.process-title { font-size: 14px; font-weight: 600 }
.letter, .number { font-size: 14px; font-weight: 700 }
.label { font-weight: 600 }
.symbol { fill: none; stroke-width: 1.3; stroke-linejoin: round; stroke-linecap: round }
.node { stroke-width: 2.5 }
.process { stroke-width: 1.2; stroke-dasharray: 10 3 2 3 }
.stage { stroke-width: 1.6 }
.square, .letter-box, .tag, .note { stroke-width: 1.1 }
.away { stroke-width: 2.5 }
.bracket { fill: none; stroke-width: 2 }
.queue { fill: none; stroke-width: 1.6 }
.implicit { stroke-dasharray: 2.5 2.5 }
.line { fill: none; stroke-width: 1.6 }
.blocking { stroke-dasharray: 6 4 }
.pull { stroke-width: 3.6 }
.strong .line { stroke-width: 3.4 }
.strong .stage { stroke-width: 3.2 }
.strike { fill: none; stroke-width: 2 }
.dim { opacity: 0.28 }";

fn colours(palette: &Palette) -> String {
    let Palette { page, node, process, bounded, on_demand, ink, faint, boundary, .. } = palette;
    let Palette { blocking, information, pull, problem, on_problem, path, on_path, note, .. } =
        palette;
    format!(
        "text {{ fill: {ink} }}
.page {{ fill: {page} }}
.faint {{ fill: {faint} }}
.node {{ fill: {node}; stroke: {boundary} }}
.process {{ fill: {process}; stroke: {boundary} }}
.bounded {{ fill: {bounded}; stroke: {ink} }}
.on-demand {{ fill: {on_demand}; stroke: {ink} }}
.symbol, .bracket, .queue {{ stroke: {ink} }}
.slab {{ fill: {ink} }}
.square {{ fill: {page}; stroke: {ink} }}
.letter-box {{ fill: {problem}; stroke: {problem} }}
.letter {{ fill: {on_problem} }}
.mitigated .letter-box {{ fill: {page} }}
.mitigated .letter {{ fill: {problem} }}
.strike {{ stroke: {problem} }}
.line {{ stroke: {ink} }}
.head {{ fill: {ink} }}
.blocking {{ stroke: {blocking} }}
.head.blocking-head {{ fill: {blocking} }}
.information {{ stroke: {information} }}
.diamond {{ fill: {page}; stroke: {information}; stroke-width: 1.6 }}
.pull {{ stroke: {pull} }}
.head.pull-head {{ fill: {pull} }}
.shared {{ fill: {page}; stroke: {pull}; stroke-width: 2.4 }}
.shared-slab {{ fill: {pull} }}
.tag {{ fill: {page}; stroke: {boundary} }}
.away {{ fill: {node}; stroke: {boundary} }}
.note {{ fill: {note}; stroke: {information} }}
.strong .line, .strong .stage, .strong .tag {{ stroke: {path} }}
.strong .head {{ fill: {path} }}
.badge {{ fill: {path} }}
.number {{ fill: {on_path} }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of `#rrggbb` (WCAG 2.1).
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn texts_and_lines_stand_out_from_what_is_behind_them() {
        for palette in [&LIGHT, &DARK] {
            let p = palette;
            for back in [p.page, p.node, p.process, p.bounded, p.on_demand, p.note] {
                assert!(contrast(p.ink, back) >= 4.5, "ink on {back}");
            }
            for back in [p.page, p.node, p.process] {
                for line in [p.blocking, p.information, p.pull, p.path, p.boundary] {
                    assert!(contrast(line, back) >= 3.0, "{line} on {back}");
                }
            }
            assert!(contrast(p.faint, p.page) >= 4.5);
            assert!(contrast(p.on_problem, p.problem) >= 4.5);
            assert!(contrast(p.problem, p.page) >= 4.5);
            assert!(contrast(p.on_path, p.path) >= 4.5);
        }
    }

    #[test]
    fn every_rule_is_for_the_picture_alone() {
        for theme in [Theme::Light, Theme::Dark, Theme::Auto] {
            for line in style(theme).lines() {
                let own = line.starts_with(&format!(".{} ", class(theme)));
                assert!(own || line.starts_with("@media") || line == "}", "{line}");
            }
        }
    }
}
