//! What a venue answers by HTTP, beside it: balances, live orders, fills and movements of an account.
//!
//! Start at [`Admin::start`], then `answers` (what there is to ask), `http` (how it is asked).
//!
//! Invariant: answers come from the ledger's store and from cursors that anybody may read; nothing
//! here is waited for by an agent of the venue, and nothing here writes.

mod answers;
mod http;

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ring::Cursor;

use crate::ledger::{LedgerGauges, store::Access};
use answers::Answers;
use http::{Asked, Response};

/// Connections at a time; more are told to come again.
const CONNECTIONS_MAX: usize = 32;

/// How long one read or write may take.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it is looked for connections.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What is looked at to answer.
#[derive(Clone)]
pub struct Sources {
    /// The store of the ledger.
    pub ledger: Access,
    /// How far that is.
    pub gauges: Arc<LedgerGauges>,
    /// How far the journal is.
    pub durable: Arc<Cursor>,
}

/// Answers on threads of its own until it is stopped.
pub struct Admin {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Admin {
    /// Listens there.
    ///
    /// # Errors
    /// The address is taken or not ours.
    pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Answers whoever connects.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(listener: TcpListener, sources: Sources) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("damrak-admin".into())
            .spawn(move || serve(&listener, &Arc::new(Answers::new(sources)), &is_stopped))?;
        Ok(Self { address, stop, thread })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections. Answers that were begun end by themselves, or with the process.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // It cannot panic but by a fault of ours, which it has told.
        let _ = self.thread.join();
    }
}

fn serve(listener: &TcpListener, answers: &Arc<Answers>, stop: &AtomicBool) {
    let open = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let (answers, open) = (Arc::clone(answers), Arc::clone(&open));
                let is_one_too_many = open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX;
                let begun = thread::Builder::new().name("damrak-admin".into()).spawn({
                    let open = Arc::clone(&open);
                    move || {
                        converse(stream, &answers, is_one_too_many);
                        open.fetch_sub(1, Ordering::Relaxed);
                    }
                });
                if begun.is_err() {
                    open.fetch_sub(1, Ordering::Relaxed);
                }
            }
            // Nobody is there, or one who has gone again, or no descriptor is left: later.
            Err(_) => thread::sleep(LOOK_INTERVAL),
        }
    }
}

/// One request, one answer. Whoever goes away in between is not waited for.
fn converse(mut stream: TcpStream, answers: &Answers, is_one_too_many: bool) {
    let prepared = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(SOCKET_TIMEOUT)))
        .and_then(|()| stream.set_write_timeout(Some(SOCKET_TIMEOUT)));
    if prepared.is_err() {
        return;
    }
    let (response, is_head) = if is_one_too_many {
        let what = format!("{CONNECTIONS_MAX} requests are being answered; try again");
        (Response::error(503, "busy", &what), false)
    } else {
        match http::read(&mut stream) {
            Ok(Some(request)) => (answers.answer(&request), request.method == Asked::Head),
            Ok(None) => return,
            Err(response) => (response, false),
        }
    };
    // The asker is gone, then.
    let _ = http::write(&mut stream, &response, is_head);
}
