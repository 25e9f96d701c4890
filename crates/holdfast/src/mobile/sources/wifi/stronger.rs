// SPDX-License-Identifier: Apache-2.0
//! A handoff begun by the stronger signal (Snoop, 1995, section 3.3): "they are mobile-initiated and
//! occur when the mobile host discovers a base station with a stronger signal than the current
//! one".

use std::time::Duration;

use holdfast_net::nl80211::AccessPoint;

use super::SourceEvent;

/// Older results of a scan show nothing.
const SEEN_AGO_MAX: Duration = Duration::from_secs(10);

/// Whether an access point is stronger than the own one.
#[derive(Debug)]
pub(super) struct Stronger {
    by_db: i32,
    /// The one that was stronger at the last look.
    candidate: Option<[u8; 6]>,
    /// The one for which a handoff has begun; until it is weaker than the own one.
    taken: Option<[u8; 6]>,
}

impl Stronger {
    pub(super) const fn new(by_db: i32) -> Self {
        Self {
            by_db,
            candidate: None,
            taken: None,
        }
    }

    /// The access point to go to, once: of the own network, and at two looks in a row the strongest
    /// one and stronger than the own one.
    pub(super) fn look<'a>(
        &mut self,
        own_dbm: i32,
        points: &'a [AccessPoint],
    ) -> Option<&'a AccessPoint> {
        let network = &points.iter().find(|point| point.is_own)?.network;
        let others = points.iter().filter(|point| {
            !point.is_own && point.network == *network && point.seen_ago <= SEEN_AGO_MAX
        });
        let is_above = |address: [u8; 6], dbm: i32| {
            let mut others = others.clone();
            others.any(|point| point.address == address && point.dbm > dbm)
        };
        if self.taken.is_some_and(|taken| !is_above(taken, own_dbm)) {
            self.taken = None;
        }
        let strongest = others.clone().max_by_key(|point| point.dbm);
        let found = strongest.filter(|point| point.dbm >= own_dbm + self.by_db);
        let address = found.map(|point| point.address);
        let was_candidate = address.is_some() && self.candidate == address;
        self.candidate = address;
        if !was_candidate || self.taken == address {
            return None;
        }
        self.taken = address;
        found
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

    /// Looks with the own one at -70 dBm; the number of the access point to go to.
    fn look(stronger: &mut Stronger, others: &[AccessPoint]) -> Option<u8> {
        let mut points = vec![point(OWN, -70)];
        points.extend_from_slice(others);
        stronger.look(-70, &points).map(|point| point.address[4])
    }

    #[test]
    fn an_access_point_that_stays_stronger_is_taken_once() {
        let mut stronger = Stronger::new(8);
        assert_eq!(look(&mut stronger, &[point(2, -63)]), None, "7 dB");
        assert_eq!(
            look(&mut stronger, &[point(2, -62)]),
            None,
            "the first look"
        );
        assert_eq!(look(&mut stronger, &[point(2, -62)]), Some(2));
        assert_eq!(look(&mut stronger, &[point(2, -50)]), None, "taken");
        // Stronger than the own one all the time: it is the same handoff.
        for dbm in [-69, -50, -50] {
            assert_eq!(look(&mut stronger, &[point(2, dbm)]), None);
        }
        // Weaker in between: another one.
        look(&mut stronger, &[point(2, -70)]);
        assert_eq!(look(&mut stronger, &[point(2, -60)]), None);
        assert_eq!(look(&mut stronger, &[point(2, -60)]), Some(2));
    }

    #[test]
    fn the_strongest_one_has_to_be_so_twice_in_a_row() {
        let mut stronger = Stronger::new(8);
        assert_eq!(look(&mut stronger, &[point(2, -60), point(3, -61)]), None);
        assert_eq!(look(&mut stronger, &[point(2, -61), point(3, -60)]), None);
        assert_eq!(
            look(&mut stronger, &[point(2, -61), point(3, -60)]),
            Some(3)
        );
    }

    #[test]
    fn other_networks_and_old_results_are_left_out() {
        let mut other = point(2, -40);
        other.network = b"other".to_vec();
        let mut old = point(3, -40);
        old.seen_ago = Duration::from_secs(11);
        let mut stronger = Stronger::new(8);
        for _ in 0..3 {
            assert_eq!(look(&mut stronger, &[other.clone(), old.clone()]), None);
        }
        // Without an own access point nothing is known of its network.
        assert_eq!(stronger.look(-70, &[point(2, -40)]), None);
        assert_eq!(stronger.look(-70, &[point(2, -40)]), None);
    }

    #[test]
    fn an_address_is_written_as_everywhere() {
        assert_eq!(text(&point(0x1f, -40)), "02:00:00:00:1f:00");
    }
}
