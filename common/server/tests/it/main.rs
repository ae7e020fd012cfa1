mod client_address;
mod connections;
mod filter;
mod probes;
