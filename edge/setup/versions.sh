# The build tools that neither Cargo.lock nor package-lock.json names.
WORKER_BUILD=0.8.7      # = `worker` in Cargo.toml
WASM_BINDGEN=0.2.130    # = `wasm-bindgen` in Cargo.toml
NODE=22.23.3            # fetched where the machine's own is older than wrangler takes
