//! Properties of every picture. With `TAD_PICTURES` set to a folder, pictures are written there:
//! `TAD_PICTURES=/tmp cargo test -p headworks-tad pictures_to_look_at`.

use super::fixtures::{self, Builder, EXPLICIT, IMPLICIT, ORDERED, PLUGGABLE};
use super::*;
use crate::model::{End, FlowKind, Policy, Problem, Queue, Remedy, SharedQueue};
use proptest::prelude::*;
use std::process::Command;

/// Whether layouts are possible here; prints why a test is skipped if not.
fn dot_is_here() -> bool {
    let here = Command::new("dot").arg("-V").output().is_ok();
    if !here {
        eprintln!("skipped: `dot` is not installed (apt-get install graphviz)");
    }
    here
}

/// How often a class occurs outside of the legend.
fn count(svg: &str, class: &str) -> usize {
    let document = roxmltree::Document::parse(svg).expect("the picture is XML");
    let has = |node: &roxmltree::Node<'_, '_>, class: &str| {
        node.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class))
    };
    document
        .descendants()
        .filter(|node| has(node, class))
        .filter(|node| !node.ancestors().any(|above| has(&above, "legend")))
        .count()
}

/// Texts of the picture, in the order in which they are drawn.
fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("the picture is XML");
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

fn draw(tad: &Tad, marks: &[Mark]) -> String {
    render(tad, marks, &Options::default()).expect("a picture")
}

/// A system of one process with stages that have these queues and uses.
fn with(stages: &[(u32, Queue, &str)]) -> Builder {
    let mut b = Builder::new("One", "", "");
    b.node("Machine", 1);
    b.process("Server");
    for (index, (threads, queue, uses)) in stages.iter().enumerate() {
        b.stage(&format!("Stage {index}"), *threads, *queue, uses);
    }
    b
}

#[test]
fn bounded_stages_are_white_with_their_number_of_threads_and_on_demand_ones_are_shaded() {
    if !dot_is_here() {
        return;
    }
    let mut b = with(&[(4, IMPLICIT, ""), (0, IMPLICIT, ""), (2, IMPLICIT, "")]);
    b.tad.stages[2].threads_label = Some("cores".into());
    let svg = draw(&b.tad, &[]);
    assert_eq!((count(&svg, "bounded"), count(&svg, "on-demand")), (2, 1));
    let texts = texts(&svg);
    for text in ["Stage 0", "(4)", "(on demand)", "(cores)"] {
        assert!(texts.iter().any(|found| found == text), "{text} in {texts:?}");
    }
    assert_eq!(count(&svg, "queue-symbol"), 2, "an on-demand stage has no queue");
}

#[test]
fn each_resource_has_a_symbol_and_what_may_be_used_has_brackets() {
    if !dot_is_here() {
        return;
    }
    let svg = draw(&with(&[(1, IMPLICIT, "cinlx"), (1, IMPLICIT, "cI")]).tad, &[]);
    let found = ["cpu", "io", "network", "lock", "custom"].map(|class| count(&svg, class));
    assert_eq!(found, [2, 2, 1, 1, 1]);
    assert_eq!((count(&svg, "may"), count(&svg, "bracket")), (1, 1));
}

#[test]
fn queues_show_whether_they_are_explicit_pluggable_and_ordered() {
    if !dot_is_here() {
        return;
    }
    let personal = Queue { ordered_per_client: true, ..ORDERED };
    let queues = [IMPLICIT, EXPLICIT, PLUGGABLE, ORDERED, personal];
    let svg = draw(&with(&queues.map(|queue| (1, queue, ""))).tad, &[]);
    assert_eq!((count(&svg, "explicit-queue"), count(&svg, "implicit-queue")), (4, 1));
    assert_eq!((count(&svg, "plug"), count(&svg, "order")), (1, 2));
    assert_eq!(count(&svg, "client-order"), 1);
}

#[test]
fn lines_of_each_kind_differ_and_blocking_points_at_the_blocked_stage() {
    if !dot_is_here() {
        return;
    }
    let mut b = with(&[(1, IMPLICIT, ""), (1, IMPLICIT, "")]);
    b.data(0, 1, "a1");
    b.blocks(0, 1, "a2");
    b.flow(FlowKind::Information, End::Stage(0), End::Stage(1), "a3");
    b.data(1, 1, "a4").remote = true;
    let svg = draw(&b.tad, &[]);
    // Each line is cut in two by its label; one half has the arrow.
    let found = ["data", "data-head", "blocking", "blocking-head", "information"];
    assert_eq!(found.map(|class| count(&svg, class)), [4, 2, 2, 1, 2]);
    assert!(count(&svg, "diamond") >= 2);
    assert_eq!(count(&svg, "away"), 1, "another node of the kind");
    assert!(svg.contains("a2: Stage 1 is awaited by Stage 0"), "{svg}");
    let texts = texts(&svg);
    assert!(["a1", "a2", "a3", "a4"].iter().all(|label| texts.iter().any(|t| t == label)));
}

