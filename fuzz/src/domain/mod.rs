//! What must hold in `domain` for every input. Each function takes the bytes of one input and panics when something
//! does not hold. `common/domain/tests/it/corpus.rs` includes this folder, and runs the kept inputs with the other tests.

pub mod bodies;
pub mod envelopes;
pub mod erased;
pub mod input;
pub mod money;
pub mod orders;
pub mod payments;
pub mod privacy;
pub mod profiles;
pub mod queries;
pub mod redaction;
pub mod signatures;
pub mod times;
