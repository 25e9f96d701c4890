// SPDX-License-Identifier: Apache-2.0
//! `holdfast top`: what a running daemon sees, again and again, on a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::control::{ControlReply, ControlRequest, ask};
use crate::settings::GATEWAY_SOCKET;
use crate::status::{gateway_text, mobile_text};

/// A screen of its own, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What Ctrl-C and Ctrl-D are where the terminal makes no signals of them.
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

/// Watch what a running daemon sees; `q` quits
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdfast top
  holdfast top --flows 10 --interval 0.5
  holdfast top --socket /run/holdfast/mobile.sock")]
pub(crate) struct TopArgs {
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", default_value = GATEWAY_SOCKET)]
    socket: PathBuf,
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
/// start (one that goes later is waited for).
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<()> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        bail!("top: needs a terminal; `holdfast status` prints once, wherever to");
    }
    let mut rates = Rates::default();
    let mut text = look(args, &mut rates)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("cannot take over signals")?;
    }
    let _screen = Screen::enter()?;
    while !stop.load(Ordering::Relaxed) {
        show(args.interval, &text)?;
        if quits_within(args.interval)? {
            break;
        }
        text = look(args, &mut rates).unwrap_or_else(|error| format!("{error:#}\n"));
    }
    Ok(())
}

/// One look at the daemon, as text.
fn look(args: &TopArgs, rates: &mut Rates) -> anyhow::Result<String> {
    let request = ControlRequest::Status {
        flows_max: args.flows,
        outages_max: 0,
    };
    let (mut text, counters) = match ask(&args.socket, &request)? {
        ControlReply::Gateway(mut status) => {
            let counters = std::mem::take(&mut status.counters);
            (gateway_text(&status), counters)
        }
        ControlReply::Mobile(mut status) => {
            let counters = std::mem::take(&mut status.counters);
            (mobile_text(&status), counters)
        }
        ControlReply::Error { .. } | ControlReply::Done => {
            bail!("{}: an answer without a status", args.socket.display())
        }
    };
    rates.write(counters, Instant::now(), &mut text);
    Ok(text)
}

/// Counters and how fast they rise.
#[derive(Debug, Default)]
struct Rates {
    last: Option<(Instant, BTreeMap<String, u64>)>,
}

impl Rates {
    /// Adds a line for each counter that is not 0: its value, and what it rose by a
    /// second since the last time.
    fn write(&mut self, counters: BTreeMap<String, u64>, now: Instant, text: &mut String) {
        let shown = || counters.iter().filter(|(_, count)| **count > 0);
        let width = shown().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, count) in shown() {
            let rate = self.last.as_ref().and_then(|(at, last)| {
                let seconds = now.saturating_duration_since(*at).as_secs_f64();
                // A smaller one is another daemon's.
                let rise = count.checked_sub(*last.get(name).unwrap_or(&0))?;
                (rise > 0 && seconds > 0.0).then(|| rise as f64 / seconds)
            });
            // Writing into a String cannot fail.
            let _ = match rate {
                Some(rate) => writeln!(text, "  {name:width$} {count:>14} {rate:>12.1}/s"),
                None => writeln!(text, "  {name:width$} {count:>14}"),
            };
        }
        self.last = Some((now, counters));
    }
}

/// The terminal, as it was again when dropped.
struct Screen {
    before: Termios,
}

impl Screen {
    fn enter() -> anyhow::Result<Self> {
        let input = std::io::stdin();
        let before = tcgetattr(&input)?;
        let mut ours = before.clone();
        // Keys come one by one and unseen, Ctrl-C among them.
        ours.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        ours.special_codes[SpecialCodeIndex::VMIN] = 0;
        ours.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&input, OptionalActions::Now, &ours)?;
        let screen = Self { before };
        put(ENTER)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal needs nothing.
        let _ = put(LEAVE);
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn show(interval: Duration, text: &str) -> anyhow::Result<()> {
    let size = tcgetwinsize(std::io::stdout())?;
    let title = format!("holdfast top, every {} s; q quits", interval.as_secs_f64());
    put(&frame(&title, text, size.ws_col.into(), size.ws_row.into()))
}

/// Waits for `limit`; true if a key or a signal ends it all.
fn quits_within(limit: Duration) -> anyhow::Result<bool> {
    let by = Instant::now() + limit;
    loop {
        let left = by.saturating_duration_since(Instant::now());
        let input = std::io::stdin();
        let mut fds = [PollFd::new(&input, PollFlags::IN)];
        let left = Timespec::try_from(left)?;
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        let mut keys = [0; 16];
        let len = rustix::io::read(&input, &mut keys)?;
        let quits = |key: &u8| [b'q', b'Q', CTRL_C, CTRL_D].contains(key);
        // Readable and nothing to read: the terminal is closed.
        if len == 0 || keys[..len].iter().any(quits) {
            return Ok(true);
        }
    }
}

fn put(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}

/// The title and the text as one screen: cut where the screen ends, over what was there.
fn frame(title: &str, text: &str, columns: usize, rows: usize) -> String {
    // A terminal that does not know its size.
    let (columns, rows) = (
        if columns == 0 { 80 } else { columns },
        if rows == 0 { 24 } else { rows },
    );
    let mut frame = "\x1b[H".to_owned();
    let lines = [title, ""].into_iter().chain(text.lines());
    for (row, line) in lines.take(rows).enumerate() {
        if row > 0 {
            frame.push_str("\r\n");
        }
        // No text of a daemon moves the cursor.
        frame.extend(line.chars().filter(|char| !char.is_control()).take(columns));
        frame.push_str("\x1b[K");
    }
    frame.push_str("\x1b[J");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_no_larger_than_the_screen_and_moves_no_cursor() {
        let text = "first line\nsecond \x1b[2Jline\nthird\nfourth\n";
        let shown = frame("title", text, 8, 4);
        let rows: Vec<_> = shown.split("\r\n").collect();
        assert_eq!(
            rows,
            [
                "\x1b[Htitle\x1b[K",
                "\x1b[K",
                "first li\x1b[K",
                "second [\x1b[K\x1b[J"
            ]
        );
    }

    #[test]
    fn counters_are_shown_with_what_they_rise_by_a_second() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let counters = |a: u64| BTreeMap::from([("a".to_owned(), a), ("never".to_owned(), 0)]);
        let mut lines = Vec::new();
        for (seconds, count) in [(0, 10), (2, 30), (4, 30), (6, 5)] {
            let mut text = String::new();
            rates.write(
                counters(count),
                start + Duration::from_secs(seconds),
                &mut text,
            );
            lines.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        assert_eq!(lines, ["a 10", "a 30 10.0/s", "a 30", "a 5"]);
    }

    #[test]
    fn the_interval_is_a_time_that_a_reader_can_follow() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "nan", "x", "3601"] {
            assert!(interval(text).unwrap_err().starts_with("got `"), "{text}");
        }
    }
}
