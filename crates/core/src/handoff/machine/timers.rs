// SPDX-License-Identifier: Apache-2.0
//! The timers: repetitions, announcements, timeouts.

use super::{
    Actions, Copied, Handoff, Instant, KeyId, Owner, PeerId, Requests, Role, send_to_all, transmit,
};

impl<C: Copied> Handoff<C> {
    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest, unless an input
    /// comes first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Handles the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant, actions: &mut Actions<C>) {
        while let Some((at, key)) = self.due.first().copied() {
            if at > now {
                return;
            }
            self.due.remove(&(at, key));
            if let Some(mobile) = self.mobiles.get_mut(&key) {
                mobile.scheduled = None;
            }
            self.on_due(key, now, actions);
            self.schedule(key);
        }
    }

    /// Updates the mobile's deadline in `due`.
    pub(super) fn schedule(&mut self, key: KeyId) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let deadline = mobile.deadline();
        if deadline == mobile.scheduled {
            return;
        }
        if let Some(at) = mobile.scheduled {
            self.due.remove(&(at, key));
        }
        mobile.scheduled = deadline;
        self.due.extend(deadline.map(|at| (at, key)));
    }

    fn on_due(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let (retry, tries_max) = (self.settings.retry, self.settings.tries_max);
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        transmit(mobile, now, actions);
        mobile.sendings.retain(|(_, _, sending)| !sending.is_over());
        mobile.members.retain(|(_, until)| *until > now);
        if matches!(mobile.owner, Owner::Peer(_)) && mobile.owner_until <= now {
            mobile.owner = Owner::Unknown;
        }
        let due_peers = |requests: &mut Option<Requests>| -> Vec<PeerId> {
            let Some(one) = requests.as_mut().filter(|one| one.due <= now) else {
                return Vec::new();
            };
            one.tries += 1;
            if one.tries > tries_max {
                *requests = None;
                return Vec::new();
            }
            one.due = now + retry;
            one.unanswered.clone()
        };
        let (take_over, preparing) = (
            due_peers(&mut mobile.take_over),
            due_peers(&mut mobile.preparing),
        );
        send_to_all(&take_over, &mobile.take_over_message(), actions);
        if let Some(status) = self.status(key, now).filter(|_| !preparing.is_empty()) {
            send_to_all(&preparing, &status, actions);
        }
        self.handle_expiry(key, now, actions);
        self.announce(key, now, actions);
    }

    fn handle_expiry(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if mobile.sync.as_ref().is_some_and(|sync| sync.until <= now) {
            self.counters.sync_timeouts += 1;
            self.finish(key, now, actions);
        }
        self.request_again(key, now, actions);
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if mobile.buffering_until.is_some_and(|until| until <= now) {
            let peers = self.peers.clone();
            self.leave(key, actions);
            if let Some(status) = self.status(key, now) {
                send_to_all(&peers, &status, actions);
            }
        }
    }

    fn announce(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let (age, interval) = (self.settings.buffer_time, self.settings.announce);
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if mobile.announce_at.is_none_or(|at| at > now) {
            return;
        }
        mobile.announce_at = (mobile.role() != Role::Idle).then(|| now + interval);
        let before = mobile.buffer.bytes();
        mobile.buffer.forget_older(age, now);
        mobile.unsynchronised &= mobile.buffer.len() > 0;
        self.recount(key, before);
        let peers = self.peers.clone();
        if let Some(status) = self.status(key, now) {
            send_to_all(&peers, &status, actions);
        }
    }
}
