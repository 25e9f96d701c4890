// SPDX-License-Identifier: Apache-2.0
//! The screen of `holdfast top`.

use std::collections::BTreeMap;

use holdfast_core::{LinkSource, LinkState};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};

use super::{LINK, Sort, Top, flow_name, mobile_name};
use crate::control::{ControlReply, MobileSessionStatus, StatusReply};
use crate::status::{bytes, seconds, what_is_counted, word};

const KEYS: &str = "q quit  ? help  s sort  / filter  c counters  arrows scroll";

const HELP: &str = "\
q, Ctrl-C     quit
s             sort by rate, cached bytes, name
/             show rows with a text; Enter ends it, Esc clears it
c             counters instead of flows
up, down      scroll; Home: to the top
?             this help

to MH         bits a second that the mobile received
from MH       bits a second that it sent
silent        link down, noticed by silence
the bars      to MH, one for each look, the newest at the right";

/// One row of a table, and what it is sorted by.
struct Entry {
    name: String,
    rate: f64,
    cached: u64,
    row: Row<'static>,
}

/// Draws the status. Scrolling beyond the last rows is undone, so that the next key has an effect
/// at once.
pub(super) fn draw(top: &mut Top, frame: &mut Frame<'_>) {
    top.scroll = draw_scrolled(top, frame);
}

/// Returns the number of rows that are scrolled away in the longer table.
fn draw_scrolled(top: &Top, frame: &mut Frame<'_>) -> usize {
    let [head, upper, lower, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let scrolled = match &top.reply {
        Some(ControlReply::Gateway(status)) => {
            frame.render_widget(Paragraph::new(gateway_head(top, status)), head);
            let of_mobiles = mobiles(top, status, frame, upper);
            of_mobiles.max(if top.shows_counters {
                counters(top, &status.counters, frame, lower)
            } else {
                flows(top, status, frame, lower)
            })
        }
        Some(ControlReply::Mobile(status)) => {
            frame.render_widget(Paragraph::new(mobile_head(top, status)), head);
            let of_sources = sources(top, status, frame, upper);
            of_sources.max(counters(top, &status.counters, frame, lower))
        }
        _ => 0,
    };
    frame.render_widget(foot_line(top), foot);
    if top.shows_help {
        let area = frame.area();
        let lines = HELP.lines().count() as u16;
        let area = area.centered(Constraint::Max(68), Constraint::Max(lines + 2));
        frame.render_widget(Clear, area);
        let block = Block::bordered().title(" holdfast top ");
        frame.render_widget(Paragraph::new(HELP).block(block), area);
    }
    scrolled
}

fn foot_line(top: &Top) -> Line<'_> {
    if top.is_typing {
        return Line::from(format!("/{}_", top.filter)).bold();
    }
    if let Some(error) = &top.error {
        return Line::from(error.as_str()).fg(Color::Red);
    }
    let filter = match top.filter.as_str() {
        "" => String::new(),
        text => format!("  rows with `{text}`"),
    };
    Line::from(format!("{KEYS}{filter}")).dim()
}

fn gateway_head(top: &Top, status: &StatusReply) -> Text<'static> {
    let title = format!(
        "gateway {}, scheme {}, up {}, data path {}{}",
        status.wireless,
        status.scheme,
        seconds(status.uptime_s),
        status.data_path,
        if status.attached {
            ""
        } else {
            " (NOT attached)"
        },
    );
    let flows = &status.flows;
    let (cache, outages) = (&status.cache, &status.outages);
    Text::from(vec![
        Line::from(title).bold(),
        Line::from(format!(
            "{}  flows {} of {}, {} in an outage",
            link_rates(top),
            flows.tracked,
            flows.flows_max,
            flows.in_outage
        )),
        Line::from(format!(
            "cache {} of {}  outages {}, stall {} {}",
            bytes(cache.bytes),
            bytes(cache.bytes_max),
            outages.count,
            what_is_counted(outages),
            seconds(outages.stall_saved_s)
        )),
    ])
}

