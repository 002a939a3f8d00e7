//! What `deploy/` promises, tried with the real programs.

mod load;
mod stage;

mod challenge;
mod closed;
mod container;
mod droplet;
mod hand_over;
mod monitoring;
mod nginx;
mod scripts;
mod supervised;
