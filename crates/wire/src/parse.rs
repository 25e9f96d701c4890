// SPDX-License-Identifier: Apache-2.0
//! Bytes of a frame to a [`Segment`].

use core::net::IpAddr;

use etherparse::{
    IpNumber, IpSlice, Ipv6ExtensionSlice, Ipv6ExtensionsSlice, TcpOptionElement, TcpSlice,
};

use crate::{Endpoint, Flags, Options, Segment, SeqNum, Timestamps};

/// Where the parts of a frame begin: offsets in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The IP header.
    pub ip: usize,
    /// The TCP header.
    pub tcp: usize,
    /// The payload: also the length of all headers together.
    pub payload: usize,
    /// The end of the payload. Behind it is the padding of a short Ethernet frame.
    pub end: usize,
}

/// Why a frame is not a TCP segment for us. Such a frame passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTcp {
    /// Neither IPv4 nor IPv6, or cut short, or its lengths contradict one another.
    Malformed,
    /// A fragment.
    Fragment,
    /// Another protocol above IP. TCP behind an authentication header (RFC 4302) counts as one: only
    /// its sender can change or repeat such a packet.
    OtherProtocol,
}

/// Reads the segment in `frame`, whose IP header begins at `ip`.
///
/// # Errors
/// [`NotTcp`] names what it is instead. No input panics.
pub fn parse(frame: &[u8], ip: usize) -> Result<(Segment, Layout), NotTcp> {
    let packet = frame.get(ip..).ok_or(NotTcp::Malformed)?;
    let slice = IpSlice::from_slice(packet).map_err(|_| NotTcp::Malformed)?;
    if slice.is_fragmenting_payload() {
        return Err(NotTcp::Fragment);
    }
    let payload = slice.payload();
    if payload.ip_number != IpNumber::TCP || is_authenticated(&slice) {
        return Err(NotTcp::OtherProtocol);
    }
    let tcp = TcpSlice::from_slice(payload.payload).map_err(|_| NotTcp::Malformed)?;
    let (from, to) = addresses(&slice);
    let tcp_at = payload.payload.as_ptr() as usize - frame.as_ptr() as usize;
    let payload_at = tcp_at + tcp.header_slice().len();
    let segment = Segment {
        from: Endpoint {
            address: from,
            port: tcp.source_port(),
        },
        to: Endpoint {
            address: to,
            port: tcp.destination_port(),
        },
        seq: SeqNum::new(tcp.sequence_number()),
        ack: SeqNum::new(tcp.acknowledgment_number()),
        flags: Flags(tcp.header_slice()[13]),
        window: tcp.window_size(),
        options: options(&tcp),
        payload_len: tcp.payload().len() as u32,
    };
    let layout = Layout {
        ip,
        tcp: tcp_at,
        payload: payload_at,
        end: payload_at + tcp.payload().len(),
    };
    Ok((segment, layout))
}

fn is_authenticated(slice: &IpSlice<'_>) -> bool {
    match slice {
        IpSlice::Ipv4(v4) => v4.extensions().auth.is_some(),
        IpSlice::Ipv6(v6) => has_authentication(v6.extensions()),
    }
}

/// Needs whole extension headers: in a cut packet, the library's iterator reads past their end.
fn has_authentication(extensions: &Ipv6ExtensionsSlice<'_>) -> bool {
    let mut headers = extensions.clone().into_iter();
    headers.any(|header| matches!(header, Ipv6ExtensionSlice::Authentication(_)))
}

fn addresses(slice: &IpSlice<'_>) -> (IpAddr, IpAddr) {
    match slice {
        IpSlice::Ipv4(v4) => (
            v4.header().source_addr().into(),
            v4.header().destination_addr().into(),
        ),
        IpSlice::Ipv6(v6) => (
            v6.header().source_addr().into(),
            v6.header().destination_addr().into(),
        ),
    }
}

