//! The tables of classes and of users.

use super::state::{Sort, View};
use crate::render::{count, duration, maybe_duration, printable, rate, who};
use crate::status::{ClassStatus, Status, UserStatus};
use headworks_console::{Column, Sheet};
use ratatui::layout::{Alignment, Constraint};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Cell, Row, Table};

fn block(title: String) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(title).dark_gray()
}

fn right<'a>(text: impl Into<Text<'a>>) -> Cell<'a> {
    Cell::new(text.into().alignment(Alignment::Right))
}

/// A column that may be left out.
struct Shown {
    cell: Cell<'static>,
    width: u16,
    /// Columns with the highest rank are left out first; rank zero stays.
    rank: u8,
    /// It takes the remaining room.
    grows: bool,
}

const fn numbers(cell: Cell<'static>, width: u16, rank: u8) -> Shown {
    Shown { cell, width, rank, grows: false }
}

const fn texts(cell: Cell<'static>, width: u16, rank: u8) -> Shown {
    Shown { cell, width, rank, grows: true }
}

/// A table of the columns that fit completely: a figure without its first digits would be misread.
fn table(
    columns: Vec<Shown>,
    rows: impl Iterator<Item = (Vec<Cell<'static>>, Style)>,
    title: String,
    width: u16,
) -> Table<'static> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let needed =
        |kept: &[usize]| kept.iter().map(|&at| u32::from(columns[at].width) + 1).sum::<u32>();
    while needed(&kept) > u32::from(width) + 1 {
        let least = kept
            .iter()
            .copied()
            .filter(|&at| columns[at].rank > 0)
            .max_by_key(|&at| columns[at].rank);
        let Some(least) = least else { break };
        kept.retain(|&at| at != least);
    }
    let pick = |cells: Vec<Cell<'static>>| {
        let cells = cells.into_iter().enumerate();
        cells.filter(|(at, _)| kept.contains(at)).map(|(_, cell)| cell).collect::<Vec<_>>()
    };
    let rows: Vec<Row<'static>> =
        rows.map(|(cells, style)| Row::new(pick(cells)).style(style)).collect();
    let widths: Vec<Constraint> = kept
        .iter()
        .map(|&at| match columns[at].grows {
            true => Constraint::Min(columns[at].width),
            false => Constraint::Length(columns[at].width),
        })
        .collect();
    let heads = pick(columns.into_iter().map(|column| column.cell).collect());
    let style = Style::new().fg(Color::Gray).add_modifier(Modifier::BOLD);
    Table::new(rows, widths).header(Row::new(heads).style(style)).block(block(title))
}

/// The table of a page of files or volumes. A column without room is left out, the last ones first.
pub(super) fn sheet_table(sheet: &Sheet, width: u16) -> Table<'static> {
    let widest = |at: usize| sheet.rows.iter().map(|row| row[at].chars().count()).max();
    let columns = sheet.columns.iter().enumerate().map(|(at, column)| {
        let head = column.head();
        let width = widest(at).unwrap_or(0).max(head.len()).min(40) as u16;
        match column.is_right() {
            true => numbers(right(head), width, at as u8),
            false => texts(Cell::new(head), width, at as u8),
        }
    });
    let cell = |(text, column): (&String, &Column)| match column.is_right() {
        true => right(text.clone()),
        false => Cell::new(text.clone()),
    };
    let rows = sheet
        .rows
        .iter()
        .map(|row| (row.iter().zip(&sheet.columns).map(cell).collect(), Style::reset()));
    table(columns.collect(), rows, format!(" {} ", sheet.title), width)
}

/// Classes with users first, then as in the configuration.
pub(super) fn class_table(status: &Status, room: usize, width: u16) -> Table<'static> {
    let mut classes: Vec<&ClassStatus> = status.classes.iter().collect();
    classes.sort_by_key(|class| class.users == 0);
    let title = match classes.len() {
        all if all > room => format!(" Classes ({room} of {all}) "),
        _ => " Classes ".to_owned(),
    };
    let columns = vec![
        texts(Cell::new("CLASS"), 12, 0),
        numbers(right("WEIGHT"), 9, 1),
        numbers(right("USERS"), 5, 0),
        numbers(right("INSIDE"), 6, 0),
        numbers(right("WAITING"), 7, 0),
        numbers(right("REQ/S"), 7, 0),
        numbers(right("P50"), 7, 3),
        numbers(right("P95"), 7, 0),
        numbers(right("P99"), 7, 2),
        numbers(right("WAIT P95"), 8, 4),
    ];
    let rows = classes.into_iter().take(room).map(|class| {
        let each = if class.weight_of == "class" { " all" } else { "" };
        let cells = vec![
            Cell::new(printable(&class.name)),
            right(format!("{}{each}", class.weight)),
            right(class.users.to_string()),
            right(class.inside.to_string()),
            right(class.waiting.to_string()),
            right(rate(class.requests_per_s)),
            right(maybe_duration(class.latency.p50_ms)),
            right(maybe_duration(class.latency.p95_ms)),
            right(maybe_duration(class.latency.p99_ms)),
            right(maybe_duration(class.wait.p95_ms)),
        ];
        (cells, Style::reset())
    });
    table(columns, rows, title, width)
}

/// The users that fit the filter, from the first to show on.
pub(super) fn user_table(view: &View, first: usize, page: usize, width: u16) -> Table<'static> {
    let users = view.users();
    let last = (first + page).min(users.len());
    let mut title = match users.len() {
        0 => " Users ".to_owned(),
        all => format!(" Users {}-{last} of {all} ", first + 1),
    };
    if !view.filter.is_empty() {
        title += &format!("with \"{}\" ", printable(&view.filter));
    }
    let mark = |sort: Sort, name: &'static str| {
        right(if sort == view.sort { Line::from(format!("{name}▼")) } else { Line::from(name) })
    };
    let columns = vec![
        texts(Cell::new("USER"), 16, 0),
        texts(Cell::new("CLASS"), 8, 1),
        numbers(Cell::new("STATE"), 9, 0),
        numbers(mark(Sort::Since, "SINCE"), 7, 0),
        numbers(mark(Sort::Requests, "REQ/S"), 7, 0),
        numbers(right("REQUESTS"), 8, 5),
        numbers(mark(Sort::Wait, "WAIT"), 7, 0),
        numbers(right("WAIT MAX"), 8, 3),
        numbers(mark(Sort::Latency, "LATENCY"), 8, 0),
        numbers(right("MAX"), 7, 4),
        texts(Cell::new("HOLDS"), 11, 2),
        texts(Cell::new("WHY"), 30, 6),
    ];
    let rows = users[first.min(last)..last].iter().map(|user| (cells(user), Style::reset()));
    table(columns, rows, title, width)
}

fn cells(user: &UserStatus) -> Vec<Cell<'static>> {
    let style = match user.state.as_str() {
        "waiting" => Style::reset().fg(Color::Yellow),
        "idle" => Style::reset().fg(Color::DarkGray),
        _ => Style::reset().fg(Color::Green),
    };
    vec![
        Cell::new(who(user)),
        Cell::new(printable(&user.class)),
        Cell::new(printable(&user.state)).style(style),
        right(maybe_duration(user.since_ms)),
        right(rate(user.requests_per_s)),
        right(count(user.requests)),
        right(duration(user.wait_ms_mean)),
        right(duration(user.wait_ms_max)),
        right(duration(user.latency_ms_mean)),
        right(duration(user.latency_ms_max)),
        Cell::new(printable(&user.holding.join(","))),
        Cell::new(printable(&user.reason)),
    ]
}
