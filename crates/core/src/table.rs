// SPDX-License-Identifier: Apache-2.0
//! Places for flows and mobiles, found by key, walked in the order of their places:
//! a hash map is never iterated, so that equal inputs give equal outputs.

use core::hash::Hash;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A table of at most `entries_max` values.
pub(crate) struct Table<K, V> {
    places: Vec<Option<V>>,
    free: Vec<u32>,
    index: HashMap<K, u32, FixedState>,
    entries_max: usize,
    generation: u32,
}

impl<K: Hash + Eq + Copy, V> Table<K, V> {
    /// An empty table. `seed` keeps a stranger from choosing keys that collide.
    pub(crate) fn new(entries_max: usize, seed: u64) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            index: HashMap::with_hasher(FixedState::with_seed(seed)),
            entries_max,
            generation: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Places in use or free: the bound for [`Self::at`].
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }

    pub(crate) fn find(&self, key: &K) -> Option<u32> {
        self.index.get(key).copied()
    }

    pub(crate) fn at(&self, place: u32) -> Option<&V> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, place: u32) -> Option<&mut V> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// The value with this key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.at(self.find(key)?)
    }

    /// The value with this key, to be changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.at_mut(self.find(key)?)
    }

    /// Adds what `make` makes of its generation; `None` at the limit.
    pub(crate) fn insert(&mut self, key: K, make: impl FnOnce(u32) -> V) -> Option<u32> {
        if self.index.len() >= self.entries_max {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let value = Some(make(self.generation));
        let place = if let Some(place) = self.free.pop() {
            self.places[place as usize] = value;
            place
        } else {
            self.places.push(value);
            self.places.len() as u32 - 1
        };
        self.index.insert(key, place);
        Some(place)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.index.remove(key)?;
        self.free.push(place);
        self.places[place as usize].take()
    }

    /// All values, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.places.iter().flatten()
    }
}
