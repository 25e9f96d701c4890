// SPDX-License-Identifier: Apache-2.0
//! A handoff begun by the stronger signal (Snoop, 1995, section 3.3): "they are mobile-initiated and
//! occur when the mobile host discovers a base station with a stronger signal than the current
//! one".

use std::time::{Duration, Instant};

use holdfast_net::nl80211::AccessPoint;

use super::SourceEvent;

/// Older results of a scan are ignored.
const SEEN_AGO_MAX: Duration = Duration::from_secs(10);
/// Results with less time between them are of one scan.
const SCANS_APART_MIN: Duration = Duration::from_millis(100);
/// If the interface has not roamed after this time, the handoff begins again.
const RETRY: Duration = Duration::from_secs(30);

/// An access point, and when it was seen or chosen.
type At = ([u8; 6], Instant);

/// Decides whether an access point is stronger than the own one.
#[derive(Debug)]
pub(super) struct Stronger {
    by_db: i32,
    /// The strongest access point of the last scan, if it was stronger than the own one by `by_db`.
    candidate: Option<At>,
    /// The access point for which a handoff has begun. It is forgotten when it is not stronger than the own
    /// one, or after [`RETRY`].
    taken: Option<At>,
}

impl Stronger {
    pub(super) const fn new(by_db: i32) -> Self {
        Self {
            by_db,
            candidate: None,
            taken: None,
        }
    }

    /// The access point to roam to, returned once. In two scans in a row it was the strongest of the own
    /// network, and stronger than the own one.
    pub(super) fn look<'a>(
        &mut self,
        own_dbm: i32,
        points: &'a [AccessPoint],
        now: Instant,
    ) -> Option<&'a AccessPoint> {
        let before = self.candidate.take();
        let network = &points.iter().find(|point| point.is_own)?.network;
        let others = points.iter().filter(|point| {
            !point.is_own && point.network == *network && point.seen_ago <= SEEN_AGO_MAX
        });
        let is_above = |address: [u8; 6]| {
            let mut others = others.clone();
            others.any(|point| point.address == address && point.dbm > own_dbm)
        };
        self.taken = self.taken.filter(|(address, at)| {
            is_above(*address) && now.saturating_duration_since(*at) < RETRY
        });
        let strongest = others.clone().max_by_key(|point| point.dbm);
        let found = strongest.filter(|point| point.dbm >= own_dbm + self.by_db)?;
        let seen_at = now.checked_sub(found.seen_ago).unwrap_or(now);
        let before = before.filter(|(address, _)| *address == found.address);
        let is_second = match before {
            // The result is of the same scan.
            Some((_, at)) if seen_at < at + SCANS_APART_MIN => {
                self.candidate = before;
                return None;
            }
            before => before.is_some(),
        };
        self.candidate = Some((found.address, seen_at));
        if !is_second || self.taken.is_some_and(|(taken, _)| taken == found.address) {
            return None;
        }
        self.taken = Some((found.address, now));
        Some(found)
    }
}

/// A line for the log.
pub(super) fn begins(point: &AccessPoint, own_dbm: i8) -> SourceEvent {
    SourceEvent::Note(format!(
        "the access point {} is stronger, {} dBm for {own_dbm}: a handoff begins",
        text(point),
        point.dbm
    ))
}

/// `02:00:00:00:01:00`.
pub(super) fn text(point: &AccessPoint) -> String {
    point.address.map(|octet| format!("{octet:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u8 = 1;

    fn point(number: u8, dbm: i32) -> AccessPoint {
        AccessPoint {
            address: [2, 0, 0, 0, number, 0],
            network: b"net".to_vec(),
            dbm,
            seen_ago: Duration::from_secs(1),
            is_own: number == OWN,
        }
    }

    /// Looks at a new scan each three seconds, with the own one at -70 dBm.
    struct Looks {
        stronger: Stronger,
        now: Instant,
    }

    impl Looks {
        fn new() -> Self {
            Self {
                stronger: Stronger::new(8),
                now: Instant::now() + SEEN_AGO_MAX,
            }
        }

        /// The number of the access point to go to.
        fn look(&mut self, others: &[AccessPoint]) -> Option<u8> {
            self.now += Duration::from_secs(3);
            self.look_again(others)
        }

        fn look_again(&mut self, others: &[AccessPoint]) -> Option<u8> {
            let mut points = vec![point(OWN, -70)];
            points.extend_from_slice(others);
            let found = self.stronger.look(-70, &points, self.now);
            found.map(|point| point.address[4])
        }
    }

    #[test]
    fn an_access_point_that_stays_stronger_is_taken_once() {
        let mut looks = Looks::new();
        assert_eq!(looks.look(&[point(2, -63)]), None, "7 dB");
        assert_eq!(looks.look(&[point(2, -62)]), None, "the first look");
        assert_eq!(looks.look(&[point(2, -62)]), Some(2));
        assert_eq!(looks.look(&[point(2, -50)]), None, "taken");
        // Stronger than the own one all the time: it is the same handoff.
        for dbm in [-69, -50, -50] {
            assert_eq!(looks.look(&[point(2, dbm)]), None);
        }
        // Weaker in between: another one.
        looks.look(&[point(2, -70)]);
        assert_eq!(looks.look(&[point(2, -60)]), None);
        assert_eq!(looks.look(&[point(2, -60)]), Some(2));
    }

    #[test]
    fn one_scan_counts_once() {
        let mut looks = Looks::new();
        assert_eq!(looks.look(&[point(2, -60)]), None);
        // Half a second later the same result is half a second older.
        looks.now += Duration::from_millis(500);
        let mut same = point(2, -60);
        same.seen_ago += Duration::from_millis(500);
        assert_eq!(looks.look_again(&[same]), None);
        assert_eq!(looks.look(&[point(2, -60)]), Some(2));
    }

    #[test]
    fn a_handoff_without_effect_begins_again() {
        let mut looks = Looks::new();
        looks.look(&[point(2, -60)]);
        let begun: Vec<u32> = (0..21)
            .filter(|_| looks.look(&[point(2, -60)]).is_some())
            .collect();
        assert_eq!(begun, [0, 10, 20]);
    }

    #[test]
    fn the_strongest_one_has_to_be_so_twice_in_a_row() {
        let mut looks = Looks::new();
        assert_eq!(looks.look(&[point(2, -60), point(3, -61)]), None);
        assert_eq!(looks.look(&[point(2, -61), point(3, -60)]), None);
        // The own one is missing in between.
        looks.now += Duration::from_secs(3);
        assert_eq!(looks.stronger.look(-70, &[point(3, -60)], looks.now), None);
        assert_eq!(looks.look(&[point(2, -61), point(3, -60)]), None);
        assert_eq!(looks.look(&[point(2, -61), point(3, -60)]), Some(3));
    }

    #[test]
    fn other_networks_and_old_results_are_left_out() {
        let mut other = point(2, -40);
        other.network = b"other".to_vec();
        let mut old = point(3, -40);
        old.seen_ago = Duration::from_secs(11);
        let mut looks = Looks::new();
        for _ in 0..3 {
            assert_eq!(looks.look(&[other.clone(), old.clone()]), None);
        }
    }

    #[test]
    fn an_address_is_written_as_everywhere() {
        assert_eq!(text(&point(0x1f, -40)), "02:00:00:00:1f:00");
    }
}
