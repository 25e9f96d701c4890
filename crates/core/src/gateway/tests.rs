// SPDX-License-Identifier: Apache-2.0
//! The engine, packet in and packet out; and a whole flow through all that can happen.

mod host;
mod property;
mod world;