fn mobile_head(top: &Top, status: &MobileSessionStatus) -> Text<'static> {
    let title = format!(
        "mobile interface {}, link {}, up {}, scheme {}",
        status.interface,
        word(&status.link),
        seconds(status.uptime_s),
        status.scheme
    );
    let gateway = status
        .gateway
        .map_or("none".to_owned(), |one| one.to_string());
    let answer = match &status.refused {
        Some(reason) => format!("REFUSED: {reason}"),
        None if status.acknowledged => "acknowledged".to_owned(),
        None => "not acknowledged".to_owned(),
    };
    Text::from(vec![
        Line::from(title).bold(),
        Line::from(link_rates(top)),
        Line::from(format!(
            "gateway {gateway}, epoch {}, {answer}",
            status.epoch
        )),
    ])
}

/// The rates of the whole link, with all headers and protocols.
fn link_rates(top: &Top) -> String {
    let to = format!("{LINK} to");
    let now = [&to, &format!("{LINK} from")].map(|name| bits(top.rates.newest(name)));
    format!(
        "to MH {:>9} {:10} from MH {:>9}",
        now[0],
        sparkline(top, &to, 10),
        now[1]
    )
}

fn mobiles(top: &Top, status: &StatusReply, frame: &mut Frame<'_>, area: Rect) -> usize {
    let bars = area.width.saturating_sub(67).max(8);
    let rows = status.mobiles.iter().map(|mobile| {
        let name = mobile_name(mobile);
        let (to, from) = (format!("{name} to"), format!("{name} from"));
        let (link, style) = match (mobile.link, mobile.source) {
            (LinkState::Down, LinkSource::Silence) => ("silent", Color::Yellow),
            (LinkState::Down, _) => ("down", Color::Red),
            (LinkState::Up, _) => ("up", Color::Green),
            (LinkState::GoingDownSoon, _) => ("soon", Color::Yellow),
            (LinkState::Unknown, _) => ("-", Color::Reset),
        };
        let cells = [
            Cell::from(name.clone()),
            Cell::from(link).style(style),
            number(seconds(mobile.since_s)),
            number(bits(top.rates.newest(&to))),
            number(bits(top.rates.newest(&from))),
            number(mobile.flows.to_string()),
            number(bytes(mobile.cached_bytes)),
            Cell::from(sparkline(top, &to, bars.into())),
        ];
        Entry {
            rate: sum(top, [&to, &from]),
            cached: mobile.cached_bytes,
            row: Row::new(cells),
            name,
        }
    });
    let widths = [15, 6, 7, 9, 9, 5, 9, bars];
    let names = [
        "mobile", "link", "since", "to MH", "from MH", "flows", "cached", "",
    ];
    list(top, rows.collect(), &names, &widths, frame, area)
}

fn flows(top: &Top, status: &StatusReply, frame: &mut Frame<'_>, area: Rect) -> usize {
    let rows = status.flow_list.iter().map(|flow| {
        let name = flow_name(flow);
        let (to, from) = (format!("{name} to"), format!("{name} from"));
        let cells = [
            Cell::from(flow.fh.to_string()),
            Cell::from(flow.mh.to_string()),
            number(bits(top.rates.newest(&to))),
            number(bits(top.rates.newest(&from))),
            number(bytes(flow.cached_bytes)),
            Cell::from(flow.state.clone()),
        ];
        Entry {
            rate: sum(top, [&to, &from]),
            cached: flow.cached_bytes,
            row: Row::new(cells),
            name: format!("{} {} {}", flow.fh, flow.mh, flow.state),
        }
    });
    let end = area.width.saturating_sub(42) / 2;
    let widths = [end, end, 9, 9, 9, 10];
    let names = ["flow: FH", "MH", "to MH", "from MH", "cached", "state"];
    list(top, rows.collect(), &names, &widths, frame, area)
}

fn sources(top: &Top, status: &MobileSessionStatus, frame: &mut Frame<'_>, area: Rect) -> usize {
    let rows = status.sources.iter().map(|source| Entry {
        name: source.name.clone(),
        rate: 0.0,
        cached: 0,
        row: Row::new([
            Cell::from(source.name.clone()),
            number(source.events.to_string()),
            Cell::from(match &source.problem {
                Some(problem) => problem.clone(),
                None if source.runs => "runs".to_owned(),
                None => "does not run".to_owned(),
            }),
        ]),
    });
    let widths = [20, 10, area.width.saturating_sub(32)];
    list(
        top,
        rows.collect(),
        &["link source", "events", "state"],
        &widths,
        frame,
        area,
    )
}

