//! Speaks TLS in front of a backend that does not: each connection is passed on as it is. It makes
//! a certificate of its own, for `localhost` and 127.0.0.1.
//!
//! `--to HOST:PORT --ca FILE --port-file FILE`: the backend, where the certificate and where the
//! port are written.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ojs_bench::{Trouble, required};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};

/// Two threads for each connection, which do little more than read and write.
const STACK_BYTES: usize = 128 << 10;

/// Bytes passed on at once: four records of TLS.
const PIECE_BYTES: usize = 64 << 10;

fn main() -> Result<(), Trouble> {
    let to: String = required("--to")?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    fs::write(required::<String>("--ca")?, made.cert.pem())?;
    let port_file: String = required("--port-file")?;
    // Under its name it is whole.
    let part = format!("{port_file}.part");
    fs::write(&part, listener.local_addr()?.port().to_string())?;
    fs::rename(part, port_file)?;
    for client in listener.incoming() {
        let (client, to, config) = (client?, to.clone(), Arc::clone(&config));
        // A connection that breaks is the client's business.
        let pass_on = move || drop(pass_on(client, &to, config));
        thread::Builder::new().stack_size(STACK_BYTES).spawn(pass_on)?;
    }
    Ok(())
}

fn pass_on(mut client: TcpStream, to: &str, config: Arc<ServerConfig>) -> Result<(), Trouble> {
    let mut session = ServerConnection::new(config)?;
    // Nothing is taken from the backend that does not fit: a piece at a time is bound enough.
    session.set_buffer_limit(None);
    client.set_nodelay(true)?;
    session.complete_io(&mut client)?;
    let backend = TcpStream::connect(to)?;
    backend.set_nodelay(true)?;
    let session = Arc::new(Mutex::new(session));
    let (mut from_backend, to_client, theirs) = (backend.try_clone()?, client.try_clone()?, Arc::clone(&session));
    let answers = move || drop(encrypt(&mut from_backend, to_client, &theirs));
    thread::Builder::new().stack_size(STACK_BYTES).spawn(answers)?;
    let result = decrypt(client, &backend, &session);
    let _ = backend.shutdown(Shutdown::Both);
    result
}

fn decrypt(mut client: TcpStream, backend: &TcpStream, session: &Mutex<ServerConnection>) -> Result<(), Trouble> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        // Before anything is read: the end of the handshake may have brought a request with it.
        if hand_on(&mut session.lock().unwrap_or_else(PoisonError::into_inner), backend)? {
            return Ok(());
        }
        let read = client.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        let mut rest = piece.get(..read).unwrap_or_default();
        while !rest.is_empty() {
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session.read_tls(&mut rest)?;
            session.process_new_packets()?;
            if hand_on(&mut session, backend)? {
                return Ok(());
            }
        }
    }
}

/// Gives the backend what has been decrypted; whether the client has said that it was all.
fn hand_on(session: &mut ServerConnection, mut backend: &TcpStream) -> Result<bool, Trouble> {
    let mut plain = vec![0; PIECE_BYTES];
    loop {
        match session.reader().read(&mut plain) {
            Ok(0) => return Ok(true),
            Ok(read) => backend.write_all(plain.get(..read).unwrap_or_default())?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

fn encrypt(backend: &mut TcpStream, mut client: TcpStream, session: &Mutex<ServerConnection>) -> Result<(), Trouble> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = backend.read(&mut piece)?;
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        if read == 0 {
            session.send_close_notify();
            session.write_tls(&mut client)?;
            client.shutdown(Shutdown::Both)?;
            return Ok(());
        }
        session.writer().write_all(piece.get(..read).unwrap_or_default())?;
        while session.wants_write() {
            session.write_tls(&mut client)?;
        }
    }
}
