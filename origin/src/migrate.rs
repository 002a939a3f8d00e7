//! `origin migrate`: our tables in a PostgreSQL database, brought to this version.

use crate::store::postgres;
use crate::store::target::Target;

#[derive(Debug, clap::Args)]
pub struct MigrateArgs {
    /// The database: postgres://USER@HOST/NAME
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    to: Target,
}

pub fn run(args: MigrateArgs) -> Result<(), Box<dyn std::error::Error>> {
    let Target::Postgres(options) = &args.to else {
        return Err("SQLite's tables never change: only a PostgreSQL database is migrated".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(postgres::migrate(options))?;
    println!("{}: the tables are those of this version", args.to);
    Ok(())
}
