// SPDX-License-Identifier: Apache-2.0
//! What becomes of the link when several sources speak of it.

use std::collections::BTreeSet;

use holdfast_core::mobile_host::HostLinkEvent;

use super::SourceKind;

/// Who says that the link is down. It is down while anybody says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::mobile) struct LinkClaims {
    down: BTreeSet<SourceKind>,
}

impl LinkClaims {
    /// What a source says; what is news of the link.
    ///
    /// A command on the control socket is somebody's will: its `up` counts whoever says
    /// otherwise. `up` of a source that has said no `down` is news too: a station has roamed.
    pub(in crate::mobile) fn handle(
        &mut self,
        source: SourceKind,
        event: HostLinkEvent,
    ) -> Option<HostLinkEvent> {
        match event {
            HostLinkEvent::Down => {
                let was_up = self.down.is_empty();
                self.down.insert(source);
                (was_up || source == SourceKind::Command).then_some(event)
            }
            HostLinkEvent::Up => {
                if source == SourceKind::Command {
                    self.down.clear();
                }
                self.down.remove(&source);
                // What a command has said holds until something is heard of the link itself.
                if source == SourceKind::Carrier {
                    self.down.remove(&SourceKind::Command);
                }
                self.down.is_empty().then_some(event)
            }
            HostLinkEvent::GoingDownSoon(_) => self.down.is_empty().then_some(event),
        }
    }

    /// What a source has said holds no longer: it says so itself, or it has failed.
    pub(in crate::mobile) fn withdraw(&mut self, source: SourceKind) -> Option<HostLinkEvent> {
        let had_said = self.down.remove(&source);
        (had_said && self.down.is_empty()).then_some(HostLinkEvent::Up)
    }

    /// The mobile is in another cell: nothing that was said is about it.
    pub(in crate::mobile) fn forget(&mut self) {
        self.down.clear();
    }

    /// Who says that it is down.
    pub(in crate::mobile) fn down(&self) -> impl Iterator<Item = SourceKind> + '_ {
        self.down.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use HostLinkEvent::{Down, GoingDownSoon, Up};
    use SourceKind::{Carrier, Command, Modem, Script, Wifi};

    #[test]
    fn the_link_is_down_while_anybody_says_so() {
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
        assert_eq!(claims.withdraw(Script), None, "the modem says so too");
        assert_eq!(claims.withdraw(Script), None);
        assert_eq!(claims.withdraw(Modem), Some(Up));
        assert_eq!(claims.withdraw(Wifi), None, "it had said nothing");
    }

    #[test]
    fn a_command_has_its_way_until_the_carrier_says_otherwise() {
        let mut claims = LinkClaims::default();
        claims.handle(Modem, Down);
        claims.handle(Carrier, Down);
        assert_eq!(claims.handle(Command, Up), Some(Up));
        assert_eq!(claims.handle(Command, Down), Some(Down));
        assert_eq!(claims.handle(Command, Down), Some(Down), "said again");
        assert_eq!(claims.handle(Carrier, Down), None);
        assert_eq!(claims.handle(Carrier, Up), Some(Up), "as after any outage");
    }
}
