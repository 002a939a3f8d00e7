//! Every row and sentence of the contract. What one request can show is a row of a table (`routes`, `tokens`, `json`, `text`), which
//! the corpus shares; what takes several is in `behaviour`.

mod behaviour;
mod json;
mod routes;
mod text;
mod tokens;

use crate::case::Case;
use crate::check::Check;
use crate::token::Signer;

/// The tables. They take post 1 and user 1 to exist, as they do in every dataset.
pub fn cases(signer: &Signer) -> Vec<Case> {
    let mut cases = routes::cases(signer);
    cases.extend(tokens::cases(signer));
    cases.extend(json::cases(signer));
    cases.extend(text::cases(signer));
    cases
}

pub fn checks(signer: &Signer) -> Vec<Check> {
    let mut checks: Vec<Check> = cases(signer).into_iter().map(Case::into_check).collect();
    checks.extend(behaviour::checks());
    checks
}
