// SPDX-License-Identifier: Apache-2.0
//! One download over a wired link of 100 Mb/s and a radio link of 20 Mb/s, as a table of
//! the sender's windows over time:
//!
//! ```text
//! cargo run --release -p holdfast-sim --example series -- new-reno 10000000 [at_s for_s]
//! ```
//!
//! The last two are the begin and the length of an outage.

use holdfast_link::{OutageAt, OutageSettings};
use holdfast_sim::{Experiment, Preset};
use holdfast_wire::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("new-reno", String::as_str);
    let Some(preset) = Preset::ALL.into_iter().find(|preset| preset.name() == name) else {
        let names: Vec<_> = Preset::ALL.iter().map(|preset| preset.name()).collect();
        eprintln!("series: no sender {name}; there are {}", names.join(", "));
        return;
    };
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<f64>().ok());
    let list = match (number(2), number(3)) {
        (Some(at_s), Some(for_s)) => vec![OutageAt { at_s, for_s }],
        _ => Vec::new(),
    };
    let bytes = number(1).unwrap_or(10e6) as u64;
    let outages = OutageSettings::List { list };
    let mut experiment = match Experiment::reference(bytes, preset.settings(), outages) {
        Ok(experiment) => experiment,
        Err(error) => {
            eprintln!("series: {error}");
            return;
        }
    };
    experiment.series_interval = Some(Duration::from_millis(100));
    let outcome = experiment.run();
    let transfer = &outcome.transfers[0];
    println!("time_s cwnd ssthresh rwnd una nxt rcv_nxt rto_ms queue up");
    for point in &transfer.series {
        println!(
            "{:.1} {} {} {} {} {} {} {} {} {}",
            point.at.as_secs_f64(),
            point.cwnd,
            point.ssthresh.min(99_999_999),
            point.rwnd,
            point.snd_una,
            point.snd_nxt,
            point.rcv_nxt,
            point.rto.as_millis(),
            point.queue_packets,
            u8::from(point.link_up)
        );
    }
    println!("{:?}", transfer.transfer_time);
    println!("{:.2} Mb/s", transfer.goodput_bit_per_s / 1e6);
    println!("{:?}", transfer.sender);
    println!("{:?}", transfer.stalls);
}
