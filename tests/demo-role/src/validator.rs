// SPDX-License-Identifier: BSD-2-Clause
//! Takes submissions from one queue, checks each in a task of its own (a bug in the check must not
//! stop the pool), keeps the books.

use crate::broadcast::Jobs;
use crate::ledger;
use crate::share::{self, Share};
use crate::truth::AsyncCounter;
use async_channel::Receiver;
use std::sync::Arc;
use tokio::sync::oneshot;

pub static RUN: AsyncCounter = AsyncCounter::new("demo_role::validator::run::{{closure}}");
pub static VALIDATE: AsyncCounter =
    AsyncCounter::new("demo_role::validator::validate::{{closure}}");

pub struct Submission {
    pub share: Share,
    pub reply: oneshot::Sender<&'static str>,
}

pub async fn validate(jobs: Arc<Jobs>, share: Share) -> &'static str {
    let job = jobs.current.read().unwrap().clone();
    tokio::task::yield_now().await;
    match share::check_share(&job, share) {
        _ if share.job > job.id => "unknown-job",
        true => "accept",
        false => "low-difficulty",
    }
}

async fn keep_books(accepted: u64) {
    let blocking = if accepted % 40 == 0 {
        tokio::task::spawn_blocking(move || ledger::settle_batch(accepted))
    } else if accepted % 4 == 0 {
        tokio::task::spawn_blocking(move || ledger::sync_journal(accepted))
    } else {
        return;
    };
    let _ = blocking.await;
}

pub async fn run(jobs: Arc<Jobs>, queue: Receiver<Submission>) {
    let mut accepted = 0;
    while let Ok(Submission { share, reply }) = queue.recv().await {
        let check = tokio::spawn(VALIDATE.count(validate(jobs.clone(), share)));
        let verdict = check.await.unwrap_or("panicked");
        if verdict == "accept" {
            accepted += 1;
            keep_books(accepted).await;
        }
        let _ = reply.send(verdict); // the miner may be gone
    }
}
