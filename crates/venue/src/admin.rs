//! The admin server of a venue: answers queries about the ledger, and takes commands of operators, by HTTP.
//! One server answers at a TCP address and at a socket in the journal's folder, `operator.sock`.
//!
//! Start at [`Admin::start`], then `routes` (paths and keys), `answers` (the ledger), `market` (derived data).
//!
//! Invariant: the server runs on threads of its own, and no agent of the venue waits for it. Its only way into the
//! venue is a command to the [desk](crate::operator).

mod answers;
mod market;
mod progress;
mod routes;

use std::{
    collections::VecDeque,
    fs, io,
    net::{IpAddr, SocketAddr, TcpListener},
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::Request,
};
use gateway::FaultTable;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use ring::Cursor;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime,
    sync::{Semaphore, oneshot},
    task::AbortHandle,
};

use crate::{
    config::AdminConfig,
    ledger::{LedgerGauges, store::Access},
    operator::Desk,
    stage::JournalFigures,
    stage_times::StageTimes,
};
use progress::Progress;
use routes::Door;
use socket2::SockRef;

pub use market::{MarketFigures, MarketPages};

/// Simultaneous connections per listener. Further ones push out the oldest whose client is slow, or are
/// answered with `busy` while the venue works on all of them.
pub(crate) const CONNECTIONS_MAX: usize = 32;

/// The longest time until the head of a request is complete.
const HEAD_WITHIN: Duration = Duration::from_secs(5);

/// The longest life of a connection, one request and one answer; longer than a command may take.
pub const CONNECTION_TIME_MAX: Duration = Duration::from_secs(30);

/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8192;

/// The interval at which the age of connections, and the progress of the clients of streams, is checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The send buffer of a connection, in bytes; the system doubles it. It is smaller than the system's default, so that a
/// stream soon notices a slow client.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Threads for work that reads files or waits for a store.
const BLOCKING_THREADS_MAX: usize = 4;

/// The longest path of a Unix socket, in bytes.
const SOCKET_PATH_MAX: usize = 107;

#[derive(Clone)]
pub struct Sources {
    pub ledger: Access,
    pub gauges: Arc<LedgerGauges>,
}

/// The sources of the answers.
pub struct Served {
    pub ledger: Option<Sources>,
    /// The progress of the journal.
    pub durable: Arc<Cursor>,
    pub journal: Arc<JournalFigures>,
    /// The times of orders from stage to stage, in a running venue.
    pub stage_times: Option<Arc<StageTimes>>,
    pub desk: Desk,
    /// Derived data, if configured.
    pub market: Option<MarketPages>,
    /// Faults of sessions, all off at the start.
    pub faults: FaultTable,
}

/// The two listeners, bound before the venue starts.
#[derive(Debug)]
pub struct Listeners {
    tcp: Option<TcpListener>,
    socket: Option<(UnixListener, PathBuf)>,
    /// Notes for the user.
    pub notices: Vec<String>,
}

/// Answers on separate threads until it is stopped.
pub struct Admin {
    address: Option<SocketAddr>,
    socket: Option<PathBuf>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

pub fn socket_path(journal: &Path) -> PathBuf {
    journal.join("operator.sock")
}

impl Listeners {
    /// Listens at the address, if there is one.
    pub fn bind(address: Option<SocketAddr>) -> io::Result<Self> {
        let tcp = address.map(TcpListener::bind).transpose()?;
        tcp.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        Ok(Self { tcp, socket: None, notices: Vec::new() })
    }

