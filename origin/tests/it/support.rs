use std::time::SystemTime;

use shared::token::{Keys, User};
use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::{Origin, OriginConfig, origin};

pub const BINARY: &str = env!("CARGO_BIN_EXE_origin");

/// A small dataset of one's own.
pub fn small_dataset() -> Sqlite {
    Datasets::new(BINARY).sqlite(Scale::Small).unwrap()
}

pub fn serving(dataset: &Sqlite) -> OriginConfig {
    OriginConfig::new(BINARY, &dataset.url())
}

/// An hour for the user of this id.
pub fn token_of(user_id: i64) -> String {
    let now_s = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
    let user = User {
        id: user_id,
        username: format!("user_{user_id}"),
    };
    Keys::new(origin::SECRET.as_bytes()).sign(&user, now_s, now_s + 3_600)
}

/// An origin on a small dataset, with these variables set. The dataset goes away with the origin.
pub fn origin(variables: &[(&str, &str)]) -> (Origin, Sqlite) {
    let dataset = small_dataset();
    let config = variables
        .iter()
        .fold(serving(&dataset), |config, (name, value)| {
            config.env(name, value)
        });
    (Origin::start(config).unwrap(), dataset)
}
