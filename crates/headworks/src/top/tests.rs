use super::draw::draw;
use super::state::{Fetched, Page, Sort, Step, View};
use crate::render::sample::{busy, dry_run};
use crate::status::Status;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use headworks_console::{Column, Sheet};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

fn fetched(status: Status) -> anyhow::Result<Fetched> {
    Ok(Fetched { status, volumes: Vec::new() })
}

fn view(status: Status) -> View {
    let mut view = View::new(Duration::from_secs(1));
    view.update(fetched(status));
    view
}

fn picture_of(view: &mut View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view)).unwrap();
    let cells = terminal.backend().buffer().content();
    let line = |line: &[ratatui::buffer::Cell]| {
        line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
    };
    cells.chunks(width.into()).map(line).collect::<Vec<_>>().join("\n")
}

fn picture(view: &mut View) -> String {
    picture_of(view, 130, 40)
}

fn press(view: &mut View, code: KeyCode) -> Step {
    view.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_in(view: &mut View, text: &str) {
    for letter in text.chars() {
        press(view, KeyCode::Char(letter));
    }
}

fn assert_shows(picture: &str, parts: &[&str]) {
    for part in parts {
        assert!(picture.contains(part), "no {part:?} in:\n{picture}");
    }
}

#[test]
fn the_picture_shows_the_gate_its_figures_classes_and_users() {
    let picture = picture(&mut view(busy()));
    assert_shows(
        &picture,
        &[
            " mariadbd  closed: at most P = 16 sessions hold a permit at once",
            "P 16  ζ minimum  users 256  waiting 200",
            "████████████████████ 16/16",
            "p50 92.0 ms   p95 276 ms",
            "U_f 0.012  latency CV 0.310",
            "1001 requests/s  50.2 turns/s",
            "0.5 all",
            "report0@10.0.0.7",
            "SINCE▼",
            "q:quit",
            "sort: s:since w:wait",
            "Tab: sessions files volumes",
        ],
    );
    assert!(!picture.contains("PAUSED"));
}

#[test]
fn the_one_that_waits_longest_comes_first_and_keys_sort_otherwise() {
    let mut view = view(busy());
    assert_eq!(view.users()[0].user, 0);
    assert!(view.users()[..200].iter().all(|user| user.state == "waiting"));
    for (key, sort, first) in
        [('w', Sort::Wait, 12), ('l', Sort::Latency, 16), ('r', Sort::Requests, 0)]
    {
        press(&mut view, KeyCode::Char(key));
        assert_eq!((view.sort, view.users()[0].user), (sort, first), "{key}");
    }
    assert_shows(&picture(&mut view), &["REQ/S▼"]);
}

#[test]
fn a_filter_keeps_users_by_account_or_class() {
    let mut view = view(busy());
    press(&mut view, KeyCode::Char('/'));
    type_in(&mut view, "REPORTq");
    assert_shows(&picture(&mut view), &["class or account contains: REPORTq"]);
    assert!(view.users().is_empty());
    press(&mut view, KeyCode::Backspace);
    press(&mut view, KeyCode::Enter);
    assert_eq!(view.users().len(), 32);
    assert_shows(&picture(&mut view), &["of 32 with \"REPORT\""]);
    press(&mut view, KeyCode::Esc);
    assert_eq!(view.users().len(), 256);
}

#[test]
fn scrolling_ends_at_the_last_user() {
    let mut view = view(busy());
    picture(&mut view);
    press(&mut view, KeyCode::Down);
    assert_shows(&picture(&mut view), &["Users 2-"]);
    press(&mut view, KeyCode::End);
    assert_shows(&picture(&mut view), &["-256 of 256"]);
    press(&mut view, KeyCode::PageDown);
    assert_shows(&picture(&mut view), &["-256 of 256"]);
    press(&mut view, KeyCode::PageUp);
    press(&mut view, KeyCode::Home);
    assert_shows(&picture(&mut view), &["Users 1-"]);
    let mut few = busy();
    few.connections.truncate(3);
    press(&mut view, KeyCode::End);
    view.update(fetched(few));
    assert_shows(&picture(&mut view), &["Users 1-3 of 3"]);
}

#[test]
fn an_error_is_shown_over_the_old_figures_until_the_next_success() {
    let mut view = view(busy());
    view.update(Err(anyhow::anyhow!("the daemon is gone\n  start it: headworks daemon")));
    let with_error = picture(&mut view);
    assert_shows(
        &with_error,
        &[
            "no answer; the figures are old, trying again: the daemon is gone",
            "start it: headworks daemon",
            "1001 requests/s",
        ],
    );
    view.update(fetched(busy()));
    assert!(!picture(&mut view).contains("no answer"));
}

#[test]
fn an_error_from_the_start_is_shown_too() {
    let mut view = View::new(Duration::from_secs(1));
    view.update(Err(anyhow::anyhow!("no instance")));
    assert_shows(&picture(&mut view), &["headworks top", "no answer, trying again: no instance"]);
}

#[test]
fn the_command_that_mends_is_shown() {
    let mut view = view(Status {
        gate: "stale".to_owned(),
        stall_bonus: 4,
        config_error: Some("gate.toml:3:1: no".to_owned()),
        metrics_error: Some("cannot serve metrics on 127.0.0.1:9: taken".to_owned()),
        ..busy()
    });
    assert_shows(
        &picture(&mut view),
        &[
            "no heartbeat",
            "headworks daemon --name mariadbd",
            "+4 for a stall",
            "reload was refused: gate.toml:3:1: no",
            "cannot serve metrics on 127.0.0.1:9: taken",
        ],
    );
}

#[test]
fn tab_turns_the_pages() {
    let mut view = view(busy());
    press(&mut view, KeyCode::Tab);
    assert_shows(&picture(&mut view), &["files are not scheduled", "headworks run --io"]);
    view.files = Some(Sheet {
        title: "mariadbd: rcp for a disk, 2 calls held".to_owned(),
        notes: vec!["clients wait: fsync 5.0/s of 10.0 ms".to_owned()],
        columns: vec![Column::right("THREAD"), Column::left("NAME"), Column::right("FSYNC/S")],
        rows: vec![["7", "page cleaner", "12.5"].map(str::to_owned).into()],
    });
    let files = picture(&mut view);
    assert_shows(&files, &["2 calls held", "fsync 5.0/s", "THREAD NAME", "7 page cleaner", "12.5"]);
    assert!(!files.contains("sort:"), "{files}");
    press(&mut view, KeyCode::Tab);
    assert_shows(&picture(&mut view), &["no volume runs; mount one"]);
    press(&mut view, KeyCode::Tab);
    assert_eq!(view.page, Page::Sessions);
}

#[test]
fn keys_pause_help_and_quit() {
    let mut view = view(dry_run());
    assert_eq!(press(&mut view, KeyCode::Char(' ')), Step::Stay);
    assert!(view.is_paused());
    assert_shows(&picture(&mut view), &["PAUSED"]);
    assert_eq!(press(&mut view, KeyCode::Char(' ')), Step::Refresh);
    press(&mut view, KeyCode::Char('?'));
    assert_shows(&picture(&mut view), &[" Help ", "any key closes this"]);
    assert_eq!(press(&mut view, KeyCode::Char('x')), Step::Stay);
    assert!(!view.help);
    press(&mut view, KeyCode::Char('/'));
    assert_eq!(press(&mut view, KeyCode::Char('q')), Step::Stay, "it belongs to the filter");
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.press(control_c), Step::Quit);
    press(&mut view, KeyCode::Esc);
    assert_eq!(press(&mut view, KeyCode::Char('q')), Step::Quit);
}

