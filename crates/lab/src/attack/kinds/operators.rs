//! Attacks on the admin API.

use std::time::Duration;

use super::{Attack, free};

pub(super) const ROWS: &[Attack] = &[
    free("http-slow", "300 slow requests to the admin API", "connections; time for a head", |it| {
        it.occupy(it.at.admin, &[1, 9], 150, Duration::from_millis(100), |step| {
            if step == 1 { b"GET /status HTTP/1.1\r\n".to_vec() } else { b"X-Slow: 1\r\n".to_vec() }
        })
    }),
    free("http-headers", "requests with a megabyte of headers", "bytes of a head", |it| {
        it.churn(it.at.admin, true, |_| {
            [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat()
        })
    }),
    free("http-bodies", "commands with a body of a megabyte", "bytes of a body", |it| {
        it.churn(it.at.admin, true, |_| http("POST /operator", "localhost", &"x".repeat(1 << 20)))
    }),
    free("http-hosts", "requests that name another host", "421; requests at a time", |it| {
        it.churn(it.at.admin, true, |_| http("GET /status", "evil.example", ""))
    }),
    free("http-queries", "queries without a pause", "requests at a time", |it| {
        it.churn(it.at.admin, true, |_| http("GET /status", "localhost", ""))
    }),
    free(
        "operator-without-key",
        "commands of operators without a key",
        "401; requests at a time",
        |it| {
            it.churn(it.at.admin, true, |_| {
                http(
                    "POST /operator",
                    "localhost",
                    r#"{"command":{"verb":"halt","instruments":{"all":true},"reason":"T1"}}"#,
                )
            })
        },
    ),
    free("operator-wrong-keys", "commands of operators with keys that are guessed", "401", |it| {
        it.churn(it.at.admin, true, |turn| {
            http(
                "POST /operator",
                &format!("localhost\r\nAuthorization: Bearer guess{turn}"),
                r#"{"command":{"verb":"halt","instruments":{"all":true},"reason":"T1"}}"#,
            )
        })
    }),
    free(
        "http-unread",
        "300 connections that ask again and again, and read 64 bytes of the answers now and then",
        "connections; time for an answer",
        |it| {
            it.occupy(it.at.admin, &[1, 9], 150, Duration::from_millis(50), |_| {
                http("GET /status", "localhost", "").repeat(20)
            })
        },
    ),
];

fn http(line: &str, host: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("{line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len}\r\n\r\n{body}").into_bytes()
}