    /// Listens at the socket in the journal's folder, which this venue holds now.
    ///
    /// Only the user that runs the venue can connect: the socket is made in a folder that no other
    /// user can enter, and then moved into place with the permissions 0600. A socket left by a killed venue
    /// is replaced.
    pub fn bind_socket(&mut self, journal: &Path) -> io::Result<()> {
        let path = socket_path(journal);
        let closed = journal.join(".operator");
        let made = closed.join("s");
        // The longer of the two counts: clients could not connect to one, or the venue could not bind the other.
        if path.as_os_str().len().max(made.as_os_str().len()) > SOCKET_PATH_MAX {
            self.notices.push(format!(
                "no operator socket: {} is longer than {SOCKET_PATH_MAX} bytes; `damrak ctl` \
                 cannot be used with this folder",
                path.display()
            ));
            return Ok(());
        }
        match fs::remove_dir_all(&closed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::DirBuilder::new().mode(0o700).create(&closed)?,
        }
        let listener = UnixListener::bind(&made)?;
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        fs::rename(&made, &path)?;
        fs::remove_dir(&closed)?;
        listener.set_nonblocking(true)?;
        self.socket = Some((listener, path));
        Ok(())
    }
}

impl Admin {
    pub fn start(listeners: Listeners, served: Served, config: &AdminConfig) -> io::Result<Self> {
        let Listeners { tcp, socket, .. } = listeners;
        let address = tcp.as_ref().map(TcpListener::local_addr).transpose()?;
        let (listener, path) = socket.unzip();
        let (stop, stopped) = oneshot::channel();
        let market = served.market.clone();
        let shared = Arc::new(routes::State::new(served, config));
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("damrak-admin")
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()?;
        let thread = thread::Builder::new().name("damrak-admin".into()).spawn(move || {
            // If this is refused, a thread of the venue that wakes on the same core is delayed by some milliseconds.
            let _ = os::ask_for_short_slices();
            runtime.block_on(async {
                // Tasks are spawned before the wait for the end, and end with the runtime.
                if let Some(market) = &market {
                    tokio::spawn(market.clone().keep_up());
                }
                let tcp = tcp.and_then(|it| tokio::net::TcpListener::from_std(it).ok());
                if let Some(listener) = tcp {
                    let router = routes::router(Arc::clone(&shared), Door::Address);
                    let accept = async move || {
                        let (stream, peer) = listener.accept().await?;
                        // If this fails, a slow client is noticed later.
                        let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES);
                        Ok((stream, Some(peer.ip())))
                    };
                    tokio::spawn(serve(router, market.clone(), accept));
                }
                let socket = listener.and_then(|it| tokio::net::UnixListener::from_std(it).ok());
                if let Some(listener) = socket {
                    let router = routes::router(shared, Door::Socket);
                    let accept = async move || Ok((listener.accept().await?.0, None));
                    tokio::spawn(serve(router, market, accept));
                }
                let _ = stopped.await;
            });
            // Does not wait for an unresponsive store.
            runtime.shutdown_background();
        })?;
        Ok(Self { address, socket: path, stop, thread })
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The path of the operator socket, for `damrak ctl`.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Takes no more connections, and ends the open ones.
    pub fn stop(self) {
        // If the thread is gone, it has stopped.
        let _ = self.stop.send(());
        // A panic here is a bug, and its message has been printed.
        let _ = self.thread.join();
        if let Some(path) = self.socket {
            // If this fails, the next start replaces the socket.
            let _ = fs::remove_file(path);
        }
    }
}

/// The pages at the address, for streams of the caller: no listener, no thread.
#[derive(Clone)]
pub struct Pages {
    router: Router,
    market: Option<MarketPages>,
}

impl Pages {
    pub fn new(served: Served, config: &AdminConfig) -> Self {
        let market = served.market.clone();
        let state = Arc::new(routes::State::new(served, config));
        Self { router: routes::router(state, Door::Address), market }
    }