#[test]
fn on_a_narrow_screen_columns_are_left_out_and_no_figure_is_cut() {
    let narrow = picture_of(&mut view(busy()), 80, 24);
    assert_shows(
        &narrow,
        &[
            "p99 460 ms   p99.9 828 ms",
            "WAITING",
            "report0@10.0.0.7",
            "SINCE▼",
            "LATENCY",
            "90.0 ms",
        ],
    );
    assert!(!narrow.contains("WHY"), "{narrow}");
    for line in narrow.lines().filter(|line| line.contains(" waiting  ")) {
        assert!(line.split_whitespace().any(|word| word == "3.9"), "{line}");
    }
    assert_shows(&picture_of(&mut view(busy()), 150, 24), &["WHY", "all P permits are taken: it"]);
}

#[test]
fn no_terminal_is_too_small_to_draw() {
    for (width, height) in [(1, 1), (20, 5), (40, 10), (80, 24), (300, 100)] {
        for (help, page) in [(false, Page::Sessions), (true, Page::Sessions), (true, Page::Files)] {
            let mut view = view(busy());
            (view.help, view.page) = (help, page);
            picture_of(&mut view, width, height);
        }
    }
}

#[test]
fn the_history_is_bounded_and_has_the_latest_first() {
    let mut view = view(busy());
    for at in 0..2000 {
        view.update(fetched(Status { requests_per_s: f64::from(at), ..busy() }));
    }
    assert_eq!((view.history.len(), view.history[0]), (512, 1999));
}
