//! `origin seed`: the deterministic dataset, into SQLite or PostgreSQL.

mod content_hash;
mod dataset;
mod interrupt;
mod postgres;
mod progress;
mod random;
mod sqlite;
mod tokens;
mod words;

use std::{
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::store::target::Target;
pub use dataset::{Dataset, FULL_CONTENT_SHA256, Like, Likes, Post, Scale, User};
use interrupt::Interrupt;
use progress::Progress;
use sqlx::{Connection, postgres::PgConnectOptions};

#[derive(Clone, Debug, clap::Args)]
pub struct SeedArgs {
    /// The database to fill: sqlite:PATH or postgres://USER@HOST/NAME
    // Text until `run`, as clap would show a URL that it could not parse, password and all.
    #[arg(long, value_name = "URL", required_unless_present = "tokens")]
    pub to: Option<String>,

    /// 50,000 users and 500,000 posts, or a hundredth of that
    #[arg(long, value_enum, default_value = "full")]
    pub scale: NamedScale,

    /// Any other number of users
    #[arg(long, conflicts_with = "scale", requires = "posts", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub users: Option<u32>,

    /// Any other number of posts
    #[arg(long, conflicts_with = "scale", requires = "users", value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    pub posts: Option<u32>,

    /// Also write tokens for the first 20,000 users, signed with JWT_SECRET, to this file
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,

    /// Compare the content hash of what the database holds with what it should be; a database
    /// that already holds rows is only checked
    #[arg(long, requires = "to")]
    pub verify: bool,

    /// Replace the rows that the database already holds
    #[arg(long, requires = "to")]
    pub replace: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum NamedScale {
    Full,
    Small,
}

impl SeedArgs {
    fn scale(&self) -> Scale {
        match (self.users, self.posts, self.scale) {
            (Some(users), Some(posts), _) => Scale { users, posts },
            (_, _, NamedScale::Full) => Scale::FULL,
            (_, _, NamedScale::Small) => Scale::SMALL,
        }
    }
}

/// One line for whoever typed the command.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {reason}")]
pub struct SeedError {
    subject: String,
    reason: Error,
}

impl SeedError {
    fn new(subject: impl ToString, reason: Error) -> Self {
        Self {
            subject: subject.to_string(),
            reason,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    BadTarget(String),
    #[error("already holds rows; --replace replaces them, --verify checks them")]
    HoldsRows,
    #[error("holds something else than this server's tables; choose another target")]
    NotOurs,
    #[error("is in use by another process; stop that first")]
    InUse,
    #[error("is being seeded by another process")]
    Seeding,
    #[error("interrupted; nothing was left half done")]
    Interrupted,
    #[error("the path is not UTF-8, which SQLite needs")]
    NotUtf8,
    #[error("content sha256 is {found}, expected {expected}")]
    ContentDiffers { found: String, expected: String },
    #[error("set JWT_SECRET, the secret that signs the tokens")]
    NoSecret,
    #[error("{path}: {error}", path = .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Postgres(#[from] sqlx::Error),
    #[error(transparent)]
    Migrate(#[from] sqlx::migrate::MigrateError),
}

impl Error {
    fn io(path: &Path, error: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            error,
        }
    }
}

/// The whole command. Builds its own runtime, so call it outside of one.
pub fn run(args: SeedArgs) -> Result<(), SeedError> {
    let target: Option<Target> = match args.to.as_deref().map(str::parse).transpose() {
        Ok(target) => target,
        Err(reason) => return Err(SeedError::new("--to", Error::BadTarget(reason))),
    };
    let dataset = Dataset::new(args.scale());
    if let Some(file) = &args.tokens {
        // First, as it is the part that may lack something.
        let count = tokens::write(file, &dataset)
            .map_err(|reason| SeedError::new(file.display(), reason))?;
        eprintln!("seed: {count} tokens in {}", file.display());
    }
    let Some(target) = target else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(|error| Error::io(Path::new("runtime"), error))
        .and_then(|runtime| match &target {
            Target::Sqlite(path) => runtime.block_on(seed_sqlite(&args, path, dataset)),
            Target::Postgres(options) => runtime.block_on(seed_postgres(&args, options, dataset)),
        })
        .map_err(|reason| SeedError::new(target, reason))
}

/// Creates an SQLite database of this scale unless the file is there; says whether it did.
/// For `origin dev`, which has a server to start and wants no progress told.
pub fn create_sqlite_if_absent(path: &Path, scale: Scale) -> Result<bool, SeedError> {
    if path.exists() {
        return Ok(false);
    }
    let interrupt = Interrupt::default();
    sqlite::write(
        path,
        &Dataset::new(scale),
        &Progress::silent(&interrupt),
        &interrupt,
    )
    .map(|()| true)
    .map_err(|reason| SeedError::new(path.display(), reason))
}

async fn seed_sqlite(args: &SeedArgs, path: &Path, dataset: Dataset) -> Result<(), Error> {
    let interrupt = Interrupt::default();
    let work = {
        let (args, path, interrupt) = (args.clone(), path.to_owned(), interrupt.clone());
        move || {
            let write = must_write(&args, sqlite::holds_rows(&path)?)?;
            if write {
                let clock = Instant::now();
                let progress = Progress::new(dataset.row_total(), &interrupt);
                sqlite::write(&path, &dataset, &progress, &interrupt)?;
                drop(progress);
                tell_written(&dataset, clock);
            }
            if args.verify {
                let progress = Progress::new(dataset.row_total(), &interrupt);
                let found = sqlite::content_sha256(&path, &progress, &interrupt)?;
                drop(progress);
                verify(&dataset, found)?;
            }
            Ok(())
        }
    };
    // On a thread of its own, so that this one can see a signal.
    let mut work = tokio::task::spawn_blocking(work);
    let outcome = tokio::select! {
        outcome = &mut work => outcome,
        signal = interrupt::signal() => {
            signal.map_err(|error| Error::io(Path::new("signals"), error))?;
            interrupt.raise();
            work.await
        }
    };
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

async fn seed_postgres(
    args: &SeedArgs,
    options: &PgConnectOptions,
    dataset: Dataset,
) -> Result<(), Error> {
    let interrupt = Interrupt::default();
    let work = async {
        let mut connection = postgres::open(options).await?;
        if must_write(args, postgres::holds_rows(&mut connection).await?)? {
            let clock = Instant::now();
            let progress = Progress::new(dataset.row_total(), &interrupt);
            postgres::write(&mut connection, &dataset, &progress).await?;
            drop(progress);
            tell_written(&dataset, clock);
        }
        if args.verify {
            let progress = Progress::new(dataset.row_total(), &interrupt);
            let found = postgres::content_sha256(&mut connection, &progress).await?;
            drop(progress);
            verify(&dataset, found)?;
        }
        Ok(connection.close().await?)
    };
    tokio::select! {
        outcome = work => outcome,
        signal = interrupt::signal() => {
            signal.map_err(|error| Error::io(Path::new("signals"), error))?;
            // Dropping the work closes its connection, and the server rolls back.
            Err(Error::Interrupted)
        }
    }
}

fn must_write(args: &SeedArgs, holds_rows: bool) -> Result<bool, Error> {
    match (holds_rows, args.replace, args.verify) {
        (false, _, _) | (true, true, _) => Ok(true),
        (true, false, true) => Ok(false),
        (true, false, false) => Err(Error::HoldsRows),
    }
}

fn tell_written(dataset: &Dataset, clock: Instant) {
    let (Scale { users, posts }, likes) = (dataset.scale(), dataset.like_total());
    let seconds = clock.elapsed().as_secs_f64();
    eprintln!("seed: {users} users, {posts} posts, {likes} likes in {seconds:.1} s");
}

fn verify(dataset: &Dataset, found: String) -> Result<(), Error> {
    let expected = match dataset.scale() {
        Scale::FULL => FULL_CONTENT_SHA256.to_owned(),
        _ => dataset.content_sha256(),
    };
    if found != expected {
        return Err(Error::ContentDiffers { found, expected });
    }
    println!("content sha256 {found}");
    Ok(())
}
