// Rotary tables in Rust's f32, without a JSON library. Build: rustc -O rust_float32.rs.
use std::io::{stdin, stdout, BufRead, Write};

fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.split_once(&format!("\"{name}\":"))?.1.trim_start();
    let end = if rest.starts_with('[') { rest.find(']')? } else { rest.find([',', '}'])? };
    Some(rest[..end].trim_start_matches('['))
}

fn rows(positions: &[f32], omega: &[f32], of: fn(f32) -> f32) -> String {
    let row = |p: &f32| {
        let numbers: Vec<String> = omega.iter().map(|w| format!("{:e}", of(p * w))).collect();
        format!("[{}]", numbers.join(","))
    };
    positions.iter().map(row).collect::<Vec<_>>().join(",")
}

fn answer(line: &str) -> Option<String> {
    let others = ["freq_factors", "xpos", "mrope_section"];
    if !line.contains("\"/rope\"") || others.iter().any(|name| value(line, name).is_some()) {
        return None;
    }
    let number = |name: &str| -> Option<f32> { value(line, name)?.parse().ok() };
    let (base, head) = (number("rope_theta")?, number("head_dim")?);
    let share = number("partial_rotary_factor").unwrap_or(1.0);
    let width = number("rotary_dim").unwrap_or((head * share).floor()) as usize;
    let factor = number("factor").unwrap_or(1.0);
    let positions: Vec<f32> = value(line, "positions")?.split(',').filter_map(|p| p.trim().parse().ok()).collect();
    let omega: Vec<f32> = (0..width).step_by(2).map(|c| 1.0 / base.powf(c as f32 / width as f32) / factor).collect();
    let (cos, sin) = (rows(&positions, &omega, f32::cos), rows(&positions, &omega, f32::sin));
    Some(format!(r#"{{"type":"answer","dtype":"float32","arrays":{{"cos":[{cos}],"sin":[{sin}]}}}}"#))
}

fn main() {
    for line in stdin().lock().lines().map_while(Result::ok).take_while(|line| !line.contains("\"bye\"")) {
        let hello = r#"{"type":"hello","protocol":1,"name":"Rust float32","version":"1","language":"Rust","kinds":["table"],"rope_types":["default","linear"]}"#;
        let refused = r#"{"type":"unsupported","reason":"only a base and widths"}"#.to_string();
        println!("{}", if line.contains("\"hello\"") { hello.into() } else { answer(&line).unwrap_or(refused) });
        stdout().flush().ok();
    }
}
