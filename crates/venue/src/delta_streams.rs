//! The delta streams of a configuration: their sessions, rings and agents.
//!
//! Invariant: a session belongs to one start and one stream, so that its numbers begin with 1 and are never reused for
//! other messages.

use std::{net::SocketAddr, sync::Arc};

use gateway::{
    DatagramNetwork, DeltaStream, DeltaStreamCounters, DeltaStreamOptions, DeltaStreams,
    FeedMessage, MarketData, StreamOptions, StreamReader,
};
use wire::moldudp64::Session;

use crate::{
    config::{Config, Overflow, StreamConfig},
    core::Core,
    failure::Failure,
    layout::{AgentName, Agents},
};

/// The counters of one stream, with its name and session.
#[derive(Clone)]
pub struct StreamGauges {
    pub name: String,
    pub session: Session,
    pub destinations: Vec<SocketAddr>,
    pub counters: Arc<DeltaStreamCounters>,
}

/// The sessions of all streams, for a start with a unique number.
pub fn sessions(
    config: &Config,
    feed: Session,
    start_id: u64,
) -> Result<Vec<StreamOptions>, Failure> {
    let mut taken = vec![feed];
    let mut options = Vec::new();
    for stream in &config.market_data.streams {
        let filter = stream.filter().map_err(Failure::usage)?;
        let session = (0..)
            .map(|salt| session(feed, &stream.name, start_id, salt))
            .find(|session| !taken.contains(session))
            .expect("there are more names than streams");
        taken.push(session);
        options.push(StreamOptions { session, filter });
    }
    Ok(options)
}

/// Ten digits derived from the journal, the stream and the start (FNV-1a).
fn session(feed: Session, name: &str, start_id: u64, salt: u64) -> Session {
    let bytes = feed.into_iter().chain(name.bytes()).chain(start_id.to_le_bytes());
    let hash = bytes.chain(salt.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    crate::pipeline::stream_session(hash)
}

/// The streams with their rings, ready to become agents.
pub struct WiredStreams<D> {
    streams: Vec<(AgentName, DeltaStream<D>)>,
    pub gauges: Vec<StreamGauges>,
}

impl<D: DatagramNetwork + Send + 'static> WiredStreams<D> {
    /// Attaches a ring to market data for each stream.
    ///
    /// # Panics
    /// There is not one network and one session for each stream.
    pub fn new(
        config: &Config,
        networks: Vec<D>,
        sessions: &[StreamOptions],
        market_data: &mut MarketData<D>,
        core: &mut Core,
    ) -> Self {
        let configs = &config.market_data.streams;
        assert_eq!((networks.len(), sessions.len()), (configs.len(), configs.len()));
        let mut wired = Self { streams: Vec::new(), gauges: Vec::new() };
        for ((stream, network), options) in configs.iter().zip(networks).zip(sessions) {
            let reader = reader(stream, options, market_data, core);
            let settings = DeltaStreamOptions {
                session: options.session,
                destinations: stream.to.clone(),
                packet_bytes_max: stream.packet_size.0 as usize,
                flush_after_ns: stream.flush_after.0.as_nanos() as u64,
            };
            let sender = DeltaStream::new(network, settings, reader, stream.slots);
            wired.gauges.push(StreamGauges {
                name: stream.name.clone(),
                session: options.session,
                destinations: stream.to.clone(),
                counters: sender.counters(),
            });
            wired.streams.push((stream.agent_name(), sender));
        }
        wired
    }

    /// Makes agents of the streams.
    pub fn join(self, agents: &mut Agents) {
        let mut streams = self.streams;
        for name in AgentName::STREAMS {
            let (own, others): (Vec<_>, Vec<_>) =
                streams.into_iter().partition(|(agent, _)| *agent == name);
            streams = others;
            if !own.is_empty() {
                let own = own.into_iter().map(|(_, stream)| stream).collect();
                agents.insert(name, Box::new(DeltaStreams::new(own)));
            }
        }
    }
}

fn reader<D: DatagramNetwork>(
    stream: &StreamConfig,
    options: &StreamOptions,
    market_data: &mut MarketData<D>,
    core: &mut Core,
) -> StreamReader {
    let (from, to) = (AgentName::MarketData, stream.agent_name());
    // Figures use the name of a ring for the life of the program, and a program starts its streams once.
    let name: &'static str = Box::leak(format!("stream {}", stream.name).into_boxed_str());
    let (producer, reader) = match stream.overflow {
        Overflow::Block => {
            let (producer, reader) = core.ring::<FeedMessage>(name, stream.slots, from, to);
            (producer, StreamReader::Block(reader))
        }
        Overflow::Drop => {
            let (producer, reader) = core.dropping_ring(name, stream.slots, from, to);
            (producer, StreamReader::Drop(reader))
        }
    };
    market_data.add_stream(options.filter.clone(), producer);
    reader
}
