// Package escape is the host's side of the tries to get out of a sandbox: the targets
// on the host ([Site]), and the results ([Result]).
//
// The tries themselves are in the program corral-escape (package e2e/escape/probes),
// which runs inside. A try has succeeded only if it really reached a target: each
// target holds a secret (the sandbox knows only its hash, [Site.Is]), and a
// [Canary] notices itself that it was touched.
//
// It is used by the tests in e2e/escape and by corral doctor --deep. The tests also
// show that every try succeeds if one protection is taken away. The doctor makes those
// tries on a user's machine that need no target. A try is harmless even if it succeeds:
// it writes only bytes that it has read, and signals or connects to only the canary.
// Bombs are not harmless, and only the tests use them.
package escape
