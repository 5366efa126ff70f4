// Package hostile attacks a running broker from outside: broken bodies, slow
// and vanishing clients, floods, full disks and killed processes. Every test is
// named by what must hold under the attack. Its tests build the binary once and
// end only the processes they started.
package hostile
