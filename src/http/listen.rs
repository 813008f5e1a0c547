//! Listeners: TLS accept loops with bounds on time and connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::{BoxError, Router};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

/// Seconds for what is in progress when the service stops.
const DRAIN_S_MAX: u64 = 10;
/// Seconds for one connection, idle or busy.
const CONNECTION_S_MAX: u64 = 120;

/// How many connections a listener holds at a time, and how long it waits for what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub connections_max: u16,
    /// Of one IPv4 address, or of one /64 network of IPv6, which is what one machine may have to itself.
    pub of_one_address_max: u16,
    /// Seconds for a TLS handshake, for the first request to begin after it, and for a request's head.
    pub head_s_max: u16,
    /// Seconds for a request's body, from its head on.
    pub body_s_max: u16,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { connections_max: 1024, of_one_address_max: 128, head_s_max: 10, body_s_max: 20 }
    }
}

/// How a listener speaks.
#[derive(Clone)]
pub enum Wire {
    /// Only on loopback, and only by a setting with `danger` in its name.
    Plain,
    Tls(Arc<rustls::ServerConfig>),
}

/// Serves `routes` until `stop` says so; then finishes what is in progress, for `DRAIN_S_MAX` at most.
///
/// Whoever has as many connections as one address may have is hung up on; where the listener is full, the next one
/// waits until a place is free.
pub async fn serve(
    listener: TcpListener,
    wire: Wire,
    bounds: Bounds,
    routes: Router,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(bounds.connections_max.into()));
    let peers = Arc::new(Peers::default());
    loop {
        let place = tokio::select! {
            place = places.clone().acquire_owned() => place,
            _ = stop.changed() => break,
        };
        let Ok(place) = place else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(seat) = peers.seat(peer.ip(), bounds.of_one_address_max) else {
            tracing::debug!(%peer, "an address has too many connections");
            continue;
        };
        let (wire, routes, stop) = (wire.clone(), routes.clone(), stop.clone());
        tokio::spawn(async move {
            let connection = Duration::from_secs(CONNECTION_S_MAX);
            if tokio::time::timeout(connection, handle(stream, peer, wire, bounds, routes, stop))
                .await
                .is_err()
            {
                tracing::debug!(%peer, "a connection took too long");
            }
            drop((place, seat));
        });
    }
    drop(listener);
    let all = places.acquire_many(bounds.connections_max.into());
    if tokio::time::timeout(Duration::from_secs(DRAIN_S_MAX), all).await.is_err() {
        tracing::warn!("connections were cut off in the end");
    }
}

/// Who holds how many connections.
#[derive(Debug, Default)]
struct Peers(Mutex<HashMap<IpAddr, u16>>);

/// One connection of an address; it is given back when it is dropped.
#[derive(Debug)]
struct Seat {
    peers: Arc<Peers>,
    network: IpAddr,
}

impl Peers {
    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, u16>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat(self: &Arc<Self>, address: IpAddr, max: u16) -> Option<Seat> {
        let network = network(address);
        let mut counts = self.counts();
        let count = counts.entry(network).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Seat { peers: self.clone(), network })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.peers.counts();
        if let Some(count) = counts.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.network);
            }
        }
    }
}

/// Returns what one machine may have to itself: the address, or the /64 of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

async fn handle(
    stream: TcpStream,
    peer: SocketAddr,
    wire: Wire,
    bounds: Bounds,
    routes: Router,
    stop: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "no delay was not set");
    }
    match wire {
        Wire::Plain => speak(stream, peer, bounds, routes, stop).await,
        Wire::Tls(config) => {
            let handshake = TlsAcceptor::from(config).accept(stream);
            match tokio::time::timeout(Duration::from_secs(bounds.head_s_max.into()), handshake).await {
                Ok(Ok(stream)) => speak(stream, peer, bounds, routes, stop).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
            }
        }
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: SocketAddr,
    bounds: Bounds,
    routes: Router,
    mut stop: watch::Receiver<bool>,
) {
    let [head, body] = [bounds.head_s_max, bounds.body_s_max].map(|s| Duration::from_secs(s.into()));
    let (begun, mut first) = watch::channel(false);
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        begun.send_replace(true);
        request.extensions_mut().insert(ConnectInfo(peer));
        routes
            .clone()
            .oneshot(request.map(|sent| Timed { body: sent, deadline: Box::pin(tokio::time::sleep(body)) }))
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(64 * 1024);
    // One at a time, as over HTTP/1: so the bound on connections bounds the bodies in memory too.
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return told(peer, ended),
        _ = first.wait_for(|begun| *begun) => {}
        _ = stop.changed() => connection.as_mut().graceful_shutdown(),
        // Before HTTP/1 and 2 are told apart no other timer runs.
        () = tokio::time::sleep(head) => return tracing::debug!(%peer, "no request began in time"),
    }
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    told(peer, ended);
}

fn told(peer: SocketAddr, ended: Result<(), BoxError>) {
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

/// A request's body that must come in time: one that trickles would keep its place and its memory.
struct Timed {
    body: Incoming,
    deadline: Pin<Box<Sleep>>,
}

impl Body for Timed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        self.deadline.as_mut().poll(context).map(|()| Some(Err("the body took too long".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_seats_and_gives_them_back() {
        let peers = Arc::new(Peers::default());
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let seat = |text: &str| peers.seat(at(text), 2);
        let held = [seat("192.0.2.1").unwrap(), seat("::ffff:192.0.2.1").unwrap()];
        assert!(seat("192.0.2.1").is_none(), "also as an IPv6 address");
        assert!(seat("192.0.2.2").is_some());
        let other = [seat("2001:db8::1").unwrap(), seat("2001:db8::ffff:1").unwrap()];
        assert!(seat("2001:db8::2").is_none(), "one network of one machine");
        assert!(seat("2001:db8:0:1::2").is_some());
        drop((held, other));
        assert!(peers.counts().is_empty());
        assert!(seat("192.0.2.1").is_some());
    }
}