#[test]
fn problems_are_letters_and_those_worked_around_are_struck_through() {
    if !dot_is_here() {
        return;
    }
    let marks: Vec<Mark> = Problem::ALL
        .into_iter()
        .map(|problem| Mark { stage: 0, problem, mitigated: problem == Problem::Blocking })
        .collect();
    let svg = draw(&with(&[(1, IMPLICIT, "")]).tad, &marks);
    for problem in Problem::ALL {
        assert_eq!(count(&svg, &format!("problem-{}", problem.name())), 1, "{problem:?}");
        assert!(texts(&svg).contains(&problem.letter().to_string()));
    }
    assert_eq!((count(&svg, "mitigated"), count(&svg, "strike")), (1, 1));
}

#[test]
fn boundaries_are_nested_and_several_nodes_are_counted() {
    if !dot_is_here() {
        return;
    }
    let (big, marks) = fixtures::big();
    let svg = draw(&big, &marks);
    assert_eq!((count(&svg, "node"), count(&svg, "process")), (2, 4));
    let texts = texts(&svg);
    for title in ["7 × Data nodes", "Master", "RegionServer", "DataNode", "Namenode", "HMaster"] {
        assert!(texts.iter().any(|text| text == title), "{title} in {texts:?}");
    }
}

#[test]
fn stacks_shared_queues_controls_and_clients_have_symbols() {
    if !dot_is_here() {
        return;
    }
    let (rich, marks) = fixtures::rich();
    let svg = draw(&rich, &marks);
    let found = ["card", "shared-queue", "pull", "control", "clients"];
    assert_eq!(found.map(|class| count(&svg, class)), [2, 1, 2, 2, 1]);
    assert!(texts(&svg).contains(&"database work".to_owned()));
}

#[test]
fn the_legend_has_what_occurs_and_no_more() {
    if !dot_is_here() {
        return;
    }
    let small = texts(&draw(&fixtures::small(), &[])).join("|");
    assert!(small.contains("scheduler can be exchanged") && small.contains("requests go to"));
    for absent in ["waits", "information", "problem", "shared", "per request", "in order"] {
        assert!(!small.contains(absent), "{absent} in {small}");
    }
}

#[test]
fn a_highlighted_path_is_strong_and_numbered_and_the_rest_is_faded() {
    if !dot_is_here() {
        return;
    }
    let (big, marks) = fixtures::big();
    let options = Options { theme: Theme::Light, highlight: Some(0) };
    let svg = render(&big, &marks, &options).unwrap();
    assert_eq!(count(&svg, "steps"), 9);
    assert!(svg.contains("path of put"));
    assert!(count(&svg, "strong") > 9 && count(&svg, "dim") > 5);
    assert_eq!(count(&draw(&big, &marks), "dim"), 0);
}

#[test]
fn the_same_system_gives_the_same_bytes() {
    if !dot_is_here() {
        return;
    }
    let (big, marks) = fixtures::big();
    assert_eq!(draw(&big, &marks), draw(&big, &marks));
}

#[test]
fn themes_are_fixed_or_follow_the_reader() {
    if !dot_is_here() {
        return;
    }
    let of = |theme| render(&fixtures::small(), &[], &Options { theme, highlight: None }).unwrap();
    assert!(of(Theme::Auto).contains("@media (prefers-color-scheme: dark)"));
    assert!(!of(Theme::Light).contains("@media") && !of(Theme::Dark).contains("@media"));
    assert_ne!(of(Theme::Light), of(Theme::Dark));
}

#[test]
fn the_picture_is_described_in_words() {
    if !dot_is_here() {
        return;
    }
    let (big, marks) = fixtures::big();
    let svg = draw(&big, &marks);
    let document = roxmltree::Document::parse(&svg).unwrap();
    let said = |tag: &str| {
        let node = document.root_element().children().find(|node| node.has_tag_name(tag));
        node.and_then(|node| node.text()).unwrap_or_default().to_owned()
    };
    assert_eq!(said("title"), "Thread architecture of HBase/HDFS 2.0.0 / 2.7.1");
    assert!(said("desc").contains("RPC Handle: 30 threads, in RegionServer; uses CPU"));
    assert!(said("desc").contains("a1: RPC Handle issues requests to LOG Append"));
}

