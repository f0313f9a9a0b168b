// Package exectest is the conformance suite of Corral: the cases that every
// [corral.Executor] passes, whatever it runs commands on. A behaviour of the
// contract is a [Case] here first and code afterwards; docs/reference/conformance.md is
// the list of them, generated from this package.
//
// An executor's package describes itself as a [Target] and calls [Run]:
//
//	func TestConformance(t *testing.T) {
//		exectest.Run(t, exectest.Target{
//			Name:      "hostexec",
//			New:       func(t testing.TB) corral.Executor { … },
//			Workspace: dir,
//			TestProg:  exectest.BuildTestProg(t, dir),
//			BaseEnv:   map[string]string{"PATH": "/usr/bin:/bin"},
//		})
//	}
//
// The cases look at an executor only through the contract, and at its files
// and processes only through commands that it runs. They need a POSIX sh,
// coreutils or the busybox applets of the same names, and testprog.
//
// That each case can fail is tested here as well: a small executor of the
// tests (localref) passes them, and variants of it with one defect each are
// caught by the case meant for that defect.
//
// The suite does not measure speed, does not attack the executor (that is
// fuzzing's work, beside the parsers) and does not test how executors are
// configured.
package exectest
