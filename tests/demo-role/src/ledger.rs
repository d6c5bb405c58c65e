// SPDX-License-Identifier: BSD-2-Clause
//! The books: slow, blocking work with known lengths of time.

use crate::sha256;
use crate::truth::Counter;
use std::time::Duration;

pub static SYNC: Counter = Counter::new("demo_role::ledger::sync_journal");
pub static SETTLE: Counter = Counter::new("demo_role::ledger::settle_batch");

/// One millisecond of waiting for a disk, then some work.
#[inline(never)]
pub fn sync_journal(entry: u64) -> u64 {
    let _call = SYNC.enter();
    std::thread::sleep(Duration::from_millis(1));
    u64::from(sha256::digest(&entry.to_le_bytes())[0]) + entry
}

/// Twenty milliseconds of waiting for a payment system, then some work.
#[inline(never)]
pub fn settle_batch(entry: u64) -> u64 {
    let _call = SETTLE.enter();
    std::thread::sleep(Duration::from_millis(20));
    u64::from(sha256::digest2(&entry.to_le_bytes())[0]) + entry
}
