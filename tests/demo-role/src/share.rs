// SPDX-License-Identifier: BSD-2-Clause
//! Shares: what a miner hands in, and whether it is good enough.

use crate::job::Job;
use crate::sha256::{self, Hash};
use crate::truth::Counter;

pub static HASH: Counter = Counter::new("demo_role::share::hash_header");
pub static DIFFICULTY: Counter = Counter::new("demo_role::share::difficulty_of");
pub static PARSE: Counter = Counter::new("demo_role::share::parse_share");
pub static CHECK: Counter = Counter::new("demo_role::share::check_share");

/// A nonce for which the validation panics, as a bug in a role would.
pub const POISON: u64 = 0xdead_0000_0000;

#[derive(Clone, Copy)]
pub struct Share {
    pub job: u64,
    pub nonce: u64,
}

/// "submit JOB NONCE"
#[inline(never)]
pub fn parse_share(line: &str) -> Option<Share> {
    let _call = PARSE.enter();
    let mut words = line.split_ascii_whitespace().skip(1);
    let mut number = || words.next()?.parse().ok();
    Some(Share {
        job: number()?,
        nonce: number()?,
    })
}

#[inline(never)]
pub fn hash_header(job: &Job, nonce: u64) -> Hash {
    let _call = HASH.enter();
    let mut header = [0u8; 80];
    header[..32].copy_from_slice(&job.root);
    header[64..72].copy_from_slice(&job.id.to_le_bytes());
    header[72..].copy_from_slice(&nonce.to_le_bytes());
    sha256::digest2(&header)
}

/// How many hashes such a one takes on average.
#[inline(never)]
pub fn difficulty_of(hash: &Hash) -> u64 {
    let _call = DIFFICULTY.enter();
    let mut top = 0u64;
    for byte in hash.iter().rev().take(8) {
        top = top << 8 | u64::from(*byte);
    }
    u64::MAX / top.max(1)
}

#[inline(never)]
pub fn check_share(job: &Job, share: Share) -> bool {
    let _call = CHECK.enter();
    assert!(share.nonce != POISON, "poisoned share");
    difficulty_of(&hash_header(job, share.nonce)) >= job.difficulty
}
