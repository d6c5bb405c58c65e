// SPDX-License-Identifier: BSD-2-Clause
//! Block templates and the jobs made of them.

use crate::sha256::{self, Hash};
use crate::truth::Counter;

pub static TEMPLATE: Counter = Counter::new("demo_role::job::build_template");
pub static MERKLE: Counter = Counter::new("demo_role::job::merkle_root");

#[derive(Clone)]
pub struct Job {
    pub id: u64,
    pub root: Hash,
    /// Shares below this difficulty are turned down.
    pub difficulty: u64,
}

#[inline(never)]
pub fn merkle_root(mut leaves: Vec<Hash>) -> Hash {
    let _call = MERKLE.enter();
    while leaves.len() > 1 {
        leaves = leaves
            .chunks(2)
            .map(|pair| sha256::digest2(&[pair[0], pair[pair.len() - 1]].concat()))
            .collect();
    }
    leaves[0]
}

#[inline(never)]
pub fn build_template(id: u64, transactions: u64) -> Job {
    let _call = TEMPLATE.enter();
    let leaves = (0..transactions)
        .map(|n| sha256::digest2(&(id << 20 | n).to_le_bytes()))
        .collect();
    Job {
        id,
        root: merkle_root(leaves),
        difficulty: 4,
    }
}
