// SPDX-License-Identifier: Apache-2.0
//! The few messages of nl80211 that are sent or read (`include/uapi/linux/nl80211.h`).
//!
//! Attributes that are not needed here are skipped unread. So an event is not lost if a driver or a later
//! kernel extends one of them.

use std::time::Duration;

use netlink_packet_core::{DecodeError, Emitable, NlaBuffer, ParseableParametrized};
use netlink_packet_generic::{GenlFamily, GenlHeader};

const CMD_GET_INTERFACE: u8 = 5;
const CMD_NEW_INTERFACE: u8 = 7;
const CMD_GET_STATION: u8 = 17;
const CMD_NEW_STATION: u8 = 19;
const CMD_GET_SCAN: u8 = 32;
const CMD_NEW_SCAN_RESULTS: u8 = 34;
const CMD_AUTHENTICATE: u8 = 37;
const CMD_DEAUTHENTICATE: u8 = 39;
const CMD_DISASSOCIATE: u8 = 40;
const CMD_CONNECT: u8 = 46;
const CMD_ROAM: u8 = 47;
const CMD_DISCONNECT: u8 = 48;
const CMD_SET_CQM: u8 = 63;
const CMD_NOTIFY_CQM: u8 = 64;

const ATTR_IFINDEX: u16 = 3;
const ATTR_IFTYPE: u16 = 5;
const ATTR_STA_INFO: u16 = 21;
const ATTR_BSS: u16 = 47;
const ATTR_TIMED_OUT: u16 = 65;
const ATTR_STATUS_CODE: u16 = 72;
const ATTR_CQM: u16 = 94;

const STA_INFO_SIGNAL: u16 = 7;
const STA_INFO_SIGNAL_AVG: u16 = 13;
const STA_INFO_FLAGS: u16 = 17;
/// The bit of `NL80211_STA_FLAG_AUTHORIZED` in `struct nl80211_sta_flag_update`.
const AUTHORIZED: u32 = 1 << 1;

const BSS_BSSID: u16 = 1;
const BSS_INFORMATION_ELEMENTS: u16 = 6;
const BSS_SIGNAL_MBM: u16 = 7;
const BSS_STATUS: u16 = 9;
const BSS_SEEN_MS_AGO: u16 = 10;
const STATUS_ASSOCIATED: u32 = 1;
/// The identifier of the SSID among a frame's elements.
const ELEMENT_SSID: u8 = 0;

const CQM_RSSI_THOLD: u16 = 1;
const CQM_RSSI_HYST: u16 = 2;
const CQM_RSSI_THRESHOLD_EVENT: u16 = 3;
const CQM_BEACON_LOSS_EVENT: u16 = 8;
const CQM_RSSI_LEVEL: u16 = 9;
const CQM_EVENT_LOW: u32 = 0;
const CQM_EVENT_HIGH: u32 = 1;

/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;

const IFTYPE_STATION: u32 = 2;
const IFTYPE_AP: u32 = 3;

/// What a Wi-Fi interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WifiRole {
    /// An access point.
    AccessPoint,
    /// A station, with an access point or without.
    Station,
    /// Anything else: a mesh point, an ad-hoc network, a monitor.
    Other,
}

/// The events of a station's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WifiEvent {
    /// It authenticates with an access point: it has left its former access point, if any.
    Authenticating,
    /// It is associated with an access point, for the first time or after roaming.
    Joined,
    /// It tried to join and was refused, or received no answer.
    Refused,
    /// It is with no access point any more.
    Left,
    /// The signal crossed the threshold that was set.
    Threshold {
        /// It fell below; otherwise it rose above.
        is_low: bool,
        /// The signal, dBm, if the driver has it.
        dbm: Option<i32>,
    },
    /// Beacons of the access point stay away.
    BeaconLoss,
    /// The kernel dropped events, since they were read too late.
    Overrun,
}

/// The state of a station's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationSignal {
    /// It is associated with no access point.
    NoStation,
    /// It is associated, or about to be. Until the keys are there, the driver drops all packets.
    Joining,
    /// It is associated. The driver reports no signal, or none yet.
    Unknown,
    /// The signal in dBm, below 0: its average if the driver has one.
    Dbm(i8),
}