fn options(tcp: &TcpSlice<'_>) -> Options {
    let mut options = Options::default();
    for element in tcp.options_iterator() {
        match element {
            Ok(TcpOptionElement::Noop) => {}
            Ok(TcpOptionElement::MaximumSegmentSize(mss)) => options.mss = Some(mss),
            // RFC 7323, 2.3: a shift above 14 is taken as 14.
            Ok(TcpOptionElement::WindowScale(shift)) => options.window_scale = Some(shift.min(14)),
            Ok(TcpOptionElement::SelectiveAcknowledgementPermitted) => {
                options.sack_permitted = true;
            }
            Ok(TcpOptionElement::SelectiveAcknowledgement(first, rest)) => {
                for (left, right) in core::iter::once(first).chain(rest.into_iter().flatten()) {
                    options.sack.push(SeqNum::new(left), SeqNum::new(right));
                }
            }
            Ok(TcpOptionElement::Timestamp(tsval, tsecr)) => {
                options.timestamps = Some(Timestamps { tsval, tsecr });
            }
            Err(_) => {
                options.others = true;
                break;
            }
        }
    }
    options
}

/// Whether the frame, whose IP header begins at `ip`, carries ICMP or ICMPv6, behind
/// whatever extension headers (RFC 8200, 4.1).
pub fn is_icmp(frame: &[u8], ip: usize) -> bool {
    let Some(packet) = frame.get(ip..) else {
        return false;
    };
    // Lengths that contradict one another do not make it another protocol.
    etherparse::LaxSlicedPacket::from_ip(packet)
        .ok()
        .and_then(|packet| Some(packet.net?.ip_payload_ref()?.ip_number))
        .is_some_and(|number| matches!(number, IpNumber::ICMP | IpNumber::IPV6_ICMP))
}

/// A router's report that a packet was too big for the path beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTooBig {
    /// The end that sent the packet that was too big.
    pub from: Endpoint,
    /// The end that the packet was for.
    pub to: Endpoint,
    /// SEG.SEQ of that packet.
    pub seq: SeqNum,
    /// The largest IP packet that the path takes, bytes.
    pub mtu: u32,
}

/// Reads an ICMP "fragmentation needed" (RFC 1191) or ICMPv6 "packet too big"
/// (RFC 4443, 3.2) about a TCP segment; `None` for anything else. Fragments, and TCP behind an
/// authentication header, are something else, as in [`parse`].
pub fn parse_packet_too_big(frame: &[u8], ip: usize) -> Option<PacketTooBig> {
    let slice = IpSlice::from_slice(frame.get(ip..)?).ok()?;
    let icmp = slice.payload().payload;
    let (mtu, inner) = match slice.payload().ip_number {
        IpNumber::ICMP if icmp.starts_with(&[3, 4]) => (
            u32::from(u16::from_be_bytes(icmp.get(6..8)?.try_into().ok()?)),
            icmp.get(8..)?,
        ),
        IpNumber::IPV6_ICMP if icmp.starts_with(&[2, 0]) => (
            u32::from_be_bytes(icmp.get(4..8)?.try_into().ok()?),
            icmp.get(8..)?,
        ),
        _ => return None,
    };
    let net = etherparse::LaxSlicedPacket::from_ip(inner).ok()?.net?;
    let quoted = net.ip_payload_ref()?;
    // Checked first: `has_authentication` needs whole extension headers. TCP is only behind whole ones.
    if quoted.ip_number != IpNumber::TCP || quoted.fragmented {
        return None;
    }
    let (from, to, is_authenticated) = match &net {
        etherparse::LaxNetSlice::Ipv4(v4) => (
            IpAddr::from(v4.header().source_addr()),
            IpAddr::from(v4.header().destination_addr()),
            v4.extensions().auth.is_some(),
        ),
        etherparse::LaxNetSlice::Ipv6(v6) => (
            v6.header().source_addr().into(),
            v6.header().destination_addr().into(),
            has_authentication(v6.extensions()),
        ),
        etherparse::LaxNetSlice::Arp(_) => return None,
    };
    if is_authenticated {
        return None;
    }
    let head: [u8; 8] = quoted.payload.get(..8)?.try_into().ok()?;
    Some(PacketTooBig {
        from: Endpoint {
            address: from,
            port: u16::from_be_bytes([head[0], head[1]]),
        },
        to: Endpoint {
            address: to,
            port: u16::from_be_bytes([head[2], head[3]]),
        },
        seq: SeqNum::new(u32::from_be_bytes([head[4], head[5], head[6], head[7]])),
        mtu,
    })
}

#[cfg(test)]
pub(crate) mod tests;
