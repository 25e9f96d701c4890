// SPDX-License-Identifier: Apache-2.0
//! The path with which this crate is measured and compared.

use holdfast_link::{LinkSettings, OutageSettings, SettingsError};
use holdfast_wire::Duration;

use super::{Experiment, Hop, Transfer};
use crate::tcp::TcpSettings;

impl Experiment {
    /// One download over a wired link of 100 Mb/s and 10 ms and a radio link of 20 Mb/s
    /// and 15 ms with a queue of 100 packets, at most 1000 s: the flow of the benchmark
    /// `speed` and of the example `series`. The radio link has `outages`, the same in both
    /// directions, and loses packets in them.
    ///
    /// # Errors
    /// Outages out of range.
    pub fn reference(
        bytes: u64,
        tcp: TcpSettings,
        outages: OutageSettings,
    ) -> Result<Self, SettingsError> {
        let wired = LinkSettings {
            rate_mbit_per_s: Some(100.0),
            delay_ms: 10.0,
            ..LinkSettings::default()
        };
        let radio = LinkSettings {
            rate_mbit_per_s: Some(20.0),
            delay_ms: 15.0,
            queue_packets_max: Some(100),
            outages,
            ..LinkSettings::default()
        };
        let mut experiment = Self::new(1, Duration::from_secs(1000));
        experiment.hops = vec![Hop::both_ways(&wired)?, Hop::both_ways(&radio)?];
        experiment.transfers = vec![Transfer::download(bytes, tcp)];
        Ok(experiment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::TransferOutcome;
    use crate::tcp::Preset;

    fn transfer(tcp: &TcpSettings) -> TransferOutcome {
        let experiment = Experiment::reference(20_000_000, *tcp, OutageSettings::None).unwrap();
        let mut outcome = experiment.run();
        assert!(outcome.transfers[0].finished);
        outcome.transfers.remove(0)
    }

    /// RFC 6582, 4: slow start without a limit loses some hundred segments of one window. Impatient
    /// ends that by a timeout, Slow-but-Steady retransmits one segment a round trip.
    #[test]
    fn burst_of_losses_costs_impatient_a_timeout_and_steady_a_round_trip_each() {
        let [impatient, steady] = [true, false].map(|impatient| {
            transfer(&TcpSettings {
                impatient,
                ..Preset::NewReno.settings()
            })
        });
        assert_eq!((impatient.sender.timeouts, steady.sender.timeouts), (1, 0));
        assert!(impatient.sender.data_segments_repeated > steady.sender.data_segments_repeated);
        let [early, late] = [impatient, steady].map(|outcome| outcome.transfer_time.unwrap());
        assert!(late > early + Duration::from_secs(1), "{early:?} {late:?}");
    }

    #[test]
    fn outages_are_those_of_both_directions_of_the_radio_link() {
        let outages = OutageSettings::Periodic {
            first_at_s: 1.0,
            every_s: 5.0,
            for_s: 0.5,
        };
        let tcp = Preset::Sack.settings();
        let experiment = Experiment::reference(20_000_000, tcp, outages).unwrap();
        assert!(experiment.hops[1].outages_shared);
        assert!(experiment.run().transfers[0].stalls.len() > 1);
        let negative = OutageSettings::Periodic {
            first_at_s: 1.0,
            every_s: 5.0,
            for_s: -1.0,
        };
        assert!(Experiment::reference(1, tcp, negative).is_err());
    }
}
