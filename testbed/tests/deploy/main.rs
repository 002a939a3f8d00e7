//! What `deploy/` promises, tried with the real programs.

mod supervised;
