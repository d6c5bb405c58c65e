// SPDX-License-Identifier: BSD-2-Clause
//! A server of fixed work per request, and its load: what tracing memory costs a role.
//!
//! bench_role serve: prints "ready PID PORT". A request is a number of 8 bytes, the answer is one,
//! too; between them lie BATCHES * BLOCKS allocations and some computing. Understands on stdin
//! `held` (answers how many blocks it holds); its end is the server's.
//!
//! bench_role load PORT CONNECTIONS RATE SECONDS: RATE requests a second in all, 0: one after the
//! other. Prints JSON. A latency counts from when the request was due, not from when it was sent.

use std::collections::VecDeque;
use std::io::{BufRead, Read, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BATCHES: u64 = 4;
const BLOCKS: u64 = 25;
const HELD: usize = 10_000;
/// Steps of computing per allocation: some ten microseconds.
const STEPS: u64 = 4_000;

type Blocks = VecDeque<Vec<u8>>;
static HOLD: Mutex<Blocks> = Mutex::new(Blocks::new());

fn step(x: u64) -> u64 {
    let x = x ^ (x << 13);
    let x = x ^ (x >> 7);
    x ^ (x << 17)
}

/// The oldest blocks make room.
#[inline(never)]
fn hold(blocks: Vec<Vec<u8>>) {
    let mut held = HOLD.lock().unwrap();
    for block in blocks {
        if held.len() == HELD {
            held.pop_front();
        }
        held.push_back(block);
    }
}

#[inline(never)]
fn batch(seed: u64) -> u64 {
    let mut x = seed | 1;
    let mut blocks = Vec::with_capacity(BLOCKS as usize);
    for _ in 0..BLOCKS {
        x = (0..STEPS).fold(x, |x, _| step(x));
        blocks.push(vec![x as u8; 16 + (x % 1009) as usize]);
    }
    hold(blocks);
    x
}

#[inline(never)]
fn answer(request: u64) -> u64 {
    (0..BATCHES).fold(request, |x, n| batch(x ^ n))
}

async fn serve(mut client: TcpStream) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    loop {
        let request = client.read_u64_le().await?;
        client.write_u64_le(answer(request)).await?;
    }
}

async fn accept() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    println!("ready {} {port}", std::process::id());
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(serve(client));
    }
}

fn listen_to_stdin() {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if line == "held" {
            println!("{}", HOLD.lock().unwrap().len());
        }
    }
    std::process::exit(0);
}

/// Latencies, in microseconds.
fn client(port: u16, number: u64, pace: Duration, begin: Instant, end: Instant) -> Vec<f64> {
    let mut server = std::net::TcpStream::connect(("127.0.0.1", port)).expect("no server");
    server.set_nodelay(true).unwrap();
    let mut took = Vec::new();
    let mut due = begin;
    let mut data = (number + 1).to_le_bytes();
    while due < end && Instant::now() < end {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        server.write_all(&data).unwrap();
        server.read_exact(&mut data).unwrap();
        took.push(due.elapsed().as_secs_f64() * 1e6);
        due = if pace.is_zero() {
            Instant::now()
        } else {
            due + pace
        };
    }
    took
}

fn load(port: u16, connections: u64, rate: f64, seconds: f64) {
    let pace = if rate > 0.0 {
        connections as f64 / rate
    } else {
        0.0
    };
    let begin = Instant::now() + Duration::from_millis(10);
    let end = begin + Duration::from_secs_f64(seconds);
    let clients: Vec<_> = (0..connections)
        .map(|n| {
            let first = begin + Duration::from_secs_f64(pace * n as f64 / connections as f64);
            std::thread::spawn(move || client(port, n, Duration::from_secs_f64(pace), first, end))
        })
        .collect();
    let mut took: Vec<f64> = clients
        .into_iter()
        .flat_map(|c| c.join().unwrap())
        .collect();
    let elapsed = begin.elapsed().as_secs_f64();
    took.sort_by(f64::total_cmp);
    let at = |q: f64| {
        took.get(((took.len() as f64) * q) as usize)
            .copied()
            .unwrap_or(0.0)
    };
    println!(
        "{{\"requests\":{},\"seconds\":{elapsed:.6},\"p50_us\":{:.1},\"p99_us\":{:.1},\"max_us\":{:.1}}}",
        took.len(),
        at(0.5),
        at(0.99),
        took.last().copied().unwrap_or(0.0)
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => {
            HOLD.lock().unwrap().reserve(HELD);
            std::thread::spawn(listen_to_stdin);
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            if let Err(e) = runtime.block_on(accept()) {
                eprintln!("bench_role: {e}");
            }
        }
        ["load", port, connections, rate, seconds] => load(
            port.parse().unwrap(),
            connections.parse().unwrap(),
            rate.parse().unwrap(),
            seconds.parse().unwrap(),
        ),
        _ => {
            eprintln!("usage: bench_role serve | load PORT CONNECTIONS RATE SECONDS");
            std::process::exit(2);
        }
    }
    let _ = std::io::stdout().flush();
}
