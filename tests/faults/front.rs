//! Stands before the bucket. While it fails, every request is answered 500, and every second one is carried out all the same.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const ERROR: &[u8] =
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/xml\r\nContent-Length: 88\r\nConnection: close\r\n\r\n\
    <Error><Code>InternalError</Code><Message>We met an internal error.</Message></Error>   ";

pub struct Front {
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    failing: AtomicBool,
    /// Requests that were answered 500.
    failed: AtomicUsize,
    /// Both ends of each connection, by its number.
    open: Mutex<HashMap<usize, [TcpStream; 2]>>,
}

impl Front {
    pub fn start(upstream: String) -> Front {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let shared = Arc::new(Shared { upstream, failing: AtomicBool::new(false), failed: AtomicUsize::new(0), open: Mutex::default() });
        let accepting = shared.clone();
        thread::spawn(move || {
            for (number, client) in listener.incoming().flatten().enumerate() {
                let shared = accepting.clone();
                thread::spawn(move || {
                    shared.serve(number, client);
                    shared.open.lock().remove(&number);
                });
            }
        });
        Front { address, shared }
    }

    /// From now on. Connections of before are cut off.
    pub fn fail(&self, failing: bool) {
        self.shared.failing.store(failing, Ordering::SeqCst);
        for stream in self.shared.open.lock().values().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// Errors end a connection, as they do on any network.
    fn serve(&self, number: usize, mut client: TcpStream) {
        let Ok(mut server) = TcpStream::connect(&self.upstream) else { return };
        let clones = || Ok::<_, std::io::Error>((client.try_clone()?, server.try_clone()?, client.try_clone()?, server.try_clone()?));
        let Ok((mut from_client, mut to_server, open_client, open_server)) = clones() else { return };
        self.open.lock().insert(number, [open_client, open_server]);
        if !self.failing.load(Ordering::SeqCst) {
            thread::spawn(move || {
                let _ = std::io::copy(&mut from_client, &mut to_server);
                let _ = to_server.shutdown(Shutdown::Both);
            });
            let _ = std::io::copy(&mut server, &mut client);
        } else if self.failed.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            // What the client says is read, or it would meet a reset instead of the answer.
            let _ = from_client.read(&mut [0; 1 << 16]);
            let _ = client.write_all(ERROR);
        } else {
            thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            let mut answer = [0; 1 << 16];
            while let Ok(length) = server.read(&mut answer)
                && answer[..length].starts_with(b"HTTP/1.1 100")
                && client.write_all(&answer[..length]).is_ok()
            {}
            let _ = client.write_all(ERROR);
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }
}
