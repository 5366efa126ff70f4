// Package linear checks what many clients at once see of a broker. TestLinear
// records histories of concurrent calls over HTTP, with kills and restarts in
// the middle, and looks for an order of them that a sequential model allows.
// TestStress runs the broker of this module in-process, as hard as it can, and
// checks what must hold for every interleaving. The tests named by a rule hold
// the clock still, move it or stop the process.
//
// LINEAR_TIME, LINEAR_SEED, STRESS_TIME and STRESS_SEED change how long the
// two run and from which seed; LINEAR_OUT is a directory for drawings of the
// histories that no order explains.
package linear
