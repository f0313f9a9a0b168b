// Package escape is the host's side of the tries to get out of a sandbox: what
// is laid out for them to find ([Site]), and how they turned out ([Result]).
//
// The tries themselves are in the program corral-escape (package e2e/escape/probes),
// which runs inside. They are judged by what they could really do: each thing that is laid out holds a
// secret whose hash alone the inside knows ([Site.Is]), and a [Canary]
// sees by itself that it was touched.
//
// Who uses it: the tests in e2e/escape, which also show that every try succeeds
// where one protection is taken away, and corral doctor --deep, which makes
// those tries on a user's machine that need nothing laid out beforehand. All
// tries are harmless where they succeed, too: what is written is what was read,
// what is signalled or connected to is the canary. Bombs are not, and are for
// the tests alone.
package escape
