// SPDX-License-Identifier: Apache-2.0
//! Values that are right alone and contradict each other.

/// A key whose value contradicts another one, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The key, without its section.
    pub key: &'static str,
    /// What was given, and what the key takes.
    pub problem: String,
}

impl Contradiction {
    pub(crate) fn new(key: &'static str, problem: String) -> Self {
        Self { key, problem }
    }
}
