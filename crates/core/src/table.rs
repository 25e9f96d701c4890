// SPDX-License-Identifier: Apache-2.0
//! Tables of flows and mobiles: found by key or by id, walked in the order of their slots. A hash
//! map is never iterated, so that equal inputs give equal outputs.

use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// A slot of a table and the entry that it was given to. A slot is used again after its entry is
/// removed; the id of the old entry then finds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    index: u32,
    generation: u32,
}

/// Names an entry of one kind of table.
pub(crate) trait Id: Copy {
    fn new(slot: Slot) -> Self;
    fn slot(self) -> Slot;
}

/// What lies in a table: it has its own key.
pub(crate) trait Keyed {
    type Key: Hash + Eq;

    fn key(&self) -> &Self::Key;
}

/// Names a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowId(Slot);

/// Names a mobile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MobileId(Slot);

impl Id for FlowId {
    fn new(slot: Slot) -> Self {
        Self(slot)
    }

    fn slot(self) -> Slot {
        self.0
    }
}

impl Id for MobileId {
    fn new(slot: Slot) -> Self {
        Self(slot)
    }

    fn slot(self) -> Slot {
        self.0
    }
}

impl Id for Slot {
    fn new(slot: Slot) -> Self {
        slot
    }

    fn slot(self) -> Slot {
        self
    }
}

impl MobileId {
    /// The index of the mobile's slot.
    pub(crate) const fn index(self) -> u32 {
        self.0.index
    }
}

/// A table of at most `entries_max` values, named by `I`.
pub(crate) struct Table<I, V> {
    slots: Vec<Option<(u32, V)>>,
    free: Vec<u32>,
    /// The slots' indices, by the keys in them.
    index: HashTable<u32>,
    hasher: FixedState,
    entries_max: usize,
    generation: u32,
    id: PhantomData<I>,
}

impl<I: Id, V: Keyed> Table<I, V> {
    /// An empty table. Because of `seed` an attacker cannot choose keys that collide.
    pub(crate) fn new(entries_max: usize, seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            entries_max,
            generation: 0,
            id: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Slots in use or free: the bound for [`Self::id_in`].
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The entry in the slot with this index, if it is in use.
    pub(crate) fn id_in(&self, index: u32) -> Option<I> {
        let (generation, _) = self.slots.get(index as usize)?.as_ref()?;
        Some(I::new(Slot {
            index,
            generation: *generation,
        }))
    }

    /// The key in a slot is this one.
    fn has(slots: &[Option<(u32, V)>], index: u32, key: &V::Key) -> bool {
        let entry = slots.get(index as usize).and_then(Option::as_ref);
        entry.is_some_and(|(_, value)| value.key() == key)
    }

    pub(crate) fn find(&self, key: &V::Key) -> Option<I> {
        let hash = self.hasher.hash_one(key);
        let slots = &self.slots;
        let index = self
            .index
            .find(hash, |index| Self::has(slots, *index, key))?;
        self.id_in(*index)
    }

    pub(crate) fn at(&self, id: I) -> Option<&V> {
        let Slot { index, generation } = id.slot();
        let (current, value) = self.slots.get(index as usize)?.as_ref()?;
        (*current == generation).then_some(value)
    }

    pub(crate) fn at_mut(&mut self, id: I) -> Option<&mut V> {
        let Slot { index, generation } = id.slot();
        let (current, value) = self.slots.get_mut(index as usize)?.as_mut()?;
        (*current == generation).then_some(value)
    }

    /// The value with this key.
    pub(crate) fn get(&self, key: &V::Key) -> Option<&V> {
        self.at(self.find(key)?)
    }

    /// The value with this key, to be changed.
    pub(crate) fn get_mut(&mut self, key: &V::Key) -> Option<&mut V> {
        self.at_mut(self.find(key)?)
    }

    /// Adds `value`. `None` at the limit, and if it replaces the value with the same key.
    pub(crate) fn insert(&mut self, value: V) -> Option<I> {
        if let Some(old) = self.get_mut(value.key()) {
            *old = value;
            return None;
        }
        if self.index.len() >= self.entries_max {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let hash = self.hasher.hash_one(value.key());
        let entry = Some((self.generation, value));
        let index = if let Some(index) = self.free.pop() {
            self.slots[index as usize] = entry;
            index
        } else {
            self.slots.push(entry);
            self.slots.len() as u32 - 1
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.index.insert_unique(hash, index, |index| {
            let entry = slots[*index as usize].as_ref();
            entry.map_or(0, |(_, value)| hasher.hash_one(value.key()))
        });
        self.id_in(index)
    }

    pub(crate) fn remove(&mut self, key: &V::Key) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        let slots = &self.slots;
        let has_key = |index: &u32| Self::has(slots, *index, key);
        let (index, _) = self.index.find_entry(hash, has_key).ok()?.remove();
        self.free.push(index);
        let (_, value) = self.slots[index as usize].take()?;
        Some(value)
    }

    /// All values, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().flatten().map(|(_, value)| value)
    }
}
