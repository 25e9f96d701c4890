// SPDX-License-Identifier: Apache-2.0
//! The settings of the engine.

pub use holdfast_settings::gateway::{EngineSettings as Settings, Scheme};
