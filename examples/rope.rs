// A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
// Run, beside config.json: rustc --edition 2021 rope.rs && ./rope http://127.0.0.1:8000
use std::io::{Read, Result, Write};
use std::{env, fs, net::TcpStream};

/// Returns the head and the body of an answer, which must have this status.
fn ask(status: &str, target: &str, fields: &str, body: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let server = env::args().nth(1).unwrap_or("http://127.0.0.1:8000".into());
    let mut stream = TcpStream::connect(server.trim_start_matches("http://"))?;
    // The answer to HTTP/1.0 ends where the connection ends.
    write!(stream, "{target} HTTP/1.0\r\nContent-Length: {}\r\n{fields}\r\n", body.len())?;
    stream.write_all(body)?;
    let mut head = Vec::new();
    stream.read_to_end(&mut head)?;
    let end = head.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer");
    let content = head.split_off(end + 4);
    assert_eq!(between(&head, " ", " "), status, "{}", String::from_utf8_lossy(&content));
    Ok((head, content))
}

/// Returns the text between two others.
fn between(bytes: &[u8], before: &str, after: &str) -> String {
    let text = String::from_utf8_lossy(bytes);
    let (_, rest) = text.split_once(before).expect(before);
    rest.split_once(after).expect(after).0.into()
}

/// Checks the number at the start of some bytes.
fn check(name: &str, bytes: &[u8], expected: f64) {
    let value = f32::from_le_bytes(bytes[..4].try_into().unwrap());
    println!("{name}: {value:.6}");
    assert!((f64::from(value) - expected).abs() < 1e-6, "expected {expected}");
}

fn main() -> Result<()> {
    // From the config to the cosines in the layout of the model: a row of 64 for each position.
    let types = "Content-Type: application/json\r\nAccept: text/plain\r\n";
    let (_, model) = ask("200", "POST /rope/config", types, &fs::read("config.json")?)?;
    println!("layout: {}", between(&model, "\nlayout: ", "\n"));
    let link = between(&model, "\ndefault.cos: ", "\n");
    let (head, table) = ask("200", &format!("GET {link}"), "", b"")?;
    // A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
    let (cos, lowest) = (&table[128..], 500_000f64.powf(-62.0 / 64.0) / 32.0);
    check("cos[131071][31]", &cos[4 * (131_071 * 64 + 31)..], (131_071.0 * lowest).cos());
    let unless = format!("If-None-Match: {}\r\n", between(&head, "\r\netag: ", "\r\n"));
    ask("304", &format!("GET {link}"), &unless, b"")?;
    println!("unchanged: 304");

    // Row 1000000000 of a table of 512 GiB, at byte 128 + 4 * 64 * 1000000000; and a misspelling.
    let range = "Range: bytes=256000000128-256000000383\r\n";
    let (_, row) = ask("206", &format!("GET {link}&seq_len=2147483648"), range, b"")?;
    check("cos[1000000000][0]", &row, 1e9f64.cos());
    let (_, problem) = ask("422", "GET /rope?head_dim=64&seqlen=8", "", b"")?;
    println!("problem: {}", between(&problem, r#""detail":""#, "\""));

    // The first 64 rows of an engine that interleaves the channels of a model with halves.
    let order = (0..64 * 64).map(|i| 4 * (i - i % 64 + i % 64 / 2));
    let mine: Vec<u8> = order.flat_map(|i| cos[i..i + 4].to_vec()).collect();
    let to = format!("/diagnose?shape=64,64&dtype=float32&to={}", link.replace('&', "%26"));
    let types = "Content-Type: application/octet-stream\r\nAccept: text/plain\r\n";
    let (_, report) = ask("200", &format!("POST {to}"), types, &mine)?;
    println!("diagnosis: {}", between(&report, "", "\n"));
    Ok(())
}
