// SPDX-License-Identifier: BSD-2-Clause
//! A mining pool in small: what roletrace is shown and tested on. Serves a line protocol on
//! loopback (server.rs), brings its own miners (load.rs) and its own truth (truth.rs).
//!
//! Prints "ready PID PORT". Understands on stdin: `go` starts the load, `quiesce` stops it and
//! answers "quiet" when nothing is in flight, `truth` prints the counts so far as one line of
//! JSON, `stop` ends. Ends also after --seconds, by SIGINT or SIGTERM; prints the truth last.

mod broadcast;
mod job;
mod ledger;
mod load;
mod server;
mod sha256;
mod share;
mod truth;
mod validator;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::watch;

const USAGE: &str = "usage: demo_role [--demo] [--seconds N] [--rate SHARES/S] [--clients N]
  --demo   start the load at once and run until told to stop; without it, wait for `go` on stdin";

struct Options {
    demo: bool,
    seconds: Option<f64>,
    rate: f64,
    clients: u64,
}

fn parse_options() -> Option<Options> {
    let mut o = Options {
        demo: false,
        seconds: None,
        rate: 200.0,
        clients: 8,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--demo" => o.demo = true,
            "--seconds" => o.seconds = Some(args.next()?.parse().ok()?),
            "--rate" => o.rate = args.next()?.parse().ok().filter(|r| *r > 0.0)?,
            "--clients" => o.clients = args.next()?.parse().ok().filter(|c| *c > 0)?,
            _ => return None,
        }
    }
    Some(o)
}

/// Lines of stdin; its end is "stop", but a demo without a terminal goes on.
fn read_commands(demo: bool) -> async_channel::Receiver<String> {
    let (send, receive) = async_channel::unbounded();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.send_blocking(line).is_err() {
                return;
            }
        }
        if demo {
            std::thread::park();
        }
    });
    receive
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Nothing in flight, and nothing new for a while.
async fn settle() -> bool {
    let mut last = None;
    let mut same = 0;
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = truth::settled();
        same = if now.is_some() && now == last {
            same + 1
        } else {
            0
        };
        last = now;
        if same == 5 {
            return true;
        }
    }
    false
}

async fn serve(o: Options) -> std::io::Result<ExitCode> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let jobs = Arc::new(broadcast::Jobs::new());
    let (switch, load) = watch::channel(o.demo);
    let (queue, submissions) = async_channel::unbounded();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;

    tokio::spawn(validator::RUN.count(validator::run(jobs.clone(), submissions)));
    let every = Duration::from_millis(100);
    tokio::spawn(broadcast::RUN.count(broadcast::run(jobs.clone(), load.clone(), every)));
    tokio::spawn(server::ACCEPT.count(server::accept_loop(listener, jobs, queue)));
    let mut miners = None;
    if o.demo {
        miners = Some(load::start(address, o.clients, o.rate, &load));
    }
    say(&format!("ready {} {}", std::process::id(), address.port()));

    let commands = read_commands(o.demo);
    let end = tokio::time::sleep(Duration::from_secs_f64(o.seconds.unwrap_or(1e9)));
    tokio::pin!(end);
    loop {
        let command = tokio::select! {
            command = commands.recv() => command.unwrap_or("stop".into()),
            _ = interrupt.recv() => "stop".into(),
            _ = terminate.recv() => "stop".into(),
            () = &mut end => "stop".into(),
        };
        let stop = command == "stop";
        match command.as_str() {
            "go" if miners.is_none() => {
                let _ = switch.send(true);
                miners = Some(load::start(address, o.clients, o.rate, &load));
            }
            "truth" => say(&truth::json()),
            "quiesce" | "stop" => {
                switch.send_if_modified(|on| std::mem::take(on));
                if let Some(mut set) = miners.take() {
                    while set.join_next().await.is_some() {}
                }
                if !settle().await {
                    eprintln!("demo_role: still busy");
                    return Ok(ExitCode::FAILURE);
                }
                if !stop {
                    say("quiet");
                }
            }
            other => eprintln!("demo_role: unknown command '{other}'"),
        }
        if stop {
            say(&truth::json());
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn main() -> ExitCode {
    let Some(options) = parse_options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // the planned panics say nothing, all others do
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info
            .payload()
            .downcast_ref::<&str>()
            .is_some_and(|s| s.contains("poisoned"))
        {
            report(info);
        }
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_all()
        .build()
        .expect("a tokio runtime");
    let code = runtime.block_on(serve(options)).unwrap_or_else(|e| {
        eprintln!("demo_role: {e}");
        ExitCode::FAILURE
    });
    runtime.shutdown_background(); // a thread may still wait for stdin
    code
}
