//! Sealing rejects, so that the topic of rejects is not the leak: HPKE (RFC 9180), one context a commit batch.
//!
//! X25519-HKDF-SHA256 agrees on a secret, a key is exported from it, and each event of the batch is sealed by
//! ChaCha20-Poly1305 under that key with its place in the batch as the nonce: any one event can be opened alone.
//! Owns: the key files, sealing and opening. Does not own: what is sealed and bound (`deliver`), randomness.
//! Invariants: a sealer never uses a nonce twice; no `Debug` or error shows a private key or an opened event.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce};
use forebay_schemas::wire::bad::Sealed;
use hpke::aead::ExportOnlyAead;
use hpke::kdf::HkdfSha256;
use hpke::kem::{Kem, X25519HkdfSha256};
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{Deserializable, OpModeR, OpModeS, Serializable};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::fmt;

const INFO: &[u8] = b"forebay bad event v1";
const EXPORT: &[u8] = b"chacha20poly1305 key";
const PUBLIC_HEAD: &str = "forebay-bad-public-1";
const PRIVATE_HEAD: &str = "forebay-bad-private-1";

/// Why a key file or a sealed event could not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SealError {
    #[error("expected one line: {0} <key id> <32 bytes in base64>")]
    KeyFile(&'static str),
    #[error("the key id does not belong to this key")]
    KeyId,
    #[error("sealed for another key")]
    OtherKey,
    #[error("the sealed part does not open: it or its clear part was changed")]
    Broken,
}

/// Whom rejects are sealed for. Its id is the first 8 hex digits of SHA-256 of the key.
#[derive(Clone)]
pub struct BadPublicKey {
    id: String,
    key: <X25519HkdfSha256 as Kem>::PublicKey,
}

/// Opens rejects. Kept apart from the enricher.
pub struct BadPrivateKey {
    id: String,
    key: <X25519HkdfSha256 as Kem>::PrivateKey,
}

/// The texts of a new pair of key files: (public, private). `seed` is the caller's fresh randomness.
pub fn generate(seed: &[u8; 32]) -> (String, String) {
    let (private, public) = X25519HkdfSha256::derive_keypair(seed);
    (line(PUBLIC_HEAD, &key_id(&public), &public.to_bytes()), line(PRIVATE_HEAD, &key_id(&public), &private.to_bytes()))
}

fn line(head: &str, id: &str, bytes: &[u8]) -> String {
    format!("{head} {id} {}\n", STANDARD.encode(bytes))
}

fn key_id(key: &<X25519HkdfSha256 as Kem>::PublicKey) -> String {
    Sha256::digest(key.to_bytes()).iter().take(4).map(|b| format!("{b:02x}")).collect()
}

fn read_line(text: &str, head: &'static str) -> Result<(String, Vec<u8>), SealError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [first, id, key] if first == head => Ok((id.to_owned(), STANDARD.decode(key).map_err(|_| SealError::KeyFile(head))?)),
        _ => Err(SealError::KeyFile(head)),
    }
}

impl BadPublicKey {
    pub fn parse(text: &str) -> Result<BadPublicKey, SealError> {
        let (id, bytes) = read_line(text, PUBLIC_HEAD)?;
        let key = Deserializable::from_bytes(&bytes).map_err(|_| SealError::KeyFile(PUBLIC_HEAD))?;
        if id != key_id(&key) {
            return Err(SealError::KeyId);
        }
        Ok(BadPublicKey { id, key })
    }
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl BadPrivateKey {
    pub fn parse(text: &str) -> Result<BadPrivateKey, SealError> {
        let (id, bytes) = read_line(text, PRIVATE_HEAD)?;
        let key = Deserializable::from_bytes(&bytes).map_err(|_| SealError::KeyFile(PRIVATE_HEAD))?;
        if id != key_id(&X25519HkdfSha256::sk_to_pk(&key)) {
            return Err(SealError::KeyId);
        }
        Ok(BadPrivateKey { id, key })
    }
    pub fn id(&self) -> &str {
        &self.id
    }
    /// The text of the public key's file: what was lost can be made again.
    pub fn public_file(&self) -> String {
        line(PUBLIC_HEAD, &self.id, &X25519HkdfSha256::sk_to_pk(&self.key).to_bytes())
    }

    /// The plain bytes of `sealed`, if it was sealed for this key and bound to `clear`.
    pub fn open(&self, sealed: &Sealed, clear: &[u8]) -> Result<Vec<u8>, SealError> {
        if sealed.key_id != self.id {
            return Err(SealError::OtherKey);
        }
        let encapsulated = Deserializable::from_bytes(&sealed.encapsulated_key).map_err(|_| SealError::Broken)?;
        let context = hpke::setup_receiver::<ExportOnlyAead, HkdfSha256, X25519HkdfSha256>(&OpModeR::Base, &self.key, &encapsulated, INFO)
            .map_err(|_| SealError::Broken)?;
        let mut key = [0; 32];
        context.export(EXPORT, &mut key).map_err(|_| SealError::Broken)?;
        ChaCha20Poly1305::new(&key.into())
            .decrypt(&nonce(sealed.sequence), Payload { msg: &sealed.ciphertext, aad: clear })
            .map_err(|_| SealError::Broken)
    }
}

/// Seals the rejects of one commit batch.
pub struct Sealer {
    key_id: String,
    encapsulated_key: Vec<u8>,
    cipher: ChaCha20Poly1305,
    sequence: u64,
}

impl Sealer {
    /// `seed` is 32 bytes of fresh randomness for this batch alone: the same seed again would repeat its nonces.
    pub fn new(public: &BadPublicKey, seed: [u8; 32]) -> Sealer {
        let mut random = Expanded { seed, block: 0 };
        let (encapsulated, context) =
            hpke::setup_sender_with_rng::<ExportOnlyAead, HkdfSha256, X25519HkdfSha256>(&OpModeS::Base, &public.key, INFO, &mut random)
                .expect("a parsed public key can be encapsulated to");
        let mut key = [0; 32];
        context.export(EXPORT, &mut key).expect("32 bytes are within HKDF's bound");
        Sealer {
            key_id: public.id.clone(),
            encapsulated_key: encapsulated.to_bytes().to_vec(),
            cipher: ChaCha20Poly1305::new(&key.into()),
            sequence: 0,
        }
    }

