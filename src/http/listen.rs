//! Listeners: TLS accept loops with bounds on time and connections.

use std::net::SocketAddr;
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

/// Serves `routes` until `stop` says so; then finishes what is in progress.
pub async fn serve(listener: TcpListener, wire: Wire, routes: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (wire, routes) = (wire.clone(), routes.clone());
        tokio::spawn(async move {
            let connection = Duration::from_secs(CONNECTION_S_MAX);
            if tokio::time::timeout(connection, handle(stream, peer, wire, routes)).await.is_err() {
                tracing::debug!(%peer, "a connection took too long");
            }
            drop(place);
        });
    }
}

async fn handle(stream: TcpStream, peer: SocketAddr, wire: Wire, routes: Router) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "no delay was not set");
    }
    match wire {
        Wire::Plain => speak(stream, peer, routes).await,
        Wire::Tls(config) => {
            let handshake = TlsAcceptor::from(config).accept(stream);
            match tokio::time::timeout(Duration::from_secs(HANDSHAKE_S_MAX), handshake).await {
                Ok(Ok(stream)) => speak(stream, peer, routes).await,
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
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(16);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}
