// SPDX-License-Identifier: Apache-2.0

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;

use holdfast_core::{LinkSource, LinkState};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::control::{CacheStatus, FlowTableStatus, StatusReply, leave_abandoned};

fn mobile(name: Option<&str>, last: u8, link: LinkState, delivered_bytes: u64) -> MobileStatus {
    MobileStatus {
        name: name.map(str::to_owned),
        addresses: vec![[10, 9, 0, last].into()],
        link,
        source: match link {
            LinkState::Down => LinkSource::Silence,
            _ => LinkSource::Signal,
        },
        since_s: 12.0,
        flows: 3,
        cached_bytes: 3 << 20,
        delivered_bytes: Some(delivered_bytes),
        received_bytes: Some(0),
        ..MobileStatus::default()
    }
}

/// A gateway of the process `pid` after these bytes.
fn gateway(pid: u32, bytes: u64) -> ControlReply {
    let flow = |port: u16, state: &str, mh_ack: u32| FlowStatus {
        fh: ([192, 0, 2, 7], 443).into(),
        mh: ([10, 9, 0, 2], port).into(),
        state: state.to_owned(),
        cached_bytes: u64::from(port),
        owed_bytes: 0,
        mh_ack: Some(mh_ack),
        mh_nxt: Some(7),
    };
    ControlReply::Gateway(Box::new(StatusReply {
        pid,
        uptime_s: 600.0,
        scheme: "auto".into(),
        wireless: "wlan0".into(),
        data_path: "tc-tap".into(),
        attached: true,
        flows: FlowTableStatus {
            tracked: 6,
            flows_max: 65536,
            in_outage: 3,
        },
        cache: CacheStatus {
            bytes: 6 << 20,
            bytes_max: 320 << 20,
            owed_bytes: 0,
        },
        link_bytes: Some(LinkBytes {
            downlink: bytes,
            uplink: bytes / 10,
        }),
        mobiles: vec![
            mobile(None, 17, LinkState::Down, 0),
            mobile(Some("train-7"), 2, LinkState::Up, bytes),
        ],
        counters: BTreeMap::from([("segments".to_owned(), bytes / 1000)]),
        // A sequence number that passes 2^32.
        flow_list: vec![
            flow(50_001, "recovering", 9),
            flow(50_002, "open", (bytes as u32).wrapping_sub(1_000_000)),
        ],
        ..StatusReply::default()
    }))
}

/// The screen of 80 x 24, without blanks at the ends of lines.
fn screen(top: &mut Top) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| view::draw(top, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |row: &[ratatui::buffer::Cell]| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    };
    buffer.content.chunks(80).map(line).collect()
}

/// After looks a second apart.
fn after(looks: impl IntoIterator<Item = ControlReply>) -> Top {
    let (mut top, start) = (Top::default(), Instant::now());
    for (second, reply) in (0..).zip(looks) {
        top.handle_reply(reply, start + Duration::from_secs(second));
    }
    top
}

fn press(top: &mut Top, keys: &str) {
    for char in keys.chars() {
        let outcome = top.handle_key(KeyCode::Char(char).into());
        assert_eq!(outcome, KeyOutcome::Stay, "{char}");
    }
}

#[test]
fn a_screen_of_80_x_24_has_mobiles_and_flows_with_their_rates() {
    let mut top = after([gateway(1, 0), gateway(1, 500_000), gateway(1, 3_000_000)]);
    let shown = screen(&mut top);
    let expected = "\
gateway wlan0, scheme auto, up 10 min, data path tc-tap
to MH 20.0 Mb/s         ▂█ from MH  2.0 Mb/s  flows 6 of 65536, 3 in an outage
cache 6.0 MiB of 320.0 MiB  outages 0, stall saved 0 ms
mobile          link     since     to MH   from MH flows    cached
train-7         up      12.0 s 20.0 Mb/s     0 b/s     3   3.0 MiB            ▂█
10.9.0.17       silent  12.0 s     0 b/s     0 b/s     3   3.0 MiB


";
    let expected: Vec<_> = expected.lines().map(str::trim_end).collect();
    assert_eq!(shown[..expected.len()], expected);
    let flows = shown
        .iter()
        .skip_while(|line| !line.starts_with("flow: FH"));
    let flows: Vec<_> = flows.take(3).map(String::as_str).collect();
    assert_eq!(
        flows,
        [
            "flow: FH            MH                      to MH   from MH    cached state",
            "192.0.2.7:443       10.9.0.2:50002      20.0 Mb/s     0 b/s  48.8 KiB open",
            "192.0.2.7:443       10.9.0.2:50001          0 b/s     0 b/s  48.8 KiB recovering",
        ]
    );
    assert!(shown[23].starts_with("q quit  ? help"), "{}", shown[23]);
}

