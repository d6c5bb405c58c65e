// SPDX-License-Identifier: BSD-2-Clause
//! Miners: each hands in shares at a steady pace, some of them poor, some poisoned.

use crate::share::POISON;
use crate::truth::AsyncCounter;
use std::io::Result;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub static CLIENT: AsyncCounter = AsyncCounter::new("demo_role::load::client::{{closure}}");
pub static SHARES: AtomicU64 = AtomicU64::new(0);

async fn client(
    to: SocketAddr,
    number: u64,
    pace: Duration,
    mut load: watch::Receiver<bool>,
) -> Result<()> {
    let (from, mut to) = TcpStream::connect(to).await?.into_split();
    let mut lines = BufReader::new(from).lines();
    to.write_all(format!("subscribe miner{number}\n").as_bytes())
        .await?;
    let mut job = String::from("1");
    let mut tick = tokio::time::interval(pace);
    for n in 0u64.. {
        tick.tick().await;
        if !*load.borrow_and_update() {
            break;
        }
        let nonce = if n % 19 == 18 {
            POISON
        } else {
            number << 20 | n
        };
        to.write_all(format!("submit {job} {nonce}\n").as_bytes())
            .await?;
        SHARES.fetch_add(1, Relaxed);
        while let Some(line) = lines.next_line().await? {
            match line.strip_prefix("job ") {
                Some(rest) => job = rest.split(' ').next().unwrap_or("0").to_string(),
                None => break, // the verdict
            }
        }
    }
    Ok(())
}

/// All miners, until the load is switched off.
pub fn start(to: SocketAddr, clients: u64, rate: f64, load: &watch::Receiver<bool>) -> JoinSet<()> {
    let pace = Duration::from_secs_f64(clients as f64 / rate);
    let mut set = JoinSet::new();
    for number in 0..clients {
        let miner = CLIENT.count(client(to, number, pace, load.clone()));
        set.spawn(async move {
            if let Err(e) = miner.await {
                eprintln!("miner {number}: {e}");
            }
        });
    }
    set
}
