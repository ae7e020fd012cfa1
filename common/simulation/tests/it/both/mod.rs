//! The store on SQLite and on PostgreSQL, beside the model.

mod differential;
