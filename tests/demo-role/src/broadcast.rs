// SPDX-License-Identifier: BSD-2-Clause
//! Hands a new job to every connection at a steady pace while there is load.

use crate::job::{self, Job};
use crate::truth::AsyncCounter;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::{broadcast, watch};

pub static RUN: AsyncCounter = AsyncCounter::new("demo_role::broadcast::run::{{closure}}");

/// The job that shares are checked against, and who wants to hear of the next.
pub struct Jobs {
    pub current: RwLock<Arc<Job>>,
    pub news: broadcast::Sender<Arc<Job>>,
}

impl Jobs {
    pub fn new() -> Self {
        let first = Arc::new(job::build_template(1, 64));
        Jobs {
            current: RwLock::new(first),
            news: broadcast::channel(16).0,
        }
    }
}

pub async fn run(jobs: Arc<Jobs>, mut load: watch::Receiver<bool>, every: Duration) {
    let mut id = 1;
    while load.wait_for(|on| *on).await.is_ok() {
        id += 1;
        let next = Arc::new(job::build_template(id, 64));
        *jobs.current.write().unwrap() = next.clone();
        let _ = jobs.news.send(next); // nobody connected is no error
        let _ = tokio::time::timeout(every, load.wait_for(|on| !*on)).await;
    }
}
