// SPDX-License-Identifier: Apache-2.0
//! The link's state according to several sources.

use std::collections::BTreeSet;

use holdfast_core::{LinkEvent, LinkSource};

/// The sources that report link down. The link is down while there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::mobile) struct LinkClaims {
    down: BTreeSet<LinkSource>,
}

impl LinkClaims {
    /// Handles a report of a source. Returns the event of the link, if the report makes one.
    ///
    /// A command on the control socket is the operator's will: its `up` overrides all sources.
    /// `up` of a source without a `down` is an event too: a station has roamed.
    pub(in crate::mobile) fn handle(
        &mut self,
        source: LinkSource,
        event: LinkEvent,
    ) -> Option<LinkEvent> {
        match event {
            LinkEvent::Down => {
                let was_up = self.down.is_empty();
                self.down.insert(source);
                (was_up || source == LinkSource::Command).then_some(event)
            }
            LinkEvent::Up => {
                if source == LinkSource::Command {
                    self.down.clear();
                }
                self.down.remove(&source);
                // A command's `down` holds until the carrier returns.
                if source == LinkSource::Carrier {
                    self.down.remove(&LinkSource::Command);
                }
                self.down.is_empty().then_some(event)
            }
            LinkEvent::GoingDownSoon(_) => self.down.is_empty().then_some(event),
        }
    }

    /// Ends the `down` of a source that has withdrawn it, or has failed.
    pub(in crate::mobile) fn withdraw(&mut self, source: LinkSource) -> Option<LinkEvent> {
        let was_down = self.down.remove(&source);
        (was_down && self.down.is_empty()).then_some(LinkEvent::Up)
    }

    /// Forgets all reports: the mobile is in another cell, which they are not about.
    pub(in crate::mobile) fn forget(&mut self) {
        self.down.clear();
    }

    /// The sources that report link down.
    pub(in crate::mobile) fn down(&self) -> impl Iterator<Item = LinkSource> + '_ {
        self.down.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use LinkEvent::{Down, GoingDownSoon, Up};
    use LinkSource::{Carrier, Command, Modem, Script, Wifi};

    #[test]
    fn the_link_is_down_while_a_source_reports_it() {
        let mut claims = LinkClaims::default();
        assert_eq!(claims.handle(Wifi, Down), Some(Down));
        assert_eq!(claims.handle(Carrier, Down), None, "known already");
        assert_eq!(claims.handle(Wifi, Up), None, "no carrier yet");
        assert_eq!(claims.handle(Carrier, Up), Some(Up));
        assert_eq!(claims.handle(Wifi, Up), Some(Up), "it has roamed");
    }

    #[test]
    fn a_warning_counts_while_the_link_is_up() {
        let mut claims = LinkClaims::default();
        let warning = GoingDownSoon(Some(Duration::from_millis(300)));
        assert_eq!(claims.handle(Modem, warning), Some(warning));
        claims.handle(Modem, Down);
        assert_eq!(claims.handle(Script, warning), None);
    }

    #[test]
    fn a_source_that_fails_takes_its_word_along() {
        let mut claims = LinkClaims::default();
        claims.handle(Script, Down);
        claims.handle(Modem, Down);
        assert_eq!(claims.withdraw(Script), None, "the modem reports it too");
        assert_eq!(claims.withdraw(Script), None);
        assert_eq!(claims.withdraw(Modem), Some(Up));
        assert_eq!(claims.withdraw(Wifi), None, "it had reported nothing");
    }

    #[test]
    fn a_command_overrides_the_sources_until_the_carrier_returns() {
        let mut claims = LinkClaims::default();
        claims.handle(Modem, Down);
        claims.handle(Carrier, Down);
        assert_eq!(claims.handle(Command, Up), Some(Up));
        assert_eq!(claims.handle(Command, Down), Some(Down));
        assert_eq!(
            claims.handle(Command, Down),
            Some(Down),
            "reported once more"
        );
        assert_eq!(claims.handle(Carrier, Down), None);
        assert_eq!(claims.handle(Carrier, Up), Some(Up), "as after any outage");
    }
}