    /// Seals one event and binds it to `clear`, the encoded clear part.
    pub fn seal(&mut self, plain: &[u8], clear: &[u8]) -> Sealed {
        let sequence = self.sequence;
        self.sequence += 1;
        let ciphertext =
            self.cipher.encrypt(&nonce(sequence), Payload { msg: plain, aad: clear }).expect("an event is far below the cipher's bound");
        Sealed { key_id: self.key_id.clone(), encapsulated_key: self.encapsulated_key.clone(), sequence, ciphertext }
    }
}

fn nonce(sequence: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&sequence.to_be_bytes());
    bytes.into()
}

/// The seed as a stream of random bytes: SHA-256 of the seed and a counter.
struct Expanded {
    seed: [u8; 32],
    block: u64,
}

impl TryRng for Expanded {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for chunk in out.chunks_mut(32) {
            let mut hash = Sha256::new();
            hash.update(self.seed);
            hash.update(self.block.to_be_bytes());
            self.block += 1;
            chunk.copy_from_slice(&hash.finalize()[..chunk.len()]);
        }
        Ok(())
    }
}
impl TryCryptoRng for Expanded {}

impl fmt::Debug for BadPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BadPublicKey({})", self.id)
    }
}
impl fmt::Debug for BadPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BadPrivateKey({})", self.id)
    }
}
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({}, {} sealed)", self.key_id, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_event_of_a_batch_opens_alone_and_only_with_its_clear_part() {
        let (public, private) = generate(&[1; 32]);
        let (public, private) = (BadPublicKey::parse(&public).expect("public"), BadPrivateKey::parse(&private).expect("private"));
        let mut sealer = Sealer::new(&public, [2; 32]);
        let sealed: Vec<Sealed> = [b"one", b"two"].iter().map(|plain| sealer.seal(*plain, b"clear")).collect();
        assert_eq!(private.open(&sealed[1], b"clear"), Ok(b"two".to_vec()));
        assert_eq!(private.open(&sealed[0], b"clear"), Ok(b"one".to_vec()));
        assert_eq!(private.open(&sealed[0], b"cleaR"), Err(SealError::Broken));
        assert_eq!(private.open(&Sealed { sequence: 1, ..sealed[0].clone() }, b"clear"), Err(SealError::Broken));
        let other = BadPrivateKey::parse(&generate(&[3; 32]).1).expect("private");
        assert_eq!(other.open(&sealed[0], b"clear"), Err(SealError::OtherKey));
        assert_ne!(Sealer::new(&public, [4; 32]).seal(b"one", b"clear").encapsulated_key, sealed[0].encapsulated_key);
    }

    #[test]
    fn key_files_are_checked() {
        let (public, private) = generate(&[1; 32]);
        assert_eq!(BadPublicKey::parse(&private).err(), Some(SealError::KeyFile(PUBLIC_HEAD)));
        assert_eq!(BadPublicKey::parse("").err(), Some(SealError::KeyFile(PUBLIC_HEAD)));
        let id = BadPublicKey::parse(&public).expect("public").id().to_owned();
        assert_eq!(BadPublicKey::parse(&public.replace(&id, "00000000")).err(), Some(SealError::KeyId));
        let private = BadPrivateKey::parse(&private).expect("private");
        assert_eq!((format!("{private:?}"), private.id()), (format!("BadPrivateKey({id})"), id.as_str()));
    }
}
