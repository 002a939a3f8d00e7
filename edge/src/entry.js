// The Worker's entry: hands each request to the wasm module, and keeps a panic in there from
// costing more than the request that met it.
//
// A panic ends in a trap, after which the instance still has its memory and the requests that are
// waiting in it. Replacing it at once, as workers-rs does, would fail all of them. So it serves on
// until nothing waits in it, and only then makes room for a new one; or after a few panics, since
// each may have left something locked.
import * as wasm from "./index.js";

const PANICS_AT_MOST = 8;
const health = wasm.__worker_init_state(); // The panic hook of workers-rs sets `criticalError`.
let panics = 0;
let waiting = 0;

function replaceIfDue() {
  if (health.criticalError) {
    health.criticalError = false;
    panics += 1;
  }
  if (panics > 0 && (waiting === 0 || panics >= PANICS_AT_MOST)) {
    console.log("edge: a new instance after a panic");
    wasm.__wbg_reset_state();
    health.criticalError = false;
    panics = 0;
    waiting = 0;
  }
}

export default {
  fetch(request, env, ctx) {
    if (panics > 0 || health.criticalError) replaceIfDue();
    let response;
    try {
      response = wasm.fetch(request, env, ctx);
    } catch (error) {
      console.error("edge:", error);
      return wasm.panicked();
    }
    if (response instanceof Response) return response;
    waiting += 1;
    return response.finally(() => {
      waiting = Math.max(0, waiting - 1);
    });
  },
};
