// SPDX-License-Identifier: Apache-2.0
//! `holdfast top`: what a running daemon sees, again and again, on a terminal.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, TerminalOptions, Viewport};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::control::{ControlReply, ControlRequest, FlowStatus, LinkBytes, MobileStatus, ask};
use crate::status::present_socket;

mod view;

/// The longest time until a signal is noticed.
const SIGNAL_WAIT: Duration = Duration::from_millis(250);
/// The number of rates that a sparkline shows.
const HISTORY: usize = 120;

/// Watch what a running daemon sees; `q` quits
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdfast top
  holdfast top --flows 100 --interval 0.5
  holdfast top --socket /run/holdfast/mobile.sock")]
pub(crate) struct TopArgs {
    /// The daemon's control socket; unless given the gateway's in /run/holdfast, or the mobile's
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Time between two looks in seconds, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// List up to N flows, those with most cached bytes first
    #[arg(long, value_name = "N", default_value_t = 20)]
    flows: usize,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("got `{text}`, takes seconds from 0.1 to 3600")),
    }
}

/// Runs `holdfast top` until `q` or a signal. Errors: no terminal; no daemon at the
/// start. If the daemon ends later, its return is awaited.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<()> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        bail!("top: needs a terminal; `holdfast status` prints once, wherever to");
    }
    let mut top = Top::default();
    top.handle_reply(query_daemon(args)?, Instant::now());
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("cannot take over signals")?;
    }
    // `terminal` also makes a panic restore the terminal before it ends the process.
    let shown = terminal().and_then(|mut terminal| show(&mut top, args, &mut terminal, &stop));
    ratatui::restore();
    shown
}

/// The whole screen, or 80 x 24 if the terminal does not know its size.
fn terminal() -> anyhow::Result<DefaultTerminal> {
    let viewport = match crossterm::terminal::size()? {
        (0, _) | (_, 0) => Viewport::Fixed(Rect::new(0, 0, 80, 24)),
        _ => Viewport::Fullscreen,
    };
    let terminal = ratatui::try_init_with_options(TerminalOptions { viewport })?;
    crossterm::execute!(std::io::stdout(), crossterm::terminal::EnterAlternateScreen)?;
    Ok(terminal)
}

/// Shows one status after another until a key or a signal ends it.
fn show(
    top: &mut Top,
    args: &TopArgs,
    terminal: &mut DefaultTerminal,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut due = Instant::now() + args.interval;
    while !stop.load(Ordering::Relaxed) {
        terminal.draw(|frame| view::draw(top, frame))?;
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            match query_daemon(args) {
                Ok(reply) => top.handle_reply(reply, Instant::now()),
                Err(error) => top.refuse(&error),
            }
            due = Instant::now() + args.interval;
        } else if event::poll(left.min(SIGNAL_WAIT))?
            && let Event::Key(key) = event::read()?
            && top.handle_key(key) == KeyOutcome::Quit
        {
            break;
        }
    }
    Ok(())
}

/// Queries the daemon once.
fn query_daemon(args: &TopArgs) -> anyhow::Result<ControlReply> {
    let request = ControlRequest::Status {
        flows_max: args.flows,
        outages_max: 0,
    };
    let socket = args.socket.clone().unwrap_or_else(present_socket);
    match ask(&socket, &request)? {
        ControlReply::Error { .. } | ControlReply::Done => {
            bail!("{}: an answer without a status", socket.display())
        }
        reply => Ok(reply),
    }
}

/// The order of the rows, the largest value first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Rate,
    Cached,
    Name,
}

/// Whether a key ends the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyOutcome {
    Stay,
    Quit,
}

/// The state of the screen.
#[derive(Debug, Default)]
struct Top {
    /// The newest status.
    reply: Option<ControlReply>,
    rates: Rates,
    /// Why there is no newer status.
    error: Option<String>,
    sort: Sort,
    /// Rows with this text are shown.
    filter: String,
    is_typing: bool,
    shows_help: bool,
    shows_counters: bool,
    /// Rows that are scrolled away.
    scroll: usize,
}

