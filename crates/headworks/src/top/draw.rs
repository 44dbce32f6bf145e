//! Puts a [`View`] on the screen.

use super::state::{Page, Sort, View};
use super::users::{class_table, sheet_table, user_table};
use crate::render::{Tone, duration, gate_sentence, maybe_ratio, percentiles, printable, rate};
use crate::status::Status;
use headworks_console::Sheet;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline, Wrap};

/// Most lines of an error in the head.
const ERROR_LINES: usize = 4;

pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    match view.page {
        Page::Sessions => draw_sessions(frame, view),
        Page::Files => {
            let none = "files are not scheduled; start the server with: headworks run --io …";
            draw_sheet(frame, view, view.files.as_ref().ok_or(none));
        }
        Page::Volumes => draw_sheet(frame, view, Ok(&view.volumes)),
    }
    if view.help {
        draw_help(frame, frame.area());
    }
}

/// A page of figures, or why there are none.
fn draw_sheet(frame: &mut Frame<'_>, view: &View, sheet: Result<&Sheet, &'static str>) {
    let mut lines = messages(view);
    match sheet {
        Ok(sheet) => lines.extend(sheet.notes.iter().map(|note| Line::from(format!(" {note}")))),
        Err(none) => lines.push(Line::from(format!(" {none}"))),
    }
    let [top, notes, table, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines.len() as u16),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title(view), top);
    frame.render_widget(Paragraph::new(lines), notes);
    if let Ok(sheet) = sheet {
        frame.render_widget(sheet_table(sheet, table.width), table);
    }
    frame.render_widget(footer(view), foot);
}

fn draw_sessions(frame: &mut Frame<'_>, view: &mut View) {
    let messages = messages(view);
    let classes = view.status.as_ref().map_or(0, |status| status.classes.len());
    let area = frame.area();
    // The users get at least half of the screen.
    let class_rows = classes.min(usize::from(area.height / 4)).max(1) as u16;
    let [top, notes, figures, class_area, user_area, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(messages.len() as u16),
        Constraint::Length(5),
        Constraint::Length(class_rows + 2),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(title(view), top);
    frame.render_widget(Paragraph::new(messages), notes);
    if let Some(status) = &view.status {
        draw_figures(frame, figures, view, status);
        frame.render_widget(class_table(status, class_rows.into(), class_area.width), class_area);
    }
    // One line for the frame's top, one for the heads.
    let page = usize::from(user_area.height.saturating_sub(2));
    let count = view.users().len();
    let first = view.scroll_for(count, page);
    frame.render_widget(user_table(view, first, page, user_area.width), user_area);
    frame.render_widget(footer(view), foot);
}

fn title(view: &View) -> Line<'static> {
    let Some(status) = &view.status else { return Line::from("headworks top".bold()) };
    let (tone, sentence, _) = gate_sentence(status);
    let mut spans = vec![
        Span::from(format!(" {} ", printable(&status.instance))).bold().reversed(),
        Span::styled(format!(" {sentence}"), tone_style(tone)),
    ];
    if view.is_paused() {
        spans.push(Span::from("  PAUSED").yellow().bold());
    }
    Line::from(spans)
}

