// Package crash proves that a power cut at any moment loses nothing that was
// acknowledged. Its tests are all there is.
//
// A broker in a child process works on a file system of the test (FUSE). That
// file system notes every change and every sync, in order, so that afterwards
// the test can say, for a cut behind any of them, what a disk may hold: all
// that was synced, and of the rest nothing, everything, torn pieces or any
// subset. Each such image is opened and compared with all that the broker
// had answered until then.
//
// Steps of the disk can also fail, each once; what the broker does then is
// checked in the same way.
//
// The tests need /dev/fuse and root, and run with QUEEND_CRASH=1 only: make
// crash. CRASH_SEED is where chance begins, CRASH_TIME how long load goes on,
// CRASH_OUT a directory for images that were wrong; with CRASH_LOG=1 brokers
// write their log to stderr. The process that serves the file system never opens a file on it;
// who does hangs, unkillably, when it exits.
package crash
