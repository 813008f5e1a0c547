//! Listeners: TLS accept loops with bounds on time and connections.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

/// Connections of one listener at a time.
const CONNECTIONS_MAX: usize = 1024;
const CONNECTIONS_MAX_U32: u32 = 1024;
/// Seconds for what is in progress when the service stops.
const DRAIN_S_MAX: u64 = 10;
/// Seconds for a TLS handshake, and for a request's head.
const HANDSHAKE_S_MAX: u64 = 10;
/// Seconds for one connection, idle or busy.
const CONNECTION_S_MAX: u64 = 120;

/// How a listener speaks.
#[derive(Clone)]
pub enum Wire {
    /// Only on loopback, and only by a setting with `danger` in its name.
    Plain,
    Tls(Arc<rustls::ServerConfig>),
}

/// Serves `routes` until `stop` says so; then finishes what is in progress, for `DRAIN_S_MAX` at most.
pub async fn serve(listener: TcpListener, wire: Wire, routes: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
        let (wire, routes, stop) = (wire.clone(), routes.clone(), stop.clone());
        tokio::spawn(async move {
            let connection = Duration::from_secs(CONNECTION_S_MAX);
            if tokio::time::timeout(connection, handle(stream, peer, wire, routes, stop)).await.is_err() {
                tracing::debug!(%peer, "a connection took too long");
            }
            drop(place);
        });
    }
    drop(listener);
    let drained =
        tokio::time::timeout(Duration::from_secs(DRAIN_S_MAX), places.acquire_many(CONNECTIONS_MAX_U32));
    if drained.await.is_err() {
        tracing::warn!("connections were cut off in the end");
    }
}

async fn handle(
    stream: TcpStream,
    peer: SocketAddr,
    wire: Wire,
    routes: Router,
    stop: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "no delay was not set");
    }
    match wire {
        Wire::Plain => speak(stream, peer, routes, stop).await,
        Wire::Tls(config) => {
            let handshake = TlsAcceptor::from(config).accept(stream);
            match tokio::time::timeout(Duration::from_secs(HANDSHAKE_S_MAX), handshake).await {
                Ok(Ok(stream)) => speak(stream, peer, routes, stop).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
            }
        }
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: SocketAddr,
    routes: Router,
    mut stop: watch::Receiver<bool>,
) {
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.clone().oneshot(request)
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(HANDSHAKE_S_MAX))
        .max_buf_size(64 * 1024);
    // One at a time, as over HTTP/1: so the bound on connections bounds the bodies in memory too.
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}
