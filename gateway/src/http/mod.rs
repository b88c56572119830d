//! The public listener: connections, bodies, and the path of one request.

pub mod body;
pub mod handler;
pub mod prepare;
pub mod reply;
pub mod server;
pub mod socket;
