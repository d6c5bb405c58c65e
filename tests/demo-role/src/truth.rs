// SPDX-License-Identifier: BSD-2-Clause
//! What really happened: each measured function counts its own calls, ends and time, so that a
//! tracer's figures can be compared with the program's own. Costs a few atomics per call.

use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Instant;

/// One function. Calls that end by a panic count as `panicked`.
pub struct Counter {
    name: &'static str,
    calls: AtomicU64,
    returned: AtomicU64,
    panicked: AtomicU64,
    ns: AtomicU64,
}

/// A call in progress; its drop is the call's end.
pub struct Call {
    counter: &'static Counter,
    start: Instant,
}

impl Counter {
    pub const fn new(name: &'static str) -> Self {
        Counter {
            name,
            calls: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            panicked: AtomicU64::new(0),
            ns: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub fn enter(&'static self) -> Call {
        self.calls.fetch_add(1, SeqCst);
        Call {
            counter: self,
            start: Instant::now(),
        }
    }

    fn ended(&self) -> u64 {
        self.returned.load(SeqCst) + self.panicked.load(SeqCst)
    }

    fn json(&self, out: &mut String) {
        let v = |a: &AtomicU64| a.load(SeqCst);
        let _ = write!(
            out,
            "\"{}\": {{\"calls\": {}, \"returned\": {}, \"panicked\": {}, \"ns\": {}",
            self.name,
            v(&self.calls),
            v(&self.returned),
            v(&self.panicked),
            v(&self.ns)
        );
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        let ns = self.start.elapsed().as_nanos() as u64;
        self.counter.ns.fetch_add(ns, SeqCst);
        if std::thread::panicking() {
            self.counter.panicked.fetch_add(1, SeqCst);
        } else {
            self.counter.returned.fetch_add(1, SeqCst);
        }
    }
}

/// An async function: its polls, and what became of the futures.
pub struct AsyncCounter {
    polls: Counter,
    started: AtomicU64,
    completed: AtomicU64,
    cancelled: AtomicU64,
    died: AtomicU64,
}

impl AsyncCounter {
    pub const fn new(name: &'static str) -> Self {
        AsyncCounter {
            polls: Counter::new(name),
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            died: AtomicU64::new(0),
        }
    }

    /// Boxed, so that the function's poll keeps a symbol of its own.
    pub fn count<T>(&'static self, f: impl Future<Output = T> + Send + 'static) -> Counted<T> {
        Counted {
            counter: self,
            future: Box::pin(f),
            state: State::New,
        }
    }

    fn json(&self, out: &mut String) {
        let v = |a: &AtomicU64| a.load(SeqCst);
        self.polls.json(out);
        let _ = write!(
            out,
            ", \"async\": {{\"started\": {}, \"completed\": {}, \"cancelled\": {}, \"panicked\": {}}}}}",
            v(&self.started),
            v(&self.completed),
            v(&self.cancelled),
            v(&self.died)
        );
    }
}

enum State {
    New,
    Started,
    Polling, // for good when the poll panicked
    Over,
}

pub struct Counted<T> {
    counter: &'static AsyncCounter,
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    state: State,
}

impl<T> Future for Counted<T> {
    type Output = T;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let counter = self.counter;
        if let State::New = self.state {
            counter.started.fetch_add(1, SeqCst);
        }
        self.state = State::Polling;
        let call = counter.polls.enter();
        let polled = self.future.as_mut().poll(cx);
        drop(call);
        self.state = State::Started;
        if polled.is_ready() {
            self.state = State::Over;
            counter.completed.fetch_add(1, SeqCst);
        }
        polled
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        match self.state {
            State::Started => self.counter.cancelled.fetch_add(1, SeqCst),
            State::Polling => self.counter.died.fetch_add(1, SeqCst),
            State::New | State::Over => 0,
        };
    }
}

static FUNCTIONS: &[&Counter] = &[
    &crate::job::TEMPLATE,
    &crate::job::MERKLE,
    &crate::share::HASH,
    &crate::share::DIFFICULTY,
    &crate::share::PARSE,
    &crate::share::CHECK,
    &crate::ledger::SYNC,
    &crate::ledger::SETTLE,
];

static FUTURES: &[&AsyncCounter] = &[
    &crate::server::ACCEPT,
    &crate::server::CONNECTION,
    &crate::broadcast::RUN,
    &crate::validator::RUN,
    &crate::validator::VALIDATE,
    &crate::load::CLIENT,
];

/// One line: {"truth": {NAME: {...}, ...}}
pub fn json() -> String {
    let mut out = String::from("{\"truth\": {");
    for f in FUNCTIONS {
        f.json(&mut out);
        out.push_str("}, ");
    }
    for (i, f) in FUTURES.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        f.json(&mut out);
    }
    out.push_str("}}");
    out
}

/// The sum of all calls when none is in progress.
pub fn settled() -> Option<u64> {
    let all = FUNCTIONS
        .iter()
        .copied()
        .chain(FUTURES.iter().map(|f| &f.polls));
    let mut sum = 0;
    for c in all {
        let ended = c.ended();
        if c.calls.load(SeqCst) != ended {
            return None;
        }
        sum += ended;
    }
    Some(sum)
}
