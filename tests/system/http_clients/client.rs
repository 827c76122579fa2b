// client URL: send the requests of standard input on one TcpStream.
use std::io::{stdin, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("no URL")?;
    let host = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    for line in stdin().lock().lines() {
        let line = line?;
        let fields: Vec<&str> = line.split('\t').collect();
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", fields[0], fields[1], host);
        for header in fields[2].split('|').filter(|header| !header.is_empty()) {
            head += &format!("{}\r\n", header);
        }
        head += &format!("Content-Length: {}\r\n\r\n", fields[3].len());
        stream.write_all((head + fields[3]).as_bytes())?;

        let (mut status, mut length) = (String::new(), 0);
        reader.read_line(&mut status)?;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            match header.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse()?
                }
                Some(_) => {}
                None => break,
            }
        }
        let code: u16 = status.split(' ').nth(1).ok_or("no status")?.parse()?;
        let mut body = vec![0; if code == 304 { 0 } else { length }];
        reader.read_exact(&mut body)?;
        let hex: String = body.iter().map(|byte| format!("{:02x}", byte)).collect();
        println!("{{\"status\": {}, \"body\": \"{}\"}}", code, hex);
    }
    Ok(())
}