fn tone_style(tone: Tone) -> Style {
    match tone {
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Notice => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// What is wrong, and the command that mends it.
fn messages(view: &View) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(error) = &view.error {
        let age = if view.status.is_some() { "; the figures are old" } else { "" };
        let mut error = error.lines();
        let first = format!(
            "no answer{age}, trying again: {}",
            printable(error.next().unwrap_or_default())
        );
        lines.push(Line::styled(first, tone_style(Tone::Bad)));
        lines.extend(error.take(ERROR_LINES - 1).map(|line| Line::from(printable(line))));
    }
    let Some(status) = &view.status else { return lines };
    if let (_, _, Some(mend)) = gate_sentence(status) {
        lines.push(Line::from(format!("   {mend}")));
    }
    if let Some(error) = &status.config_error {
        let first = error.lines().next().unwrap_or_default();
        let text = format!("the last reload was refused: {}", printable(first));
        lines.push(Line::styled(text, tone_style(Tone::Bad)));
    }
    if let Some(error) = &status.metrics_error {
        let first = error.lines().next().unwrap_or_default();
        lines.push(Line::styled(printable(first), tone_style(Tone::Bad)));
    }
    lines
}

fn draw_figures(frame: &mut Frame<'_>, area: Rect, view: &View, status: &Status) {
    let [left, right] =
        Layout::horizontal([Constraint::Length(68), Constraint::Fill(1)]).spacing(1).areas(area);
    let zeta = match status.quota_requests {
        0 => "minimum".to_owned(),
        quota => quota.to_string(),
    };
    let label = |text: &'static str| Span::from(text).dark_gray();
    let mut inside = vec![label(" inside   ")];
    inside.extend(bar(status, 20));
    inside.push(Span::from(format!(" {}/{}", status.inside, status.parallelism)).bold());
    if status.stall_bonus > 0 {
        inside.push(Span::from(format!(" +{} for a stall", status.stall_bonus)).yellow());
    }
    let text = vec![
        Line::from(vec![
            label(" P "),
            Span::from(status.parallelism.to_string()).bold(),
            label(if status.parallelism_auto { " auto" } else { "" }),
            label("  ζ "),
            Span::from(zeta).bold(),
            label("  users "),
            Span::from(status.users.to_string()).bold(),
            label("  waiting "),
            Span::from(status.waiting.to_string()).bold(),
            label("  blocked "),
            Span::from(status.blocked.to_string()).bold(),
            label("  thinking "),
            Span::from(status.thinking.to_string()).bold(),
        ]),
        Line::from(inside),
        Line::from(vec![label(" latency  "), Span::from(percentiles(&status.latency))]),
        Line::from(vec![label(" in gate  "), Span::from(percentiles(&status.wait))]),
        Line::from(vec![
            label(" U_f "),
            Span::from(maybe_ratio(status.unfairness)).bold(),
            label("  latency CV "),
            Span::from(maybe_ratio(status.latency_cv)).bold(),
        ]),
    ];
    frame.render_widget(Paragraph::new(text), left);
    draw_throughput(frame, right, view, status);
}

/// How many permits are in use; sessions beyond P have another colour.
fn bar(status: &Status, width: u32) -> [Span<'static>; 3] {
    let p = status.parallelism.max(1);
    let full = (status.inside.min(p) * width).div_ceil(p);
    let over = (status.inside.saturating_sub(p) * width).div_ceil(p).min(width);
    let repeat = |text: &str, times: u32| text.repeat(times as usize);
    [
        Span::from(repeat("█", full)).green(),
        Span::from(repeat("░", width - full)).dark_gray(),
        Span::from(repeat("█", over)).yellow(),
    ]
}

fn draw_throughput(frame: &mut Frame<'_>, area: Rect, view: &View, status: &Status) {
    let [head, line] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let text =
        format!("{} requests/s  {} turns/s", rate(status.requests_per_s), rate(status.turns_per_s));
    frame.render_widget(Line::from(text).bold(), head);
    // The latest is at the right.
    let room = usize::from(line.width).min(view.history.len());
    let recent: Vec<u64> = view.history.iter().take(room).rev().copied().collect();
    frame.render_widget(
        Sparkline::default().data(&recent).style(Style::new().fg(Color::Cyan)),
        line,
    );
}

fn footer(view: &View) -> Line<'static> {
    if view.typing {
        let filter = printable(&view.filter);
        return Line::from(vec![
            Span::from(format!(" class or account contains: {filter}▏")).bold(),
            Span::from("  Enter keeps it, Esc clears it").dark_gray(),
        ]);
    }
    let mut spans = vec![Span::from(" q:quit ?:help space:pause  Tab:")];
    for page in Page::ALL {
        let text = Span::from(format!(" {}", page.name()));
        spans.push(if page == view.page { text.reversed() } else { text });
    }
    if view.page == Page::Sessions {
        spans.push(Span::from("  /:filter  sort:"));
    }
    for sort in Sort::ALL.into_iter().filter(|_| view.page == Page::Sessions) {
        let (key, name) = sort.key();
        let text = Span::from(format!(" {key}:{name}"));
        spans.push(if sort == view.sort { text.reversed() } else { text });
    }
    spans.push(
        Span::from(format!("  every {}", duration(view.interval.as_secs_f64() * 1e3))).dark_gray(),
    );
    Line::from(spans)
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    const HELP: &[(&str, &str)] = &[
        ("Tab", "the next page: sessions, files, volumes"),
        ("s w r l", "sort users by since, mean wait, requests/s, mean latency"),
        ("/", "show users whose class or account contains a text; Esc: all"),
        ("↑ ↓ k j", "scroll; PgUp PgDn Home End"),
        ("space", "pause, go on"),
        ("q Ctrl-C", "quit"),
        ("", ""),
        ("inside", "sessions that run, at most P; paused ones have lent their permit"),
        ("ζ", "requests of a round over all sessions, by their weights"),
        ("latency", "of a request: its wait in the gate and its time in the database"),
        ("since", "how long it has been waiting, or inside, with this request"),
        ("U_f", "spread of requests per weight over busy users; 0 is fair"),
        ("CV", "variation of a user's latencies, averaged; 0 is steady"),
        ("", ""),
        ("", "any key closes this"),
    ];
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(key, text)| {
            Line::from(vec![Span::from(format!(" {key:<9} ")).bold(), Span::from(*text)])
        })
        .collect();
    let (width, height) = (78.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let place = Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, place);
    frame.render_widget(
        Paragraph::new(lines).wrap(Wrap { trim: false }).block(Block::bordered().title(" Help ")),
        place,
    );
}