    /// Reads one complete request, and answers it; ends within [`CONNECTION_TIME_MAX`], unless the answer is a stream.
    pub async fn answer(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Option<IpAddr>,
    ) {
        let progress = Arc::new(Progress::new(peer));
        answer_one(stream, self.router.clone(), self.market.clone(), progress).await;
    }
}

/// Accepts connections without end.
async fn serve<S>(
    router: Router,
    market: Option<MarketPages>,
    accept: impl AsyncFn() -> io::Result<(S, Option<IpAddr>)>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut doors = Doors::new(router, market);
    loop {
        match accept().await {
            Ok((stream, peer)) => doors.enter(stream, peer),
            // The client disconnected, or no descriptor is left: try again later.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Connections, up to the limit. If all places are taken, the oldest connection that neither sends its request nor
/// takes its answer makes room for a newer one, so that slow clients keep no other client out. Streams are not counted
/// here: they have places of their own.
struct Doors {
    router: Router,
    market: Option<MarketPages>,
    busy: Router,
    /// Oldest first.
    visits: VecDeque<Visit>,
    /// Connections that are answered with `busy`.
    antechamber: Arc<Semaphore>,
}

struct Visit {
    progress: Arc<Progress>,
    task: AbortHandle,
}

impl Doors {
    fn new(router: Router, market: Option<MarketPages>) -> Self {
        Self {
            router,
            market,
            busy: routes::busy(CONNECTIONS_MAX),
            visits: VecDeque::new(),
            antechamber: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }
    }

    /// One request, one answer.
    fn enter(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Option<IpAddr>,
    ) {
        self.visits.retain(|visit| !visit.task.is_finished() && !visit.progress.is_stream());
        let progress = Arc::new(Progress::new(peer));
        if self.visits.len() >= CONNECTIONS_MAX {
            let waits = |visit: &Visit| !visit.progress.is_worked_on();
            match self.visits.iter().position(waits).and_then(|place| self.visits.remove(place)) {
                Some(oldest) => oldest.task.abort(),
                None => {
                    if let Ok(place) = Arc::clone(&self.antechamber).try_acquire_owned() {
                        let busy = self.busy.clone();
                        tokio::spawn(async move {
                            answer_one(stream, busy, None, progress).await;
                            drop(place);
                        });
                    }
                    return;
                }
            }
        }
        let (router, market) = (self.router.clone(), self.market.clone());
        let answered = answer_one(stream, router, market, Arc::clone(&progress));
        let task = tokio::spawn(answered).abort_handle();
        self.visits.push_back(Visit { progress, task });
    }
}

/// Reads one complete request, and answers it.
async fn answer_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    market: Option<MarketPages>,
    progress: Arc<Progress>,
) {
    let of_service = Arc::clone(&progress);
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, progress) = (router.clone(), Arc::clone(&of_service));
        async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = to_bytes(Body::new(body), routes::BODY_BYTES_MAX).await else {
                return Ok(routes::too_long());
            };
            progress.work(true);
            let mut request = Request::from_parts(parts, Body::from(body));
            request.extensions_mut().insert(Arc::clone(&progress));
            let response = TowerToHyperService::new(router).call(request).await;
            progress.work(false);
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Does not wait for a client that left or is too slow.
    while tokio::time::timeout(LOOK_INTERVAL, &mut connection).await.is_err() {
        let is_over = match &market {
            Some(market) if progress.is_stream() => market.is_too_slow(&progress),
            _ => progress.age() >= CONNECTION_TIME_MAX,
        };
        if is_over {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// A client is answered at once although the maximum number of others send no request, or half of one, or take no
    /// answer. The oldest of those makes room.
    #[test]
    fn slow_clients_keep_nobody_out() {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let router = Router::new().fallback(|| async { "here" });
            let mut doors = Doors::new(router, None);
            let mut slow = Vec::new();
            for number in 0..3 * CONNECTIONS_MAX {
                let (mut client, server) = duplex(16);
                doors.enter(server, None);
                let sent: &[u8] = match number % 3 {
                    0 => b"",
                    1 => b"POST / HTTP/1.1",
                    _ => b"GET / HTTP/1.1\r\n",
                };
                client.write_all(sent).await.unwrap();
                slow.push(client);
                tokio::task::yield_now().await;
            }
            let (mut client, server) = duplex(4096);
            doors.enter(server, None);
            client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
            assert!(doors.visits.len() <= CONNECTIONS_MAX);
        });
    }
}
