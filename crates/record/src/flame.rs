//! Where threads wait, by stage: stacks weighted by the time asleep.
//!
//! A recording has the time of each kind of wait, and some of its stacks. The time of a kind is
//! divided among its stacks by how often each was seen. Waits without a stack have one frame that
//! says so, so that the sum is the time asleep. A stack that is deeper than what was copied of it
//! lacks its beginning: a frame stands for that.

use crate::hints::Hints;
use crate::infer::infer;
use crate::infer::waits::{self, Kind};
use crate::trace::{Stack, Trace};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Stacks with their microseconds: from the stage inwards, and the kind of the wait last.
pub type Folded = BTreeMap<Vec<String>, u64>;

/// Folds. Waits of these kinds are left out: a thread that has nothing to do is no news.
pub fn fold(trace: &Trace, hints: &Hints, without: &[Kind]) -> Folded {
    let found = infer(trace, hints);
    let sites = waits::Sites::of(trace);
    let mut stacks: BTreeMap<_, Vec<&Stack>> = BTreeMap::new();
    for stack in &trace.stacks {
        let key = (stack.unit, stack.object, stack.sleep, stack.op);
        stacks.entry(key).or_default().push(stack);
    }
    let mut folded = Folded::new();
    for wait in &trace.waits {
        let Some(&stage) = found.stages.of.get(&wait.wakee) else { continue };
        let kind = waits::kind(trace, &sites, wait);
        if without.contains(&kind) {
            continue;
        }
        let stage = &found.stages.stages[stage];
        let program = &found.stages.places[stage.place].program;
        let root = [program.clone(), stage.name.clone()];
        let end = format!("[{}]", kind.name());
        let key = (wait.wakee, wait.object, wait.sleep, wait.op);
        let own = stacks.get(&key).map_or(&[][..], Vec::as_slice);
        let sum: u64 = own.iter().map(|stack| stack.n.max(1)).sum();
        let mut add = |frames: &mut dyn Iterator<Item = String>, us: u64| {
            let path = root.iter().cloned().chain(frames).chain([end.clone()]);
            *folded.entry(path.collect()).or_default() += us;
        };
        let all_us = wait.off_ns / 1_000;
        if own.is_empty() {
            add(&mut std::iter::once("(no stack)".to_owned()), all_us);
        }
        for stack in own {
            let part = stack.n.max(1) as f64 / sum as f64;
            let cut = (!stack.whole).then(|| "(stack cut)".to_owned());
            let frames = stack.frames.iter().rev().map(|frame| frame.replace(';', ":"));
            let mut frames = cut.into_iter().chain(frames);
            add(&mut frames, (all_us as f64 * part) as u64);
        }
    }
    folded.retain(|_, us| *us > 0);
    folded
}

/// `a;b;c 123` a line, as `flamegraph.pl`, speedscope and others read it.
pub fn lines(folded: &Folded) -> String {
    let mut out = String::new();
    for (path, us) in folded {
        let _ = writeln!(out, "{} {us}", path.join(";"));
    }
    out
}

/// A frame of the picture and those above it.
#[derive(Default)]
struct Frame {
    us: u64,
    above: BTreeMap<String, Frame>,
}

const WIDTH: f64 = 1_200.0;
const ROW: f64 = 17.0;
/// A narrower frame is not drawn.
const NARROW: f64 = 0.4;
/// Width of a character.
const CHARACTER: f64 = 6.6;

/// A picture: the stages below, and what their threads waited in above.
pub fn svg(folded: &Folded, title: &str) -> String {
    let mut root = Frame::default();
    for (path, us) in folded {
        let mut at = &mut root;
        at.us += us;
        for name in path {
            at = at.above.entry(name.clone()).or_default();
            at.us += us;
        }
    }
    let height = ROW * (depth(&root) as f64 + 2.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" \
         fill=\"#fff\"/>\n<text x=\"4\" y=\"12\">{}</text>\n",
        escaped(title)
    );
    draw(&root, 0.0, 0, (root.us.max(1) as f64, height), &mut out);
    out.push_str("</svg>\n");
    out
}

fn depth(frame: &Frame) -> usize {
    frame.above.values().map(|above| 1 + depth(above)).max().unwrap_or(0)
}

fn draw(frame: &Frame, x: f64, row: usize, (all_us, height): (f64, f64), out: &mut String) {
    let mut x = x;
    for (name, above) in &frame.above {
        let width = above.us as f64 / all_us * WIDTH;
        if width >= NARROW {
            let y = height - ROW * (row as f64 + 1.0);
            let share = above.us as f64 / all_us * 100.0;
            let ms = above.us as f64 / 1e3;
            let _ = write!(
                out,
                "<g><title>{}: {ms:.1} ms, {share:.1} %</title><rect x=\"{x:.1}\" y=\"{y:.1}\" \
                 width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\" stroke=\"#fff\"/>",
                escaped(name),
                ROW - 1.0,
                colour(name, row)
            );
            let fits = ((width - 6.0) / CHARACTER).max(0.0) as usize;
            if fits >= 3 {
                let shown: String = name.chars().take(fits).collect();
                let _ = write!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    x + 3.0,
                    y + 12.0,
                    escaped(&shown)
                );
            }
            out.push_str("</g>\n");
            draw(above, x, row + 1, (all_us, height), out);
        }
        x += width;
    }
}

/// Programs and stages are grey and blue, waits are red, and functions are yellow.
fn colour(name: &str, row: usize) -> &'static str {
    match row {
        0 => "#d8d8d8",
        1 => "#a9c7e8",
        _ if name.starts_with('[') => "#ee9f8a",
        _ => ["#f4d58d", "#f2cc75", "#f7e0a8"][name.len() % 3],
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Process, Thread, Unit, Wait};

    fn folded() -> Folded {
        let path = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Folded::from([
            (path(&["server", "worker", "run<a>", "[lock]"]), 750),
            (path(&["server", "logger", "write", "[device]"]), 250),
        ])
    }

    #[test]
    fn each_line_has_its_time() {
        let text = lines(&folded());
        assert_eq!(text.lines().last(), Some("server;worker;run<a>;[lock] 750"));
    }

    #[test]
    fn a_stack_that_was_cut_is_under_its_stage_and_says_so() {
        let mut trace = Trace::default();
        let process = Process { pid: 1, program: "server".to_owned(), ..Process::default() };
        trace.processes.insert(1, process);
        let names = vec!["worker".to_owned()];
        trace.threads.insert(7, Thread { tid: 7, pid: 1, unit: 2, names, ..Thread::default() });
        trace.units.insert(2, Unit { unit: 2, pid: 1, ..Unit::default() });
        for (whole, frames) in [(true, ["read", "run"]), (false, ["read", "deep"])] {
            let frames = frames.map(str::to_owned).to_vec();
            trace.stacks.push(Stack { unit: 2, whole, frames, n: 1, ..Stack::default() });
        }
        trace.waits.push(Wait { wakee: 2, n: 2, off_ns: 2_000_000, ..Wait::default() });
        let wanted = "server;worker;(stack cut);deep;read;[unknown] 1000\n\
                      server;worker;run;read;[unknown] 1000\n";
        assert_eq!(lines(&fold(&trace, &Hints::default(), &[])), wanted);
    }

    #[test]
    fn the_picture_is_xml_and_names_each_share() {
        let picture = svg(&folded(), "a & b");
        assert!(picture.contains("a &amp; b") && picture.contains("run&lt;a&gt;"));
        assert!(picture.contains("worker: 0.8 ms, 75.0 %"), "{picture}");
        assert_eq!(picture.matches("<g>").count(), picture.matches("</g>").count());
    }
}