impl Top {
    fn handle_reply(&mut self, reply: ControlReply, now: Instant) {
        self.error = None;
        match &reply {
            ControlReply::Gateway(status) => {
                let mut counts = status.counters.clone();
                counts.extend(link_counts(status.link_bytes));
                counts.extend(status.mobiles.iter().flat_map(|mobile| {
                    let name = mobile_name(mobile);
                    let to = mobile.delivered_bytes.map(|to| (format!("{name} to"), to));
                    let from = mobile
                        .received_bytes
                        .map(|from| (format!("{name} from"), from));
                    to.into_iter().chain(from)
                }));
                let flows = status.flow_list.iter().flat_map(|flow| {
                    let name = flow_name(flow);
                    let to = flow.mh_ack.map(|ack| (format!("{name} to"), ack.into()));
                    let from = flow.mh_nxt.map(|nxt| (format!("{name} from"), nxt.into()));
                    to.into_iter().chain(from)
                });
                counts.extend(flows);
                self.rates.update(status.pid, counts, now);
            }
            ControlReply::Mobile(status) => {
                let mut counts = status.counters.clone();
                counts.extend(link_counts(status.link_bytes));
                self.rates.update(status.pid, counts, now);
            }
            ControlReply::Error { .. } | ControlReply::Done => {}
        }
        self.reply = Some(reply);
    }

    /// The query has failed; the last status stays on the screen.
    fn refuse(&mut self, error: &anyhow::Error) {
        self.error = Some(format!("{error:#}"));
    }

    fn handle_key(&mut self, key: KeyEvent) -> KeyOutcome {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            KeyCode::Char('c' | 'd') if is_control => return KeyOutcome::Quit,
            KeyCode::Enter if self.is_typing => self.is_typing = false,
            KeyCode::Backspace if self.is_typing => drop(self.filter.pop()),
            KeyCode::Char(char) if self.is_typing => self.filter.push(char),
            KeyCode::Esc => {
                (self.is_typing, self.shows_help) = (false, false);
                self.filter.clear();
            }
            KeyCode::Char('q' | 'Q') => return KeyOutcome::Quit,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('c') => self.shows_counters = !self.shows_counters,
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Rate => Sort::Cached,
                    Sort::Cached => Sort::Name,
                    Sort::Name => Sort::Rate,
                }
            }
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        KeyOutcome::Stay
    }
}

fn mobile_name(mobile: &MobileStatus) -> String {
    let address = || mobile.addresses.first().map(ToString::to_string);
    mobile.name.clone().or_else(address).unwrap_or_default()
}

/// The prefix of flows' names; no mobile's name begins with it.
const FLOW: &str = "flow\t";

fn flow_name(flow: &FlowStatus) -> String {
    format!("{FLOW}{}\t{}", flow.fh, flow.mh)
}

/// The prefix of the names for the whole link.
const LINK: &str = "link\t";

fn link_counts(bytes: Option<LinkBytes>) -> impl Iterator<Item = (String, u64)> {
    bytes.into_iter().flat_map(|bytes| {
        [
            (format!("{LINK} to"), bytes.downlink),
            (format!("{LINK} from"), bytes.uplink),
        ]
    })
}

/// Counts by name, and their increase a second.
#[derive(Debug, Default)]
struct Rates {
    pid: u32,
    at: Option<Instant>,
    counts: BTreeMap<String, u64>,
    /// The newest rate last.
    history: BTreeMap<String, VecDeque<f64>>,
}

impl Rates {
    /// Takes the counts of a query. Counts that are not among them are forgotten.
    fn update(&mut self, pid: u32, counts: BTreeMap<String, u64>, now: Instant) {
        // Another process has begun to count from 0.
        let at = self.at.filter(|_| self.pid == pid);
        let elapsed_s = at.map(|at| now.saturating_duration_since(at).as_secs_f64());
        self.history.retain(|name, _| counts.contains_key(name));
        for (name, count) in &counts {
            let rate = elapsed_s.filter(|s| *s > 0.0).and_then(|elapsed_s| {
                let before = *self.counts.get(name)?;
                let rise = if name.starts_with(FLOW) {
                    // Flows have sequence numbers instead of counts.
                    let rise = (*count as u32).wrapping_sub(before as u32);
                    u64::try_from(rise.cast_signed()).ok()?
                } else {
                    count.checked_sub(before)?
                };
                Some(rise as f64 / elapsed_s)
            });
            if let Some(rate) = rate {
                let history = self.history.entry(name.clone()).or_default();
                history.push_back(rate);
                if history.len() > HISTORY {
                    history.pop_front();
                }
            }
        }
        (self.pid, self.at, self.counts) = (pid, Some(now), counts);
    }

    /// The newest rate; none before the second query.
    fn newest(&self, name: &str) -> Option<f64> {
        self.history.get(name)?.back().copied()
    }
}

#[cfg(test)]
mod tests;