#[test]
fn a_system_far_larger_than_any_known_is_drawn_in_time() {
    if !dot_is_here() {
        return;
    }
    let mut b = Builder::new("Huge", "", "");
    for node in 0..4 {
        b.node(&format!("Machine {node}"), 3);
        for process in 0..3 {
            b.process(&format!("Server {process}"));
            for stage in 0..5 {
                b.stage(&format!("Stage {node}.{process}.{stage}"), 4, IMPLICIT, "cin");
            }
        }
    }
    for stage in 0..60 {
        b.data(stage, (stage * 7 + 3) % 60, "d");
        b.data(stage, (stage * 11 + 5) % 60, "e");
    }
    assert_eq!(count(&draw(&b.tad, &[]), "a-stage"), 60);
}

#[test]
fn indices_that_are_out_of_range_are_errors() {
    let small = fixtures::small();
    let options = Options { highlight: Some(7), ..Options::default() };
    let error = render(&small, &[], &options).unwrap_err();
    assert_eq!(error, RenderError::NoRequest { index: 7, known: 1 });
    let mark = Mark { stage: 9, problem: Problem::Blocking, mitigated: false };
    let error = render(&small, &[mark], &Options::default()).unwrap_err();
    assert_eq!(error, RenderError::NoStage { index: 9, known: 2 });
}

#[test]
fn empty_systems_nodes_and_processes_are_drawn_too() {
    if !dot_is_here() {
        return;
    }
    let nothing = Builder::new("", "", "").tad;
    assert_eq!(count(&draw(&nothing, &[]), "a-stage"), 0);
    let mut b = with(&[(1, IMPLICIT, "c")]);
    b.node("Idle", 2);
    b.process("Nothing runs here");
    b.flow(FlowKind::Data, End::Clients, End::Clients, "");
    b.flow(FlowKind::Data, End::Stage(0), End::Stage(0), "");
    b.tad.controls.push(Remedy::Unblock { stage: "unknown".into() });
    b.tad.shared_queues.push(SharedQueue {
        name: "unused".into(),
        stages: vec![],
        concurrency: 1,
        policy: Policy::Fifo,
    });
    assert_eq!(count(&draw(&b.tad, &[]), "a-stage"), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Names are the user's: whatever they contain, the picture is valid XML with them.
    #[test]
    fn names_may_have_any_characters(name in "[\"'<>&;\\\\\n\t{}|\\[\\]a-z\u{0}-\u{1f}é漢😀\u{ffff}]{0,24}") {
        if !dot_is_here() {
            return Ok(());
        }
        let (mut tad, marks) = fixtures::rich();
        tad.name.clone_from(&name);
        tad.about.clone_from(&name);
        tad.source.clone_from(&name);
        tad.nodes[0].title.clone_from(&name);
        tad.processes[0].title.clone_from(&name);
        tad.resources[0].title.clone_from(&name);
        tad.stages[0].title.clone_from(&name);
        tad.stages[0].threads_label = Some(name.clone());
        tad.shared_queues[0].name.clone_from(&name);
        for flow in &mut tad.flows {
            flow.label.clone_from(&name);
        }
        let svg = draw(&tad, &marks);
        prop_assert_eq!(count(&svg, "a-stage"), tad.stages.len());
    }
}

#[test]
fn pictures_to_look_at() {
    let Ok(folder) = std::env::var("TAD_PICTURES") else { return };
    let (big, big_marks) = fixtures::big();
    let (rich, rich_marks) = fixtures::rich();
    let small = fixtures::small();
    let systems =
        [("small", &small, vec![]), ("big", &big, big_marks), ("rich", &rich, rich_marks)];
    for (theme, name) in [(Theme::Light, "light"), (Theme::Dark, "dark"), (Theme::Auto, "auto")] {
        for (system, tad, marks) in &systems {
            for highlight in [None, Some(0)] {
                if highlight.is_some() && tad.requests.is_empty() {
                    continue;
                }
                let svg = render(tad, marks, &Options { theme, highlight }).unwrap();
                let path = if highlight.is_some() { "-path" } else { "" };
                std::fs::write(format!("{folder}/{system}-{name}{path}.svg"), svg).unwrap();
            }
        }
    }
}
