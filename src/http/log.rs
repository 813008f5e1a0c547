//! The log's public face: checkpoint and tiles (C2SP tlog-tiles).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, Response, header};
use axum::routing::get;

use super::error::{refuse, unavailable};
use crate::release::service::{Ports, Service};
use crate::release::standing::{checkpoint, tile};
use crate::wire::Code;

/// Builds the routes under `/log`.
pub fn routes<P: Ports>(service: Arc<Service<P>>) -> Router {
    Router::new()
        .route("/log/checkpoint", get(head::<P>))
        .route("/log/tile/{level}/{*path}", get(hashes::<P>))
        .method_not_allowed_fallback(|| async { refuse(Code::MethodNotAllowed, None) })
        .with_state(service)
}

async fn head<P: Ports>(State(service): State<Arc<Service<P>>>) -> Response<Body> {
    match checkpoint(&service).await {
        Ok(Some(note)) => body(note.into_bytes(), "text/plain; charset=utf-8", "no-store"),
        Ok(None) => refuse(Code::RouteUnknown, None),
        Err(error) => unavailable(error.code(), 1),
    }
}

async fn hashes<P: Ports>(
    State(service): State<Arc<Service<P>>>,
    Path((level, path)): Path<(String, String)>,
) -> Response<Body> {
    let Some((level, index, width)) = parse(&level, &path) else {
        return refuse(Code::RouteUnknown, None);
    };
    match tile(&service, level, index, width).await {
        Ok(Some(bytes)) => body(bytes, "application/octet-stream", "public, max-age=31536000, immutable"),
        Ok(None) => refuse(Code::RouteUnknown, None),
        Err(error) => unavailable(error.code(), 1),
    }
}

fn body(bytes: Vec<u8>, kind: &'static str, cache: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

/// Reads `<level>/<index>[.p/<width>]`, the index in groups of three digits, all but the last with an `x` before.
///
/// Source: C2SP tlog-tiles, "Merkle Tree".
fn parse(level: &str, path: &str) -> Option<(u8, u64, u16)> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if level.is_empty() || level.len() > 2 || !digits(level) || (level.len() == 2 && level.starts_with('0')) {
        return None;
    }
    let level: u8 = level.parse().ok().filter(|level| *level < 64)?;
    let (index, width) = match path.split_once(".p/") {
        Some((index, width)) => {
            let parsed: u16 = width.parse().ok().filter(|width| (1..256).contains(width))?;
            (index, (parsed.to_string() == width).then_some(parsed)?)
        }
        None => (path, 256),
    };
    let groups: Vec<&str> = index.split('/').collect();
    let (last, above) = groups.split_last()?;
    let mut number = 0u64;
    let parts = above.iter().map(|group| group.strip_prefix('x')).chain([Some(*last)]);
    for part in parts {
        let part = part.filter(|part| part.len() == 3 && digits(part))?;
        number = number.checked_mul(1000)?.checked_add(part.parse().ok()?)?;
    }
    // One spelling for one tile: no leading group of zeros.
    if above.first().is_some_and(|group| *group == "x000") {
        return None;
    }
    Some((level, number, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_has_one_spelling() {
        assert_eq!(parse("0", "000"), Some((0, 0, 256)));
        assert_eq!(parse("1", "x001/x234/067.p/8"), Some((1, 1_234_067, 8)));
        for (level, path) in [
            ("00", "000"),
            ("0", "0"),
            ("0", "x000/001"),
            ("0", "001/002"),
            ("0", "000.p/0"),
            ("0", "000.p/256"),
            ("0", "000.p/08"),
            ("64", "000"),
            ("-1", "000"),
            ("0", "x999/x999/x999/x999/x999/x999/x999/999"),
        ] {
            assert_eq!(parse(level, path), None, "{level} {path}");
        }
    }
}