/// An access point in the results of the interface's last scans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPoint {
    /// Its address (BSSID).
    pub address: [u8; 6],
    /// The name of its network (SSID).
    pub network: Vec<u8>,
    /// Its signal, dBm.
    pub dbm: i32,
    /// How long ago its last beacon came.
    pub seen_ago: Duration,
    /// The interface is associated with it.
    pub is_own: bool,
}

/// A message of nl80211: its command and its attributes as they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    command: u8,
    attributes: Vec<u8>,
}

impl GenlFamily for Message {
    fn family_name() -> &'static str {
        "nl80211"
    }

    fn version(&self) -> u8 {
        1
    }

    fn command(&self) -> u8 {
        self.command
    }
}

impl Emitable for Message {
    fn buffer_len(&self) -> usize {
        self.attributes.len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer[..self.attributes.len()].copy_from_slice(&self.attributes);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Message {
    fn parse_with_param(octets: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self {
            command: header.cmd,
            attributes: octets.to_vec(),
        })
    }
}

impl Message {
    /// Requests all interfaces of Wi-Fi.
    pub(super) const fn get_interfaces() -> Self {
        Self {
            command: CMD_GET_INTERFACE,
            attributes: Vec::new(),
        }
    }

    /// The interface in the answer to that: its index, and what it is.
    pub(super) fn interface(&self) -> Option<(u32, WifiRole)> {
        if self.command != CMD_NEW_INTERFACE {
            return None;
        }
        let value = |kind| find(&self.attributes, kind).and_then(number);
        let role = match value(ATTR_IFTYPE)? {
            IFTYPE_AP => WifiRole::AccessPoint,
            IFTYPE_STATION => WifiRole::Station,
            _ => WifiRole::Other,
        };
        // A device without an interface (P2P) has no index.
        Some((value(ATTR_IFINDEX)?, role))
    }

    /// Requests the stations of an interface. If the interface is a station, that is its access point.
    pub(super) fn get_stations(ifindex: u32) -> Self {
        Self {
            command: CMD_GET_STATION,
            attributes: attribute(ATTR_IFINDEX, &ifindex.to_ne_bytes()),
        }
    }

    /// Requests the results of the last scans.
    pub(super) fn get_scan(ifindex: u32) -> Self {
        Self {
            command: CMD_GET_SCAN,
            attributes: attribute(ATTR_IFINDEX, &ifindex.to_ne_bytes()),
        }
    }

    /// The access point in an answer to that; none without a signal in dBm.
    pub(super) fn access_point(&self) -> Option<AccessPoint> {
        if self.command != CMD_NEW_SCAN_RESULTS {
            return None;
        }
        let bss = find(&self.attributes, ATTR_BSS)?;
        let value = |kind| find(bss, kind).and_then(number);
        let elements = find(bss, BSS_INFORMATION_ELEMENTS)?;
        Some(AccessPoint {
            address: *find(bss, BSS_BSSID)?.first_chunk()?,
            network: element(elements, ELEMENT_SSID)?.to_owned(),
            // Hundredths of a dBm.
            dbm: value(BSS_SIGNAL_MBM)?.cast_signed() / 100,
            seen_ago: Duration::from_millis(value(BSS_SEEN_MS_AGO)?.into()),
            is_own: value(BSS_STATUS) == Some(STATUS_ASSOCIATED),
        })
    }

    /// Requests an event when the signal crosses a threshold.
    pub(super) fn set_threshold(ifindex: u32, dbm: i32, hysteresis_db: u32) -> Self {
        let threshold = [
            attribute(CQM_RSSI_THOLD, &dbm.to_ne_bytes()),
            attribute(CQM_RSSI_HYST, &hysteresis_db.to_ne_bytes()),
        ];
        Self {
            command: CMD_SET_CQM,
            attributes: [
                attribute(ATTR_IFINDEX, &ifindex.to_ne_bytes()),
                attribute(ATTR_CQM | NESTED, &threshold.concat()),
            ]
            .concat(),
        }
    }

