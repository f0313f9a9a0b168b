// Package probes tries to get out of the container that it runs in.
//
// [All] is the table of tries. Each says what it does, what is known of the way
// out, and the one weakening ([Weakening]) by which it would succeed: a test
// makes such a container and demands that, so that no try is kept that cannot
// fail. [Main] is the program corral-escape, which the tests and corral doctor --deep put
// into sandboxes. No package of the product imports this one.
//
// A try does nothing to the machine where it succeeds: it writes what it read,
// touches the canary alone ([escape.Site]), and what it makes goes with the
// container. Bombs are the exception: they are not in the table, and the tests
// alone call them.
//
// Linux only; elsewhere Main says so.
package probes