fn counters(
    top: &Top,
    counters: &BTreeMap<String, u64>,
    frame: &mut Frame<'_>,
    area: Rect,
) -> usize {
    let counted = counters.iter().filter(|(_, count)| **count > 0);
    let rows = counted.map(|(name, count)| {
        let rate = top.rates.newest(name).filter(|rate| *rate > 0.0);
        let cells = [
            Cell::from(name.clone()),
            number(count.to_string()),
            number(rate.map_or(String::new(), |rate| format!("{rate:.1}/s"))),
        ];
        Entry {
            name: name.clone(),
            rate: rate.unwrap_or(0.0),
            cached: *count,
            row: Row::new(cells),
        }
    });
    list(
        top,
        rows.collect(),
        &["counter", "value", "rises by"],
        &[36, 18, 14],
        frame,
        area,
    )
}

/// Draws a table of the rows that the filter shows, sorted and scrolled. Returns the number of rows that
/// are scrolled away.
fn list(
    top: &Top,
    mut entries: Vec<Entry>,
    names: &[&'static str],
    widths: &[u16],
    frame: &mut Frame<'_>,
    area: Rect,
) -> usize {
    entries.retain(|entry| entry.name.contains(&top.filter));
    entries.sort_by(|a, b| {
        let by_value = match top.sort {
            Sort::Rate => b.rate.total_cmp(&a.rate),
            Sort::Cached => b.cached.cmp(&a.cached),
            Sort::Name => std::cmp::Ordering::Equal,
        };
        by_value.then_with(|| a.name.cmp(&b.name))
    });
    // The last rows stay on the screen.
    let room = usize::from(area.height.saturating_sub(1));
    let skipped = top.scroll.min(entries.len().saturating_sub(room));
    let order = match top.sort {
        Sort::Rate => "to MH",
        Sort::Cached => "cached",
        Sort::Name => names[0],
    };
    let header = names.iter().map(|name| {
        let cell = if *name == names[0] || ["link", "MH", "state"].contains(name) {
            Cell::from(*name)
        } else {
            number((*name).to_owned())
        };
        let is_order = *name == order;
        cell.style(Style::new().add_modifier(if is_order {
            Modifier::UNDERLINED
        } else {
            Modifier::empty()
        }))
    });
    let rows = entries.into_iter().skip(skipped).map(|entry| entry.row);
    let table = Table::new(rows, widths.iter().copied().map(Constraint::Length))
        .header(Row::new(header).style(Style::new().bold().reversed()))
        .style(if top.error.is_some() {
            Style::new().dim()
        } else {
            Style::new()
        });
    frame.render_widget(table, area);
    skipped
}

fn number(text: String) -> Cell<'static> {
    Cell::from(Text::from(text).alignment(Alignment::Right))
}

fn sum(top: &Top, names: [&str; 2]) -> f64 {
    names.iter().filter_map(|name| top.rates.newest(name)).sum()
}

/// Bytes a second as bits a second for people.
fn bits(bytes_per_s: Option<f64>) -> String {
    let Some(bits) = bytes_per_s.map(|bytes| bytes * 8.0) else {
        return "-".to_owned();
    };
    match bits {
        _ if bits < 1e3 => format!("{bits:.0} b/s"),
        _ if bits < 1e6 => format!("{:.1} kb/s", bits / 1e3),
        _ if bits < 1e9 => format!("{:.1} Mb/s", bits / 1e6),
        _ => format!("{:.1} Gb/s", bits / 1e9),
    }
}

/// The newest rates of a count as bars, the largest of them full.
fn sparkline(top: &Top, name: &str, width: usize) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let Some(history) = top.rates.history.get(name) else {
        return String::new();
    };
    let shown = history.iter().skip(history.len().saturating_sub(width));
    let most = shown.clone().copied().fold(1.0, f64::max);
    let bars = shown.map(|rate| BARS[(rate / most * 8.0).ceil() as usize]);
    format!("{:>width$}", bars.collect::<String>())
}
