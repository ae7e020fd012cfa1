mod breaker;
mod endpoints;
mod exports;
mod identity;
mod journal;