#[test]
fn keys_sort_filter_scroll_and_explain() {
    let mut top = after([gateway(1, 0), gateway(1, 500_000)]);
    let first = |top: &mut Top| screen(top)[4].split(' ').next().unwrap().to_owned();
    assert_eq!(first(&mut top), "train-7");
    press(&mut top, "ss");
    assert_eq!(first(&mut top), "10.9.0.17", "by name");
    // Keys are text while a filter is written, `q` too.
    press(&mut top, "/trainq");
    assert_eq!(screen(&mut top)[23], "/trainq_");
    assert_eq!(first(&mut top), "");
    top.handle_key(KeyCode::Backspace.into());
    top.handle_key(KeyCode::Enter.into());
    assert_eq!(first(&mut top), "train-7");
    assert!(screen(&mut top)[23].contains("rows with `train`"));
    top.handle_key(KeyCode::Esc.into());
    press(&mut top, "c");
    let counter = |line: &String| line.starts_with("segments") && line.ends_with("500.0/s");
    assert!(
        screen(&mut top).iter().any(counter),
        "{:#?}",
        screen(&mut top)
    );
    press(&mut top, "jjjj?");
    assert!(
        screen(&mut top)
            .iter()
            .any(|line| line.contains("s             sort by"))
    );
    assert_eq!(first(&mut top), "10.9.0.17", "the last rows stay");
    for key in [
        KeyEvent::from(KeyCode::Char('q')),
        KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
    ] {
        assert_eq!(top.handle_key(key), KeyOutcome::Quit);
    }
}

#[test]
fn a_key_beyond_the_last_rows_needs_no_other_key_to_undo_it() {
    let mut reply = gateway(1, 0);
    if let ControlReply::Gateway(status) = &mut reply {
        status.mobiles = (1..=40)
            .map(|last| mobile(None, last, LinkState::Up, 0))
            .collect();
    }
    let mut top = after([reply]);
    // The upper table has 9 rows of 40.
    press(&mut top, &"j".repeat(99));
    let end = screen(&mut top);
    press(&mut top, "k");
    let above = screen(&mut top);
    assert_eq!(end[4..12], above[5..13], "{end:#?} {above:#?}");
    // Fewer rows scroll less.
    press(&mut top, "/.17");
    screen(&mut top);
    assert_eq!(top.scroll, 0);
}

/// Answers one caller.
fn answer(listener: &UnixListener, reply: &ControlReply) {
    let (stream, _) = listener.accept().unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    serde_json::to_writer(&stream, reply).unwrap();
    (&stream).write_all(b"\n").unwrap();
}

#[test]
fn a_daemon_that_restarts_is_found_again_and_its_counts_begin_anew() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gateway.sock");
    let args = TopArgs {
        socket: Some(socket.clone()),
        interval: Duration::from_secs(1),
        flows: 20,
    };
    let (mut top, start) = (Top::default(), Instant::now());
    let look_at = |top: &mut Top, second: u64, reply: &ControlReply| {
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let reply = std::thread::scope(|scope| {
            scope.spawn(|| answer(&listener, reply));
            query_daemon(&args).unwrap()
        });
        top.handle_reply(reply, start + Duration::from_secs(second));
    };
    look_at(&mut top, 0, &gateway(1, 4_000_000));
    look_at(&mut top, 1, &gateway(1, 5_000_000));
    assert_eq!(top.rates.newest("train-7 to"), Some(1e6));
    // It was killed.
    std::fs::remove_file(&socket).unwrap();
    leave_abandoned(&socket);
    top.refuse(&query_daemon(&args).unwrap_err());
    let shown = screen(&mut top);
    assert!(shown[23].contains("no daemon answers"), "{}", shown[23]);
    assert!(shown[4].starts_with("train-7"), "{}", shown[4]);
    look_at(&mut top, 5, &gateway(2, 6_000_000));
    assert!(top.error.is_none());
    assert_eq!(
        top.rates.history["train-7 to"].len(),
        1,
        "no rate across both"
    );
    top.handle_reply(gateway(2, 6_500_000), start + Duration::from_secs(6));
    assert_eq!(top.rates.newest("train-7 to"), Some(5e5));
}

#[test]
fn the_interval_is_a_time_that_a_reader_can_follow() {
    assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
    for text in ["0", "nan", "x", "3601"] {
        assert!(interval(text).unwrap_err().starts_with("got `"), "{text}");
    }
}
