// SPDX-License-Identifier: BSD-2-Clause
//! The miners' side: a line protocol over TCP.
//!   > subscribe NAME        < job ID DIFFICULTY (at once, and for every new job)
//!   > submit JOB NONCE      < accept | low-difficulty | unknown-job | panicked | malformed

use crate::broadcast::Jobs;
use crate::job::Job;
use crate::share;
use crate::truth::AsyncCounter;
use crate::validator::Submission;
use async_channel::Sender;
use std::io::Result;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, oneshot};

pub static ACCEPT: AsyncCounter = AsyncCounter::new("demo_role::server::accept_loop::{{closure}}");
pub static CONNECTION: AsyncCounter =
    AsyncCounter::new("demo_role::server::handle_connection::{{closure}}");

pub async fn accept_loop(listener: TcpListener, jobs: Arc<Jobs>, queue: Sender<Submission>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(CONNECTION.count(handle_connection(stream, jobs.clone(), queue.clone())));
    }
}

async fn send_job(to: &mut OwnedWriteHalf, job: &Job) -> Result<()> {
    to.write_all(format!("job {} {}\n", job.id, job.difficulty).as_bytes())
        .await
}

async fn handle_line(line: &str, queue: &Sender<Submission>) -> &'static str {
    let Some(share) = share::parse_share(line) else {
        return "malformed";
    };
    let (reply, verdict) = oneshot::channel();
    if queue.send(Submission { share, reply }).await.is_err() {
        return "closed";
    }
    verdict.await.unwrap_or("closed")
}

async fn handle_connection(
    stream: TcpStream,
    jobs: Arc<Jobs>,
    queue: Sender<Submission>,
) -> Result<()> {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    let mut news = jobs.news.subscribe();
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                None => return Ok(()),
                Some(line) if line.starts_with("subscribe ") => {
                    let job = jobs.current.read().unwrap().clone();
                    send_job(&mut to, &job).await?;
                }
                Some(line) => {
                    let verdict = handle_line(&line, &queue).await;
                    to.write_all(format!("{verdict}\n").as_bytes()).await?;
                }
            },
            job = news.recv() => match job {
                Ok(job) => send_job(&mut to, &job).await?,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            },
        }
    }
}