    /// The signal in a station's answer.
    pub(super) fn signal(&self) -> Option<StationSignal> {
        if self.command != CMD_NEW_STATION {
            return None;
        }
        let info = find(&self.attributes, ATTR_STA_INFO).unwrap_or_default();
        if !is_authorized(info) {
            return Some(StationSignal::Joining);
        }
        let kinds = [STA_INFO_SIGNAL_AVG, STA_INFO_SIGNAL].into_iter();
        let mut levels = kinds.filter_map(|kind| Some(*find(info, kind)?.first()? as i8));
        // Before the first beacon some drivers answer 0.
        let level = levels.find(|dbm| *dbm < 0);
        Some(level.map_or(StationSignal::Unknown, StationSignal::Dbm))
    }

    /// The event in this message, if it is of the interface with this index.
    pub(super) fn event(&self, ifindex: u32) -> Option<WifiEvent> {
        if number(find(&self.attributes, ATTR_IFINDEX)?)? != ifindex {
            return None;
        }
        match self.command {
            CMD_AUTHENTICATE if self.has(ATTR_TIMED_OUT) => Some(WifiEvent::Refused),
            CMD_AUTHENTICATE => Some(WifiEvent::Authenticating),
            CMD_DEAUTHENTICATE | CMD_DISASSOCIATE | CMD_DISCONNECT => Some(WifiEvent::Left),
            CMD_CONNECT => {
                let status = find(&self.attributes, ATTR_STATUS_CODE)
                    .and_then(|octets| octets.first_chunk())
                    .map_or(0, |octets| u16::from_ne_bytes(*octets));
                let refused = status != 0 || self.has(ATTR_TIMED_OUT);
                Some(if refused {
                    WifiEvent::Refused
                } else {
                    WifiEvent::Joined
                })
            }
            CMD_ROAM => Some(WifiEvent::Joined),
            CMD_NOTIFY_CQM => quality(find(&self.attributes, ATTR_CQM)?),
            _ => None,
        }
    }

    fn has(&self, kind: u16) -> bool {
        find(&self.attributes, kind).is_some()
    }
}

/// Whether packets pass; yes where the driver does not know.
fn is_authorized(info: &[u8]) -> bool {
    let flags = find(info, STA_INFO_FLAGS).unwrap_or_default();
    let (Some(known), Some(set)) = (number(flags), flags.get(4..).and_then(number)) else {
        return true;
    };
    known & AUTHORIZED == 0 || set & AUTHORIZED != 0
}

fn quality(attributes: &[u8]) -> Option<WifiEvent> {
    if find(attributes, CQM_BEACON_LOSS_EVENT).is_some() {
        return Some(WifiEvent::BeaconLoss);
    }
    let dbm = find(attributes, CQM_RSSI_LEVEL).and_then(number);
    let is_low = match number(find(attributes, CQM_RSSI_THRESHOLD_EVENT)?)? {
        CQM_EVENT_LOW => true,
        CQM_EVENT_HIGH => false,
        _ => return None,
    };
    Some(WifiEvent::Threshold {
        is_low,
        dbm: dbm.map(|dbm| dbm as i32),
    })
}

/// The value of the first attribute of this kind. Attributes behind a damaged one are not read.
fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    loop {
        let attribute = NlaBuffer::new_checked(rest).ok()?;
        let (is_it, length) = (attribute.kind() == kind, usize::from(attribute.length()));
        if is_it {
            return rest.get(4..length);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// The value of the first element of a frame with this identifier (IEEE 802.11, 9.4.2.1).
fn element(mut elements: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        let [identifier, length, rest @ ..] = elements else {
            return None;
        };
        let (value, after) = rest.split_at_checked(usize::from(*length))?;
        if *identifier == wanted {
            return Some(value);
        }
        elements = after;
    }
}

fn number(octets: &[u8]) -> Option<u32> {
    octets
        .first_chunk()
        .map(|octets| u32::from_ne_bytes(*octets))
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = Vec::with_capacity(4 + value.len().next_multiple_of(4));
    octets.extend((4 + value.len() as u16).to_ne_bytes());
    octets.extend(kind.to_ne_bytes());
    octets.extend(value);
    octets.resize(4 + value.len().next_multiple_of(4), 0);
    octets
}
