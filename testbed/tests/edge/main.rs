//! The edge on plain workerd, in front of an origin that does as it is told and of the real one.

mod stage;

mod failing_origin;
mod fresh_and_stale;
mod headers;
mod panic;
mod platform;
mod posts;
mod real_origin;
mod several_origins;
mod soak;
mod wrangler;
mod writes;
