// SPDX-License-Identifier: Apache-2.0
//! `[bandwidth]`: the rates of the cells, and the weights of their mobiles.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use crate::entries::CellSettings;
use crate::kind::As;
use crate::prefix::Prefix;
use crate::text::{Capacities, Weights};

/// What is known of the cells behind the gateway. Without a cell nothing is shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BandwidthSettings {
    /// The cells: which mobiles are in each (the first that has a mobile counts), and its rate
    /// toward them. The rate is in kilobits of payload a second, or `estimate`. The rate is shared
    /// among the mobiles by need and weight, and the share of a mobile among its connections.
    /// Connections that `mtcp` splits are paced to their shares, and their FHs do not learn of
    /// losses of the wireless half. What other schemes send after an outage is paced to the
    /// mobile's share. Without cells nothing is shared, and FHs regulate themselves.
    ///
    /// Cost: More than the link's rate: its queue overflows and no sender slows down. Less: the
    /// rest is not used. An estimate needs some seconds, and gives up a few percent.
    ///
    /// Example: `["10.2.1.0/24 20000", "* estimate"]`
    #[serde(with = "As::<Capacities>")]
    pub cells: Vec<CellSettings>,
    /// How often the share of a mobile counts in its cell; the first entry that has it. Others
    /// count once.
    ///
    /// Cost: Without `cells` it does nothing.
    ///
    /// Example: `["10.2.1.7 3"]`
    #[serde(with = "As::<Weights>")]
    pub weights: Vec<(Prefix, u32)>,
}

impl BandwidthSettings {
    /// One cell with all mobiles.
    pub fn one_cell(bytes_per_s: Option<u64>) -> Self {
        Self {
            cells: vec![CellSettings {
                mobiles: None,
                bytes_per_s,
            }],
            weights: Vec::new(),
        }
    }

    /// The cell of a mobile, by its index in the list.
    pub fn cell_of(&self, mobile: IpAddr) -> Option<usize> {
        let has_mobile =
            |cell: &CellSettings| cell.mobiles.is_none_or(|prefix| prefix.contains(mobile));
        self.cells.iter().position(has_mobile)
    }

    /// How often the mobile's share counts; at least once.
    pub fn weight_of(&self, mobile: IpAddr) -> u32 {
        let mut weights = self.weights.iter();
        let own = weights.find(|(prefix, _)| prefix.contains(mobile));
        own.map_or(1, |(_, weight)| (*weight).max(1))
    }
}
