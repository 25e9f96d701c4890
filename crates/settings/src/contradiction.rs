// SPDX-License-Identifier: Apache-2.0
//! Values that are right alone and contradict each other.

/// A key whose value is larger than that of another key, its limit. Each of the two has a text:
/// an error names a key that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The key, without its section.
    key: &'static str,
    /// What the key has, and what it takes.
    problem: String,
    /// The key of the limit.
    limit_key: &'static str,
    /// What the limit has, and what it takes.
    limit_problem: String,
}

impl Contradiction {
    pub(crate) fn new(
        (key, problem): (&'static str, String),
        (limit_key, limit_problem): (&'static str, String),
    ) -> Self {
        Self {
            key,
            problem,
            limit_key,
            limit_problem,
        }
    }

    /// The key to name, and what is wrong with it. `is_given`: the settings have the key.
    pub fn of_given(self, is_given: impl Fn(&str) -> bool) -> (&'static str, String) {
        if is_given(self.key) {
            (self.key, self.problem)
        } else {
            (self.limit_key, self.limit_problem)
        }
    }
}
